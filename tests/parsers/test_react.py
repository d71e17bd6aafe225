import json
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from parsers import parse_react
from parsers.react import read_text
from parsers.types import LEVELS, Tool

TOOLS = json.loads(
    (Path(__file__).parents[2] / "datasets" / "cases" / "react_tools.json").read_text("utf-8")
)
MORE = [
    Tool(
        "ask",
        "",
        {
            "type": "object",
            "properties": {"question": {"type": "string"}},
            "required": ["question"],
        },
    ),
    Tool("list_rooms", "", {"type": "object", "properties": {"floor": {"type": "integer"}}}),
]
FINISH = Tool(
    "finish",
    "",
    {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
)


def call(name, **arguments):
    return {"call": name, "arguments": arguments}


def final(text):
    return [{"final": text}]


def refused(kind):
    return [{"failure": kind}]


OSLO = [call("get_weather", city="Oslo")]
BERN = call("get_weather", city="Bern")
STEP = 'Action: get_weather\nAction Input: {"city": "Oslo"}'


def moves(reading):
    if reading.failure is not None:
        return [{"failure": reading.failure.kind}]
    if reading.final is not None:
        return [{"final": reading.final}]
    return [call(one.name, **one.arguments) for one in reading.good_calls]


def read(text, tools=TOOLS, **options):
    return parse_react(text, tools, **options)


LABELS = {
    "a label stands at the start of a line": (f"Thought: x\n{STEP}", OSLO),
    "a word in a sentence is no label": (f"The Action, as ever, comes next.\n{STEP}", OSLO),
    "a list mark before a label is taken off": (
        '- Thought: x\n- Action: get_weather\n- Action Input: {"city": "Oslo"}',
        OSLO,
    ),
    "a quote mark before every line is taken off": (
        '> Thought: x\n> Action: get_weather\n> Action Input: {\n>   "city": "Oslo"\n> }',
        OSLO,
    ),
    "a quoted answer keeps its lines": ("> Final Answer: one\n> two", final("one\ntwo")),
    "a heading mark before a label is taken off": (
        '### Thought: x\n### Action: get_weather\n### Action Input: {"city": "Oslo"}',
        OSLO,
    ),
    "a heading needs no colon": (
        '## Thought\nx\n## Action\nget_weather\n## Action Input\n{"city": "Oslo"}',
        OSLO,
    ),
    "a bold line that is only the label needs no colon": (
        '**Action**\nget_weather\n**Action Input**\n{"city": "Oslo"}',
        OSLO,
    ),
    "a plain line that is only the label words is no label": (
        "Final Answer\n42",
        final("Final Answer\n42"),
    ),
    "bold around the label": ('**Action:** get_weather\n**Action Input:** {"city": "Oslo"}', OSLO),
    "bold around the whole line": (
        '**Action: get_weather**\n**Action Input: {"city": "Oslo"}**',
        OSLO,
    ),
    "bold around a whole answer": ("**Final Answer: 42**", final("42")),
    "bold that is the answer's own": ("Final Answer: **42**", final("**42**")),
    "a number mark before a label": (
        '1. Action: get_weather\n2. Action Input: {"city": "Oslo"}',
        OSLO,
    ),
    "several marks before a label": (
        '> - **Action:** get_weather\n> - **Action Input:** {"city": "Oslo"}',
        OSLO,
    ),
    "a BOM before the first label": (f"\ufeff{STEP}", OSLO),
    "zero-width and ideographic spaces before labels": (
        '\u200bAction: get_weather\n\u3000Action Input: {"city": "Oslo"}',
        OSLO,
    ),
    "an emoji before a label": ('🔧 Action: get_weather\n📥 Action Input: {"city": "Oslo"}', OSLO),
    "any case": ('tHOUGHT: x\naCTION: get_weather\nACTION input: {"city": "Oslo"}', OSLO),
    "a fullwidth colon": ('Action：get_weather\nAction Input：{"city": "Oslo"}', OSLO),
    "nothing between the words": ('Action: get_weather\nActionInput: {"city": "Oslo"}', OSLO),
    "an underscore between the words": (
        'Action: get_weather\naction_input: {"city": "Oslo"}',
        OSLO,
    ),
    "a space before the colon": ('Action : get_weather\nAction Input : {"city": "Oslo"}', OSLO),
    "行动 and 行动输入": ('思考：x\n行动：get_weather\n行动输入：{"city": "Oslo"}', OSLO),
    "动作 and 动作输入": ('想法：x\n动作：get_weather\n动作输入：{"city": "Oslo"}', OSLO),
    "工具 and 参数": ('思考：x\n工具：get_weather\n参数：{"city": "Oslo"}', OSLO),
    "行动 and 输入": ('行动: get_weather\n输入: {"city": "Oslo"}', OSLO),
    "Tool and Tool Input": ('Tool: get_weather\nTool Input: {"city": "Oslo"}', OSLO),
    "Tool Use and Input": ('Tool Use: get_weather\nInput: {"city": "Oslo"}', OSLO),
    "Action and Arguments": ('Action: get_weather\nArguments: {"city": "Oslo"}', OSLO),
    "Use where an offered tool follows": ('Use: get_weather\nInput: {"city": "Oslo"}', OSLO),
    "Use before anything else is text": ("Use: a hammer", final("Use: a hammer")),
    "a number behind the words": (
        'Thought 1: x\nAction 1: get_weather\nAction Input 1: {"city": "Oslo"}',
        OSLO,
    ),
    "a number between the words": ('Action 2: get_weather\nAction 2 Input: {"city": "Oslo"}', OSLO),
    "最终答案": ("思考：好\n最终答案：42", final("42")),
    "答案": ("答案: 42", final("42")),
    "Answer without a thought": ("Answer: 42", final("42")),
    "FinalAnswer": ("FinalAnswer: 42", final("42")),
    "Actionable is no label": ("Actionable: yes", final("Actionable: yes")),
    "everything on one line": (
        'Thought: x Action: get_weather Action Input: {"city": "Oslo"}',
        OSLO,
    ),
    "one line, Chinese": ('思考：查 行动：get_weather 行动输入：{"city": "Oslo"}', OSLO),
    "one line without a thought": ('Action: get_weather Action Input: {"city": "Oslo"}', OSLO),
    "a final answer inside of a line": ("Thought: I know it. Final Answer: 42", final("42")),
    "an answer behind a step on one line is dropped": (
        'Thought: x Action: get_weather Action Input: {"city": "Oslo"} Final Answer: 12 degrees',
        OSLO,
    ),
    "labels inside a line in another order do not count": (
        'Thought: Final Answer: x Action: get_weather Action Input: {"city": "Oslo"}',
        refused("no_move"),
    ),
    "two steps on one line are not guessed at": (
        'Action: get_weather Action Input: {"city": "Oslo"} Action: get_weather Action Input: {"city": "Bern"}',
        refused("ambiguous_calls"),
    ),
    "a label inside a line whose action is not offered does not count": (
        "Thought: the Action: fly Action Input: {}",
        refused("no_move"),
    ),
    "a label in quotes inside of a line does not count": (
        'Thought: they write "Final Answer: 42" in the end',
        refused("no_move"),
    ),
    "a label inside of a thought's line gives way to one at a line's start": (
        f"Thought: I must not write Final Answer: now\n{STEP}",
        OSLO,
    ),
    "an action inside of the thought's line, its input on the next": (
        'Thought: x. Action: get_weather\nAction Input: {"city": "Oslo"}',
        OSLO,
    ),
    "a label in a JSON value is none": (
        'Action: search\nAction Input: {"query": "a\nFinal Answer: b"}',
        [call("search", query="a\nFinal Answer: b")],
    ),
    "a label in a quoted value is none": (
        'Action: get_weather\nAction Input: "Oslo\nObservation: x"',
        [call("get_weather", city="Oslo\nObservation: x")],
    ),
    "a label in a fence that holds a value is none": (
        'Action: search\nAction Input:\n```json\n{"query": "a\nAction: b"}\n```',
        [call("search", query="a\nAction: b")],
    ),
    "a label in a closed think block is none": (
        f"<think>\nFinal Answer: no\n</think>\n{STEP}",
        OSLO,
    ),
    "a label in call syntax is none": (
        'Action: search(query="a\nFinal Answer: b")',
        [call("search", query="a\nFinal Answer: b")],
    ),
    "a label in a brace that never closes is one": (
        'Action: get_weather\nAction Input: {"city": "Oslo"\nObservation: 12\nFinal Answer: 12',
        OSLO,
    ),
    "a line that begins with a parameter's name is a value": (
        "Action: ask\nAction Input:\nquestion: who?",
        [call("ask", question="who?")],
    ),
}

ORDER = {
    "text from the first Observation on is dropped": (
        f"{STEP}\nObservation: 12\nFinal Answer: 12",
        OSLO,
    ),
    "观察 is an Observation": (f"{STEP}\n观察：12\n最终答案：12", OSLO),
    "观察结果 is an Observation": (f"{STEP}\n观察结果: 12", OSLO),
    "a cut piece of Observation is dropped": ("Final Answer: 42\nObserv", final("42")),
    "a piece of Observation behind a bare value is dropped": (
        "Action: get_weather\nAction Input: Oslo\nObservatio",
        OSLO,
    ),
    "观 at the end is a piece of 观察": ("最终答案：42\n观", final("42")),
    "an action before a final answer wins": (f"{STEP}\nFinal Answer: 42", OSLO),
    "an unreadable action before a final answer wins too": (
        'Action: get_weather\nAction Input: {"town": "Oslo"}\nFinal Answer: 42',
        refused("schema_violation"),
    ),
    "a final answer before an action wins": (f"Final Answer: 42\n{STEP}", final("42")),
    "two actions with nothing between are two calls": (
        f'{STEP}\nAction: get_weather\nAction Input: {{"city": "Bern"}}',
        [*OSLO, BERN],
    ),
    "two actions with a thought between are two calls": (
        f'{STEP}\nThought: and\nAction: get_weather\nAction Input: {{"city": "Bern"}}',
        [*OSLO, BERN],
    ),
    "the same action twice is two calls": (f"{STEP}\n{STEP}", [*OSLO, *OSLO]),
    "no label at all is a final answer": ("It is 12 degrees.", final("It is 12 degrees.")),
    "a thought and no move": ("Thought: I wonder.", refused("no_move")),
    "a label and no move": ('Action Input: {"city": "Oslo"}', refused("no_move")),
    "Action None is no action": ("Thought: x\nAction: None", refused("no_move")),
    "Action N/A before an answer": ("Action: N/A\nFinal Answer: 42", final("42")),
    "Action 无": ("行动：无\n最终答案：42", final("42")),
    "Action None with an input": (
        "Action: None\nAction Input: None\nFinal Answer: 42",
        final("42"),
    ),
    "Action None before a real one": (f"Action: None\n{STEP}", OSLO),
    "no tool needed": ("Action: No tool needed.\nFinal Answer: 42", final("42")),
    "无需工具": ("行动：无需工具，直接回答\n最终答案：42", final("42")),
    "no action, with an offered name in it, is unknown": (
        "Action: no need for get_weather",
        refused("unknown_tool"),
    ),
    "Finish with brackets": ("Action: Finish[42]", final("42")),
    "Finish with brackets inside": ("Action: Finish[see [4] and [5]]", final("see [4] and [5]")),
    "Finish over several lines": ("Action: Finish[a\nInput: b\nc]", final("a\nInput: b\nc")),
    "Finish without its bracket": ("Action: Finish[see", refused("truncated_output")),
    "Final Answer as an action's name": ("Action: Final Answer\nAction Input: 42", final("42")),
    "Final Answer as an action's name, in quotes": (
        'Action: "Final Answer"\nAction Input: "It is 42."',
        final("It is 42."),
    ),
    "Final Answer as an action's name, its text on the line": (
        "Action: Final Answer: 42",
        final("42"),
    ),
    "最终答案 as an action's name": ("行动：最终答案\n行动输入：42", final("42")),
    "Final Answer in an action object": (
        'Action: {"action": "Final Answer", "action_input": "42"}',
        final("42"),
    ),
    "a think block is thought": (f"<think>x</think>{STEP}", OSLO),
    "all before an orphan closer is thought": (f"Final Answer: no\nx</think>\n{STEP}", OSLO),
    "an answer directly behind an orphan closer": ("hm</think>Final Answer: 42", final("42")),
    "an unlabelled answer behind a think block": ("<think>x</think>\n42", final("42")),
    "an unclosed think block is cut": (f"<think>x\n{STEP}", refused("truncated_output")),
    "an unclosed think block behind a whole move": (f"{STEP}\n<think>and now", OSLO),
    "a think block between an action and its input": (
        'Action: get_weather\n<think>Oslo?</think>\nAction Input: {"city": "Oslo"}',
        OSLO,
    ),
    "a tag that an answer talks of is text": (
        "Final Answer: The tag </think> closes a block.",
        final("The tag </think> closes a block."),
    ),
    "a tag in backticks is text": ("Final Answer: `<think>` opens.", final("`<think>` opens.")),
    "a tag in a string of a block does not close it": (
        '<think>x\nAction: search\nAction Input: {"query": "what is </think> for"}',
        refused("truncated_output"),
    ),
    "Question ends an answer": ("Final Answer: 42\nQuestion: and?\nAnswer: 43", final("42")),
    "问题 ends an answer": ("最终答案：42\n问题：然后？", final("42")),
    "Question before a move is an echo": (f"Question: what?\nThought: x\n{STEP}", OSLO),
    "a Thought ends an answer": ("Final Answer: 42\nThought: done", final("42")),
    "a second Final Answer ends the first": ("Final Answer: 42\nFinal Answer: 43", final("42")),
    "an empty first answer gives way": ("Final Answer:\nFinal Answer: 43", final("43")),
    "an action without an offered tool is the answer's text": (
        "Final Answer: Do this.\nAction: call us\nAnswer: soon",
        final("Do this.\nAction: call us\nAnswer: soon"),
    ),
    "an input line is the answer's text": (
        "Final Answer: Form\nInput: name",
        final("Form\nInput: name"),
    ),
    "an unknown action before a later one is thought": (f"Action: ponder\n{STEP}", OSLO),
    "an unknown action before an answer is unknown": (
        "Action: ponder\nFinal Answer: 42",
        refused("unknown_tool"),
    ),
    "an unknown action behind a good one leaves it good": (f"{STEP}\nAction: fly", OSLO),
    "an input before any action is thought": (f"Thought: x\nInput: y\n{STEP}", OSLO),
    "a whole step in a fence": (f"```\nThought: x\n{STEP}\n```", OSLO),
    "a thought, then a whole step in a fence": (f"Thought: x\n```\n{STEP}\n```", OSLO),
    "an answer in a fence": ("```\nThought: x\nFinal Answer: 42\n```", final("42")),
    "a step in a fence with a fence in it": (
        '```\nAction: get_weather\n```json\n{"city": "Oslo"}\n```\n```',
        OSLO,
    ),
    "a step on one line in a fence": (
        '```\nThought: x Action: get_weather Action Input: {"city": "Oslo"}\n```',
        OSLO,
    ),
    "a step in a fence in prose is text": (
        f"It looks so:\n```\n{STEP}\n```\nClear?",
        final(f"It looks so:\n```\n{STEP}\n```\nClear?"),
    ),
    "a step in a fence in an answer is text": (
        f"Final Answer: so:\n```\n{STEP}\n```",
        final(f"so:\n```\n{STEP}\n```"),
    ),
    "two steps in two fences are not read": (
        f"```\n{STEP}\n```\n```\n{STEP}\n```",
        refused("no_move"),
    ),
    "a fence that nothing closes": (f"```\nThought: x\n{STEP}", OSLO),
    "a reply that begins with an Observation": (f"Observation: 12\n{STEP}", refused("no_move")),
    "a think block and nothing else": ("<think>x</think>", refused("empty_turn")),
    "Final Answer with nothing behind it": ("Thought: x\nFinal Answer:", refused("empty_turn")),
    "nothing at all": ("", refused("empty_turn")),
    "white space": (" \n\t", refused("empty_turn")),
    "white space around an answer is taken off, inside it stays": (
        "Final Answer:  a\r\n\r\n  b \n",
        final("a\r\n\r\n  b"),
    ),
    "a control token behind an answer is dropped": ("Final Answer: 42<|im_end|>", final("42")),
    "another token behind an answer is dropped": ("Final Answer: 42 <|eom|>\n", final("42")),
    "an answer may speak of a token": (
        "Final Answer: <|im_end|> ends a turn.",
        final("<|im_end|> ends a turn."),
    ),
    "an unpaired fence behind an answer is dropped": ("Final Answer: 42\n```", final("42")),
    "a pair of fences in an answer stays": ("Final Answer:\n```\n42\n```", final("```\n42\n```")),
    "a labelled answer with markup stands": (
        'Final Answer: <tool_call>{"name": "get_time", "arguments": {}}</tool_call>',
        final('<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'),
    ),
    "what comes behind an end token is dropped": (
        f"{STEP}<|im_end|>\n<|im_start|>user\nAction: get_time",
        OSLO,
    ),
    "an answer's own Answer line stays": (
        "Final Answer: Q1\nAnswer: yes",
        final("Q1\nAnswer: yes"),
    ),
}

NAMES_AND_VALUES = {
    "a name in backticks": ('Action: `get_weather`\nAction Input: {"city": "Oslo"}', OSLO),
    "a name with a remark": (
        'Action: get_weather (to check it)\nAction Input: {"city": "Oslo"}',
        OSLO,
    ),
    "a name with a fullwidth remark": (
        'Action: get_weather（先查天气）\nAction Input: {"city": "Oslo"}',
        OSLO,
    ),
    "a name with empty parentheses": (
        'Action: get_weather()\nAction Input: {"city": "Oslo"}',
        OSLO,
    ),
    "a name with functions.": (
        'Action: functions.get_weather\nAction Input: {"city": "Oslo"}',
        OSLO,
    ),
    "a name with a token": (
        'Action: get_weather<|channel|>commentary\nAction Input: {"city": "Oslo"}',
        OSLO,
    ),
    "a token behind a name does not end the step": (
        'Action: get_weather<|end|>\nAction Input: {"city": "Oslo"}',
        OSLO,
    ),
    "a name in a phrase": (
        'Action: I will use get_weather now\nAction Input: {"city": "Oslo"}',
        OSLO,
    ),
    "a name on the next line": ('Action:\nget_weather\nAction Input: {"city": "Oslo"}', OSLO),
    "a name in brackets": ('Action: [get_weather]\nAction Input: {"city": "Oslo"}', OSLO),
    "two names on one line": ("Action: get_weather or get_time", refused("ambiguous_calls")),
    "no name": ('Action:\nAction Input: {"city": "Oslo"}', refused("missing_tool_name")),
    "no name, but an object that names it": (
        'Action:\nAction Input: {"action": "get_weather", "action_input": {"city": "Oslo"}}',
        OSLO,
    ),
    "a name cut short": ("Action: get_weath", refused("unknown_tool")),
    "an action that is an object": (
        'Action: {"name": "get_weather", "arguments": {"city": "Oslo"}}',
        OSLO,
    ),
    "an action that is an object in a fence": (
        'Action:\n```json\n{"action": "get_weather", "action_input": {"city": "Oslo"}}\n```',
        OSLO,
    ),
    "an action object inside tool_call": (
        'Action: {"tool_call": {"tool": "get_weather", "tool_input": {"city": "Oslo"}}}',
        OSLO,
    ),
    "an action object whose input is a text": (
        'Action: {"action": "get_weather", "action_input": "Oslo"}',
        OSLO,
    ),
    "an action object of a tool that needs nothing": (
        'Action: {"action": "get_time"}',
        [call("get_time")],
    ),
    "an action object with an invented tool": (
        'Action: {"action": "fly", "action_input": {}}',
        refused("unknown_tool"),
    ),
    "an action object without a name": ('Action: {"city": "Oslo"}', refused("missing_tool_name")),
    "an action object that is cut": (
        'Action: {"action": "get_weather", "action_inp',
        refused("truncated_output"),
    ),
    "an object on the next line needs no label": ('Action: get_weather\n{"city": "Oslo"}', OSLO),
    "an object behind the name needs no label": ('Action: get_weather {"city": "Oslo"}', OSLO),
    "an object in a fence behind the action line": (
        'Action: get_weather\n```json\n{"city": "Oslo"}\n```',
        OSLO,
    ),
    "call form in a list, dotted over lines": ('Action: get_weather(\n  city="Oslo"\n)', OSLO),
    "call form and an equal input": (
        'Action: get_weather(city="Oslo")\nAction Input: {"city": "Oslo"}',
        OSLO,
    ),
    "call form and another input": (
        'Action: get_weather(city="Oslo")\nAction Input: {"city": "Bern"}',
        refused("ambiguous_calls"),
    ),
    "call form and an empty input": ('Action: get_weather(city="Oslo")\nAction Input:\n', OSLO),
    "call form, then a sentence": ('Action: get_weather(city="Oslo")\nThis asks for it.', OSLO),
    "bracket form": ("Action: get_weather[Oslo]", OSLO),
    "the same input twice": (f'{STEP}\nAction Input: {{"city": "Oslo"}}', OSLO),
    "two inputs that differ": (
        f'{STEP}\nAction Input: {{"city": "Bern"}}',
        refused("ambiguous_calls"),
    ),
    "inputs that grow": (
        'Action: search\nAction Input: {"query": "a"}\nAction Input: {"query": "a", "official": true}',
        [call("search", query="a", official=True)],
    ),
    "nothing for a tool that needs nothing": ("Action: get_time", [call("get_time")]),
    "None for a tool that needs nothing": (
        "Action: get_time\nAction Input: None",
        [call("get_time")],
    ),
    "nothing for a tool that needs something": ("Action: get_weather", refused("schema_violation")),
    "None for a tool that needs a text": (
        "Action: get_weather\nAction Input: None",
        refused("schema_violation"),
    ),
    "a number in quotes for an integer": (
        'Action: list_rooms\nAction Input: {"floor": "5"}',
        refused("schema_violation"),
    ),
    "words behind the name of a tool with a parameter are not dropped": (
        "Action: list_rooms seven",
        refused("bad_arguments_shape"),
    ),
    "pairs behind the name are read": ("Action: list_rooms floor=7", [call("list_rooms", floor=7)]),
    "text between the name and the input is dropped": (
        'Action: get_weather\nI take the city.\nAction Input: {"city": "Oslo"}',
        OSLO,
    ),
    "a thought between the name and the input": (
        'Action: get_weather\nThought: Oslo\nAction Input: {"city": "Oslo"}',
        OSLO,
    ),
    "two objects glued": (
        'Action: get_weather\nAction Input: {"city": "Oslo"}{"city": "Bern"}',
        refused("ambiguous_calls"),
    ),
    "prose before the value": (
        'Action: get_weather\nAction Input: Here it is: {"city": "Oslo"}',
        OSLO,
    ),
    "markup that names only an unknown tool": (
        '<tool_call>\n{"name": "fly", "arguments": {"to": "Oslo"}}\n</tool_call>',
        refused("unknown_tool"),
    ),
    "prose about markup is prose": (
        "Models write <tool_call> before a call.",
        final("Models write <tool_call> before a call."),
    ),
    "an action object without its label is out of channel": (
        '```json\n{"action": "get_weather", "action_input": {"city": "Oslo"}}\n```',
        refused("out_of_channel_call"),
    ),
    "labels in odd brackets are no answer": (
        '【行动】get_weather\n【行动输入】{"city": "Oslo"}',
        refused("no_move"),
    ),
}

ALL = {**LABELS, **ORDER, **NAMES_AND_VALUES}


@pytest.mark.parametrize(("text", "expected"), ALL.values(), ids=ALL)
def test_hardened(text, expected):
    assert moves(read(text, [*TOOLS, *MORE])) == expected


LENGTH = {
    "a thought": ("Thought: I", refused("truncated_output")),
    "nothing": ("", refused("truncated_output")),
    "a whole step": (STEP, OSLO),
    "an answer is an answer": ("Final Answer: it is", final("it is")),
    "an unlabelled answer is an answer": ("It is", final("It is")),
    "an unlabelled text that ends inside a label": (
        "It is\nFinal Ans",
        refused("truncated_output"),
    ),
    "an action without its input": ("Action: get_weather", refused("truncated_output")),
    "an action of a tool that needs nothing, without its input": (
        "Action: get_time",
        refused("truncated_output"),
    ),
    "a name cut short": ("Action: get_wea", refused("truncated_output")),
    "the end of a label": ("Action: get_time\nAction Inp", refused("truncated_output")),
    "a step, then the beginning of a label": (f"{STEP}\nThou", OSLO),
    "a step without its last brace": (STEP[:-1], refused("truncated_output")),
    "a missing brace, but an Observation behind it": (f"{STEP[:-1]}\nObservation: 12", OSLO),
    "an announced answer": ("Final Answer:", refused("truncated_output")),
    "an unknown tool with a whole input": (
        "Action: fly\nAction Input: {}",
        refused("unknown_tool"),
    ),
    "a bare value": ("Action: get_weather\nAction Input: Os", refused("truncated_output")),
}


@pytest.mark.parametrize(("text", "expected"), LENGTH.values(), ids=LENGTH)
def test_the_length_was_reached(text, expected):
    assert moves(read(text, finish_reason="length")) == expected


CUT = {
    "the end of a label counts as if it were not there": ("Final Answer: 42\nThou", final("42")),
    "the end of a label behind an action": ("Action: get_time\nAction Inp", [call("get_time")]),
    "an open string": (
        'Action: get_weather\nAction Input: {"city": "Os',
        refused("truncated_output"),
    ),
    "an open number": (
        'Action: list_rooms\nAction Input: {"floor": 1',
        refused("truncated_output"),
    ),
    "an open key": ('Action: get_weather\nAction Input: {"ci', refused("truncated_output")),
    "an open call": ('Action: get_weather(city="Os', refused("truncated_output")),
    "only the brace is missing": (STEP[:-1], OSLO),
    "only the parenthesis is missing": ('Action: get_weather(city="Oslo"', OSLO),
}


@pytest.mark.parametrize(("text", "expected"), CUT.values(), ids=CUT)
def test_a_cut_that_only_the_text_tells(text, expected):
    assert moves(read(text, [*TOOLS, *MORE], finish_reason="stop")) == expected


STRICT = {
    "the step as asked for": (f"Thought: x\n{STEP}", "json", OSLO),
    "without a thought": (STEP, "json", OSLO),
    "plain text before the first label": (f"I look it up.\n{STEP}", "json", OSLO),
    "a think block": (f"<think>x</think>\n{STEP}", "json", OSLO),
    "a BOM": (f"\ufeff{STEP}", "json", OSLO),
    "blank lines": ('Action: get_weather\n\nAction Input: {"city": "Oslo"}\n\n', "json", OSLO),
    "an answer": ("Thought: x\nFinal Answer: 42", "json", final("42")),
    "no labels": ("42", "json", refused("no_move")),
    "two actions": (f"{STEP}\n{STEP}", "json", refused("no_move")),
    "a label behind the value": (f"{STEP}\nThought: x", "json", refused("no_move")),
    "text behind the value": (f"{STEP}\nso be it", "json", refused("bad_arguments_syntax")),
    "a fence around the value": (
        'Action: get_weather\nAction Input:\n```\n{"city": "Oslo"}\n```',
        "json",
        refused("bad_arguments_syntax"),
    ),
    "a name in quotes": (
        'Action: "get_weather"\nAction Input: {"city": "Oslo"}',
        "json",
        refused("unknown_tool"),
    ),
    "an action object": (
        'Action: {"action": "get_weather", "action_input": {"city": "Oslo"}}',
        "json",
        refused("unknown_tool"),
    ),
    "a cut move": (STEP[:-1], "json", refused("truncated_output")),
    "the schema is checked": (
        'Action: get_weather\nAction Input: {"town": "Oslo"}',
        "json",
        refused("schema_violation"),
    ),
    "call form": ('Action: get_weather(city="Oslo")', "call", OSLO),
    "call form where an object was asked for": (
        'Action: get_weather(city="Oslo")',
        "json",
        refused("bad_arguments_syntax"),
    ),
    "positional call form": (
        'Action: get_weather("Oslo")',
        "call",
        refused("bad_arguments_syntax"),
    ),
    "bracket form": ("Action: get_weather[Oslo]", "bracket", OSLO),
    "bracket form where a call was asked for": (
        "Action: get_weather[Oslo]",
        "call",
        refused("bad_arguments_syntax"),
    ),
    "an object where a call was asked for": (STEP, "call", refused("bad_arguments_syntax")),
    "text behind call form": (
        'Action: get_weather(city="Oslo")\nso be it',
        "call",
        refused("bad_arguments_syntax"),
    ),
    "a repair in name and label": (
        'action: "get_weather"\naction input: {"city": "Oslo"}',
        "json",
        refused("unknown_tool"),
    ),
    "a token behind an answer": ("Final Answer: 42<|im_end|>", "json", refused("no_move")),
    "label-like lines of an answer are no repair": (
        "Final Answer: Form\nInput: name",
        "json",
        final("Form\nInput: name"),
    ),
}


@pytest.mark.parametrize(("text", "dialect", "expected"), STRICT.values(), ids=STRICT)
def test_strict(text, dialect, expected):
    assert moves(read(text, level="strict", dialect=dialect)) == expected


MARKUP = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
RESCUE = {
    "markup alone": (MARKUP, OSLO),
    "markup behind a thought": (f"Thought: x\n{MARKUP}", OSLO),
    "markup behind an action without a tool": (f"Action: None\n{MARKUP}", OSLO),
    "a good action stands before markup": (f"{STEP}\n{MARKUP}", OSLO),
    "markup with a bad input": (MARKUP.replace("city", "town"), refused("out_of_channel_call")),
}


@pytest.mark.parametrize(("text", "expected"), RESCUE.values(), ids=RESCUE)
def test_rescue(text, expected):
    got = moves(read(text, level="rescue"))
    assert got == expected or (expected == refused("out_of_channel_call") and "failure" in got[0])


TOLD = {
    "a thought": (f"Thought: x\n{STEP}", "x"),
    "text before the first label": (f"Well.\n{STEP}", "Well."),
    "a think block and a thought": (f"<think>a</think>Thought: b\n{STEP}", "a\nb"),
    "all before an orphan closer": (f"a\nb</think>\n{STEP}", "a\nb"),
    "an unknown action that is thought": (f"Action: ponder\n{STEP}", "Action: ponder"),
    "a thought behind the move is none": (f"{STEP}\nThought: x", ""),
    "two thoughts of two actions": (f"Thought: a\n{STEP}\nThought: b\n{STEP}", "a\nb"),
}


@pytest.mark.parametrize(("text", "thought"), TOLD.values(), ids=TOLD)
def test_thought(text, thought):
    assert read(text).thought == thought


REPORTED = {
    "a label": ("action: get_time\naction input: {}", "label_form"),
    "an unlabelled answer": ("42", "unlabelled_final"),
    "a step on one line": ("Action: get_time Action Input: {}", "one_line"),
    "quote marks": ("> Action: get_time\n> Action Input: {}", "quote_marks"),
    "a fence around the step": (f"```\n{STEP}\n```", "step_fence"),
    "an invented observation": (f"{STEP}\nObservation: 12", "invented_observation"),
    "a next question": (f"{STEP}\nQuestion: and?", "invented_question"),
    "a second action": (f"{STEP}\nAction: get_time\nAction Input: {{}}", "several_calls"),
    "the same action again": (f"{STEP}\n{STEP}", "repeated_call"),
    "what stands behind the move": (f"{STEP}\nFinal Answer: 42", "text_after_move"),
    "an answer as an action": ("Action: Finish[42]", "answer_as_action"),
    "no action": ("Action: None\nFinal Answer: 42", "no_action"),
    "a missing input": ("Action: get_time", "no_input"),
    "an object as an action": ('Action: {"action": "get_time"}', "action_object"),
    "a piece of a label": ("Final Answer: 42\nThou", "cut_label"),
    "a token": (f"{STEP}<|im_end|>", "after_end_token"),
    "an input without an action": (f"Action Input: {{}}\n{STEP}", "stray_input"),
    "a thought before the input": (
        'Action: get_weather\nThought: x\nAction Input: {"city": "Oslo"}',
        "thought_inside",
    ),
    "text before the input": (
        'Action: get_weather\nso:\nAction Input: {"city": "Oslo"}',
        "text_before_input",
    ),
    "an unknown action before another": (f"Action: ponder\n{STEP}", "action_as_thought"),
    "an input again": (f'{STEP}\nAction Input: {{"city": "Oslo"}}', "repeated_input"),
    "an object without its label": ('Action: get_weather\n{"city": "Oslo"}', "unlabelled_input"),
    "empty parentheses": ("Action: get_time()\nAction Input: {}", "empty_parentheses"),
    "a second answer": ("Final Answer:\nFinal Answer: 42", "answer_again"),
    "a fence behind an answer": ("Final Answer: 42\n```", "answer_residue"),
}


@pytest.mark.parametrize(("text", "repair"), REPORTED.values(), ids=REPORTED)
def test_every_repair_is_named(text, repair):
    reading = read(text)
    assert repair in [one.name for one in reading.repairs]
    assert all(0 <= one.position <= len(text) for one in reading.repairs)


def test_an_answer_that_the_limit_cut_says_so():
    reading = read("Final Answer: it is", finish_reason="length")
    assert [one.name for one in reading.repairs] == ["answer_cut"]


def test_a_call_in_markup_is_named_at_rescue():
    assert "out_of_channel" in [one.name for one in read(MARKUP, level="rescue").repairs]


def test_a_clean_step_is_not_repaired():
    for text in (f"Thought: x\n{STEP}", "Thought: x\nFinal Answer: 42", f"x\n{STEP}\n"):
        reading = read(text)
        assert (reading.repairs, reading.dropped) == ((), ())


def test_a_failing_call_among_good_ones_keeps_its_own_failure():
    reading = read(f"{STEP}\nAction: fly\nAction Input: {{}}")
    kinds = [one.failure and one.failure.kind for one in reading.calls]
    assert kinds == [None, "unknown_tool"]
    assert reading.failure is None


def test_a_failure_alone_stands_in_the_calls_too():
    reading = read('Action: get_weather\nAction Input: {"town": "Oslo"}')
    assert reading.calls[0].failure == reading.failure
    assert reading.failure.position == 34


def test_the_raw_arguments_are_kept_as_written():
    assert (
        read("Action: get_weather\nAction Input: {'city': 'Oslo'}").calls[0].raw
        == "{'city': 'Oslo'}"
    )


def test_positions_in_a_quoted_reply_are_those_of_the_text():
    text = "> Thought: x\n> Action: get_weather\n> Action Input: {'city': 'Oslo'}"
    place = next(one.position for one in read(text).repairs if one.name == "single_quotes")
    assert text[place] == "'"


def test_more_actions_than_any_reply_has_are_refused():
    assert moves(read("Action: get_time\n" * 1200)) == refused("ambiguous_calls")


def test_a_tool_called_finish_is_a_tool():
    text = 'Action: finish\nAction Input: {"code": "x"}'
    assert moves(read(text, [*TOOLS, FINISH])) == [call("finish", code="x")]


def test_tools_may_be_tools():
    tools = [Tool.from_openai(entry) for entry in TOOLS]
    assert parse_react(STEP, tools) == parse_react(STEP, TOOLS)


PIECES = strategies.sampled_from(
    [
        *(
            "Thought: ",
            "Action: ",
            "Action Input: ",
            "Final Answer: ",
            "Observation: ",
            "Question: ",
        ),
        *(
            "行动：",
            "行动输入：",
            "最终答案：",
            "观察",
            "**Action**",
            "Input:",
            "Answer:",
            "Use: ",
            "Tool: ",
        ),
        *(
            "\n",
            "\n",
            "\n",
            " ",
            "```",
            "```json\n",
            "~~~",
            "<think>",
            "</think>",
            "<|im_end|>",
            "> ",
            "- ",
        ),
        *(
            "get_weather",
            "get_time",
            "search",
            "fly",
            "None",
            "Finish[",
            "]",
            "(",
            ")",
            "[",
            "{",
            "}",
        ),
        *(
            '{"city": "Oslo"}',
            '{"query": "a\nAction: b"}',
            '"',
            "'",
            "“",
            "\\",
            ",",
            ":",
            "=",
            "city",
            "42",
        ),
        *(
            "<tool_call>",
            "</tool_call>",
            '{"name": "get_time", "arguments": {}}',
            "\r\n",
            "\r",
            "\ud800",
            "\x00",
        ),
        *(
            "observ",
            "Final Ans",
            "it is fine",
            "。",
            "\ufeff",
            "###",
            "Thought",
            "1. ",
            "\u2028",
            "functions.",
        ),
    ]
)
TEXTS = strategies.lists(PIECES, max_size=24).map("".join) | strategies.text(max_size=60)
EXAMPLES = hypothesis.settings(max_examples=300, deadline=None)


def outcomes(reading):
    return [bool(reading.good_calls), reading.final is not None, reading.failure is not None]


@EXAMPLES
@hypothesis.given(TEXTS, strategies.sampled_from(LEVELS), strategies.sampled_from([None, "length"]))
def test_any_text_has_exactly_one_outcome(text, level, finish):
    reading = read(text, [*TOOLS, *MORE], level=level, finish_reason=finish)
    assert outcomes(reading).count(True) == 1 or (
        reading.failure is not None and reading.final is None and not reading.good_calls
    )
    assert all(0 <= one.position <= len(text) for one in reading.repairs)
    assert all(0 <= one.start <= one.end <= len(text) for one in reading.dropped)


@EXAMPLES
@hypothesis.given(TEXTS, strategies.sampled_from(["json", "call", "bracket"]))
def test_a_level_only_adds_readings(text, dialect):
    strict, hardened, rescue = (
        read(text, [*TOOLS, *MORE], level=level, dialect=dialect) for level in LEVELS
    )
    if strict.failure is None:
        assert moves(hardened) == moves(strict)
        assert hardened.thought == strict.thought
    if hardened.failure is None:
        assert moves(rescue) == moves(hardened)


WORDS = strategies.text(
    strategies.characters(
        exclude_categories=["C", "Zl", "Zp", "Zs"], exclude_characters="<:：#*`~"
    ),
    min_size=1,
    max_size=40,
)


@EXAMPLES
@hypothesis.given(
    WORDS, WORDS, strategies.sampled_from(["json", "call"]), strategies.sampled_from(LEVELS)
)
def test_a_clean_step_comes_back_byte_for_byte(thought, city, dialect, level):
    value = json.dumps(city, ensure_ascii=False)
    action = {
        "json": f'Action: get_weather\nAction Input: {{"city": {value}}}',
        "call": f"Action: get_weather(city={value})",
    }[dialect]
    reading = read(f"Thought: {thought}\n{action}", level=level, dialect=dialect)
    assert (reading.thought, moves(reading)) == (thought, [call("get_weather", city=city)])


@EXAMPLES
@hypothesis.given(
    strategies.text("abc déç日本 .!?", min_size=1, max_size=30), strategies.sampled_from(LEVELS)
)
def test_a_clean_bracket_comes_back(city, level):
    if any(sign.isalpha() for sign in city):
        reading = read(f"Thought: x\nAction: get_weather[{city}]", level=level, dialect="bracket")
        assert moves(reading) == [call("get_weather", city=city.strip())]


@EXAMPLES
@hypothesis.given(WORDS, WORDS, strategies.sampled_from(LEVELS))
def test_a_clean_answer_comes_back_byte_for_byte(thought, answer, level):
    reading = read(f"Thought: {thought}\nFinal Answer: {answer}", level=level)
    assert (reading.thought, moves(reading)) == (thought, final(answer))


@EXAMPLES
@hypothesis.given(
    TEXTS, TEXTS, strategies.sampled_from(LEVELS), strategies.sampled_from([None, "length"])
)
def test_the_short_way_reads_what_the_scanner_reads(thought, value, level, finish):
    for text in (
        f'Thought: {thought}\nAction: get_weather\nAction Input: {{"city": {json.dumps(value)}}}',
        f"Thought: {thought}\nFinal Answer: {value}",
        f"Thought: {thought}\nAction: get_weather\nAction Input: {value}",
    ):
        options = {"level": level, "dialect": "json", "finish_reason": finish}
        assert read(text, **options) == read_text(text, TOOLS, **options).reading


DEEP = {
    "braces": "{",
    "brackets": "[",
    "parentheses": "(",
    "objects": '{"a":',
    "quotes": '"',
    "escaped quotes": '\\"',
    "labels": "\nAction:",
    "inputs": "\nAction Input: {",
    "think tags": "<think>",
    "closers": "</think>\n",
    "fences": "```\n",
    "new lines": "\n",
    "answers": "\nFinal Answer:",
}


@pytest.mark.parametrize("piece", DEEP.values(), ids=DEEP)
def test_a_flood_is_read_without_an_exception(piece):
    for start in ("", "Thought: x\nAction: search\nAction Input: ", "Final Answer: "):
        assert outcomes(read(start + piece * 30_000)).count(True) == 1
