"""Our reader as the output parser of a LangChain agent. SCRIPTED: no model is asked.

parsers/README.md quotes what stands between the two marks.
"""

# [quoted from here]
from langchain_classic.agents.agent import MultiActionAgentOutputParser
from langchain_core.agents import AgentAction, AgentFinish
from langchain_core.exceptions import OutputParserException

from parsers import correction, parse_react


class ReactParser(MultiActionAgentOutputParser):
    tools: list[dict]  # convert_to_openai_tool(tool) of each tool

    def parse(self, text: str) -> list[AgentAction] | AgentFinish:
        reading = parse_react(text, self.tools)
        if reading.failure is not None:  # AgentExecutor(handle_parsing_errors=True) sends it back
            told = correction(reading)
            raise OutputParserException(told, observation=told, llm_output=text, send_to_llm=True)
        if reading.final is not None:
            return AgentFinish({"output": reading.final}, text)
        return [AgentAction(call.name, call.arguments, text) for call in reading.good_calls]


# use it: create_react_agent(llm, tools, prompt, output_parser=ReactParser(tools=…))
# [to here]

from langchain_classic.agents import AgentExecutor, create_react_agent
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.prompts import PromptTemplate
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

MADE = []
PROMPT = "{tools}\n{tool_names}\nQuestion: {input}\n{agent_scratchpad}"
REPLIES = [
    "Thought: I add.\nAction: sum_up\nAction Input: {}",
    "Thought: I add.\nAction: add\nAction Input: ```json\n{'a': 2, 'b': 3,}\n```\nObservation: 6",
    "Final Answer: It is 5.",
]


@tool
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    MADE.append((a, b))
    return a + b


def main():
    parser = ReactParser(tools=[convert_to_openai_tool(add)])
    llm, prompt = FakeListLLM(responses=REPLIES), PromptTemplate.from_template(PROMPT)
    agent = create_react_agent(llm, [add], prompt, output_parser=parser)
    runner = AgentExecutor(agent=agent, tools=[add], handle_parsing_errors=True)
    answer = runner.invoke({"input": "What is 2 + 3?"})["output"]
    assert (answer, MADE) == ("It is 5.", [(2, 3)]), (answer, MADE)


if __name__ == "__main__":
    main()
    print("LangChain: the call was read and the answer given")
