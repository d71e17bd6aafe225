"""Our reader as the output parser of a LlamaIndex agent. SCRIPTED: no model is asked.

parsers/README.md quotes what stands between the two marks.
"""

# [quoted from here]
from llama_index.core.agent.react.output_parser import ReActOutputParser
from llama_index.core.agent.react.types import ActionReasoningStep, ResponseReasoningStep

from parsers import correction, parse_react


class ReactParser(ReActOutputParser):
    def __init__(self, tools):
        self.tools = [tool.metadata.to_openai_tool() for tool in tools]

    def parse(self, output: str, is_streaming: bool = False):
        reading = parse_react(output, self.tools)
        if reading.final is not None:
            return ResponseReasoningStep(thought=reading.thought, response=reading.final)
        if len(reading.good_calls) != 1:  # this agent takes one action; a ValueError is sent back
            raise ValueError(correction(reading) or "Give one action only.")
        (call,) = reading.good_calls
        return ActionReasoningStep(
            thought=reading.thought, action=call.name, action_input=call.arguments
        )


# use it: ReActAgent(tools=tools, llm=llm, output_parser=ReactParser(tools))
# [to here]

import asyncio

from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.tools import FunctionTool

MADE = []
REPLIES = [
    "Thought: I add.\nAction: sum_up\nAction Input: {}",
    "Thought: I add.\nAction: add\nAction Input: ```json\n{'a': 2, 'b': 3,}\n```\nObservation: 6",
    "Final Answer: It is 5.",
]


class Scripted(CustomLLM):
    """Says what is written, one reply after the other."""

    left: list[str]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted")

    def complete(self, prompt, formatted=False, **_):
        return CompletionResponse(text=self.left.pop(0))

    def stream_complete(self, prompt, formatted=False, **_):
        yield self.complete(prompt)


def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    MADE.append((a, b))
    return a + b


async def main():
    tools, llm = [FunctionTool.from_defaults(add)], Scripted(left=list(REPLIES))
    agent = ReActAgent(tools=tools, llm=llm, output_parser=ReactParser(tools), streaming=False)
    answer = str(await agent.run("What is 2 + 3?"))
    assert (answer, MADE) == ("It is 5.", [(2, 3)]), (answer, MADE)


if __name__ == "__main__":
    asyncio.run(main())
    print("LlamaIndex: the call was read and the answer given")
