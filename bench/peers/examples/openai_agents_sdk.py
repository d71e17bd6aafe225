"""Our reader in the openai-agents SDK: calls that a model wrote into its text. SCRIPTED, no model.

parsers/README.md quotes what stands between the two marks.
"""

# [quoted from here]
import json
from uuid import uuid4

from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall

from parsers import parse_native


class Rescued(Model):
    def __init__(self, inner: Model):
        self.inner = inner

    async def get_response(self, **asked):
        answer = await self.inner.get_response(**asked)
        tools = [{"name": t.name, "parameters": t.params_json_schema} for t in asked["tools"]]
        parts = [part for item in answer.output for part in getattr(item, "content", ())]
        text = "".join(getattr(part, "text", "") for part in parts)
        calls = parse_native({"content": text}, tools, level="rescue").good_calls
        if calls and all(item.type == "message" for item in answer.output):
            answer.output = [_as_call(call) for call in calls]
        return answer

    def stream_response(self, **asked):
        return self.inner.stream_response(**asked)


def _as_call(call):
    arguments, name = json.dumps(call.arguments), f"call_{uuid4().hex}"
    return ResponseFunctionToolCall(
        type="function_call", name=call.name, arguments=arguments, call_id=name
    )


# use it: Agent(name=…, tools=…, model=Rescued(OpenAIChatCompletionsModel(model=…, openai_client=…)))
# [to here]

import asyncio

from agents import (
    Agent,
    ModelResponse,
    Runner,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

MADE = []
REPLIES = ['```json\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n```', "It is 5."]


class Scripted(Model):
    """Says what is written, one reply after the other."""

    def __init__(self):
        self.left = list(REPLIES)

    async def get_response(self, *_, **__):
        said = ResponseOutputText(type="output_text", text=self.left.pop(0), annotations=[])
        message = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[said]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


@function_tool
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    MADE.append((a, b))
    return a + b


async def main():
    set_tracing_disabled(disabled=True)
    agent = Agent(name="adder", tools=[add], model=Rescued(Scripted()))
    answer = (await Runner.run(agent, "What is 2 + 3?")).final_output
    assert (answer, MADE) == ("It is 5.", [(2, 3)]), (answer, MADE)


if __name__ == "__main__":
    asyncio.run(main())
    print("openai-agents: the call was read and the answer given")
