"""Make ReAct replies with two or three faults at once, and the right reading of each.

The readings come from how a reply is built, never from a reader: this file imports none.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

JSON = dict[str, Any]


def _tool(name: str, required: dict[str, str], optional: dict[str, str] | None = None) -> JSON:
    kinds = {**required, **(optional or {})}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": "A tool of a made-up town.",
            "parameters": {
                "type": "object",
                "properties": {
                    key: {
                        "type": kind,
                        **({"items": {"type": "string"}} if kind == "array" else {}),
                    }
                    for key, kind in kinds.items()
                },
                "required": list(required),
                "additionalProperties": False,
            },
        },
    }


TOOLSETS: dict[str, list[JSON]] = {
    "travel": [
        _tool("find_train", {"origin": "string", "destination": "string"}, {"seats": "integer"}),
        _tool("lookup_word", {"word": "string"}),
        _tool("list_stations", {}),
        _tool("book_table", {"guests": "integer", "place": "string"}, {"outside": "boolean"}),
        _tool("tag_photo", {"title": "string"}, {"tags": "array", "album": "string"}),
    ],
    "camel": [
        _tool("getStockQuote", {"symbol": "string"}),
        _tool("sendMail", {"to": "string", "subject": "string"}, {"urgent": "boolean"}),
        _tool("uptime", {}),
        _tool("addNumbers", {"left": "number", "right": "number"}),
    ],
    "chinese": [
        _tool("查询航班", {"出发地": "string", "目的地": "string"}, {"人数": "integer"}),
        _tool("翻译文本", {"文本": "string"}),
        _tool("服务器状态", {}),
    ],
    "cyrillic": [
        _tool("найти_книгу", {"название": "string"}),
        _tool("сложить", {"первое": "number", "второе": "number"}),
        _tool("время", {}),
    ],
    "kana": [
        _tool("路線検索", {"出発": "string", "到着": "string"}),
        _tool("メモ追加", {"内容": "string"}),
    ],
    "dashed": [
        _tool("disk-usage", {"path": "string"}),
        _tool("ping_host", {"host": "string", "count": "integer"}),
        _tool("who-am-i", {}),
    ],
}

PLAIN = (
    "Oslo",
    "Ruse",
    "Cádiz",
    "Łódź",
    "Αθήνα",
    "Казань",
    "重庆",
    "那覇",
    "부산",
    "القاهرة",
    "river ferry",
    "early morning ferry to the island",
    "第二航站楼",
    "blue-green",
    "A4",
)
RICH = (
    *PLAIN,
    "a {brace} and a } stray one",
    'the word "ferry" in quotes',
    "it's late",
    "what does Final Answer: mean",
    "Action: none of these",
    "line one\nline two",
    "tab\there",
    "C:\\data\\new",
    "https://ferry.example/a//b?x=1&y=2#z",
    "50% off, (today) [only]",
    "他说“你好”，然后走了。",
    "emoji 🚆 inside",
    "</think> is a tag",
    "none",
    "True",
    "1,250",
)
PROSE = (
    "the ferry leaves before noon so the first step is to check the line; then we compare what it "
    "costs and only after that we say something to the traveller, who did not name a day. The tool "
    "input must be exact. My action should follow the rules, and my answer should wait for it. "
    "I could also search first (but a search is slow), or ask: which island? 先查一下再回答，不要"
    "猜测。 Je vérifie d'abord l'horaire. Сначала проверю расписание."
)
WORDS = PROSE.split(" ")


@dataclass
class Draft:
    """A reply while it is built; `reading` is what it says."""

    random: random.Random
    tools: list[JSON]
    name: str
    arguments: JSON
    values: tuple[str, ...] = RICH
    before: str = ""
    thought: str = "I check that first."
    labels: tuple[str, str, str, str] = ("Thought", "Action", "Action Input", "Final Answer")
    label: Callable[[str], str] = lambda word: f"{word}: "
    written: str = ""
    value: str = ""
    action: str | None = None
    """The whole of the action and its input, where a fault writes it in one."""
    gap: str = "\n"
    after: str = ""
    wrap: Callable[[str], str] = lambda text: text
    finish: str | None = None
    faults: list[str] = field(default_factory=list)
    reading: list[JSON] | None = None

    def text(self) -> str:
        thought, action, value, _ = self.labels
        move = self.action
        if move is None:
            move = f"{self.label(action)}{self.written}{self.gap}{self.label(value)}{self.value}"
        head = f"{self.label(thought)}{self.thought}{self.gap}" if self.thought else ""
        return self.before + self.wrap(head + move + self.after)


@dataclass(frozen=True)
class Compound:
    """A reply, what it says, and how it was spoiled."""

    text: str
    tools: list[JSON]
    readings: list[list[JSON]]
    faults: tuple[str, ...]
    finish: str | None


Fault = Callable[[Draft], bool]


def properties(tool: JSON) -> JSON:
    return tool["function"]["parameters"]["properties"]


def required(tool: JSON) -> list[str]:
    return tool["function"]["parameters"]["required"]


def pick_arguments(draw: random.Random, tool: JSON, strings: tuple[str, ...]) -> JSON:
    made = {}
    for key, kind in properties(tool).items():
        if key in required(tool) or draw.random() < 0.4:
            made[key] = {
                "string": lambda: draw.choice(strings),
                "integer": lambda: draw.randint(0, 999),
                "number": lambda: draw.choice([0, 7, -3, 12.5, 0.004, 1200]),
                "boolean": lambda: draw.random() < 0.5,
                "array": lambda: draw.sample(PLAIN, draw.randint(0, 3)),
            }[kind["type"]]()
    return made


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def a_call(name: str, arguments: JSON) -> list[JSON]:
    return [{"call": name, "arguments": arguments}]


def tool_of(draft: Draft) -> JSON:
    return next(tool for tool in draft.tools if tool["function"]["name"] == draft.name)


def choose_tool(draft: Draft, wanted: Callable[[JSON], bool]) -> bool:
    """Take another tool if this one does not fit the fault."""
    fitting = [tool for tool in draft.tools if wanted(tool)]
    if not fitting:
        return False
    set_call(draft, draft.random.choice(fitting))
    return True


def set_call(draft: Draft, tool: JSON) -> None:
    draft.name = tool["function"]["name"]
    draft.arguments = pick_arguments(draft.random, tool, draft.values)
    draft.written = draft.name
    draft.value = dump(draft.arguments)
    draft.reading = a_call(draft.name, draft.arguments)


def plain(draft: Draft, wanted: Callable[[JSON], bool] = lambda _: True) -> bool:
    draft.values = PLAIN
    return choose_tool(draft, wanted)


def is_single_text(tool: JSON) -> bool:
    needed = required(tool)
    return len(needed) == 1 and properties(tool)[needed[0]]["type"] == "string"


def is_bare_text(tool: JSON) -> bool:
    return is_single_text(tool) and len(properties(tool)) == 1


def has_values(tool: JSON) -> bool:
    return bool(required(tool))


# Labels


def label_case(draft: Draft) -> bool:
    change = draft.random.choice([str.lower, str.upper, str.title])
    draft.labels = tuple(change(word) for word in draft.labels)
    return True


def label_bold(draft: Draft) -> bool:
    draft.label = draft.random.choice(
        [lambda word: f"**{word}:** ", lambda word: f"**{word}**: ", lambda word: f"__{word}__: "]
    )
    return True


def label_heading(draft: Draft) -> bool:
    draft.label = draft.random.choice(
        [lambda word: f"### {word}\n", lambda word: f"## {word}: ", lambda word: f"**{word}**\n"]
    )
    return True


def label_mark(draft: Draft) -> bool:
    mark = draft.random.choice(
        ["- ", "* ", "> ", "> - ", "1. ", "2) ", "  ", "• ", "\u3000", "\u200b"]
    )
    draft.label = lambda word: f"{mark}{word}: "
    return True


def label_words(draft: Draft) -> bool:
    draft.labels = draft.random.choice(
        [
            ("思考", "行动", "行动输入", "最终答案"),
            ("想法", "动作", "动作输入", "答案"),
            ("思考", "工具", "参数", "最终答案"),
            ("思考", "行动", "输入", "最终 答案"),
            ("Thought", "Tool", "Tool Input", "Final Answer"),
            ("Thought", "Tool Use", "Input", "Answer"),
            ("Thought", "Action", "Action_Input", "Final_Answer"),
            ("Thought", "Action", "ActionInput", "FinalAnswer"),
            ("Thought 1", "Action 1", "Action Input 1", "Final Answer"),
            ("Thought", "Use", "Arguments", "Final Answer"),
        ]
    )
    return True


def label_colon(draft: Draft) -> bool:
    colon = draft.random.choice(["：", " : ", ":", " ：", ":\t"])
    draft.label = lambda word: f"{word}{colon}"
    return True


def label_blank_lines(draft: Draft) -> bool:
    draft.gap = draft.random.choice(["\n\n", "\n\n\n", "\r\n", "\n \n"])
    return True


def step_in_fence(draft: Draft) -> bool:
    if draft.before.strip() or draft.after:
        return False
    tick = draft.random.choice(["```", "```text", "~~~"])
    draft.wrap = lambda text: f"{tick}\n{text}\n{tick[:3]}"
    return True


# Names


def name_marks(draft: Draft) -> bool:
    around = draft.random.choice(["``", '""', "''", "**", "[]", "“”", "<>", "「」", "《》"])
    draft.written = f"{around[0]}{draft.name}{around[1]}"
    return True


def name_bold(draft: Draft) -> bool:
    draft.written = f"**{draft.name}**"
    return True


def name_prefix(draft: Draft) -> bool:
    draft.written = f"functions.{draft.name}"
    return True


def name_token(draft: Draft) -> bool:
    draft.written = draft.name + draft.random.choice(["<|channel|>commentary", "<|end|>"])
    return True


def name_stop(draft: Draft) -> bool:
    draft.written = draft.name + draft.random.choice([".", "。", "()", " ()"])
    return True


def name_remark(draft: Draft) -> bool:
    draft.written = draft.name + draft.random.choice(
        [" (to check it first)", " - it knows the lines", ", because it is exact", "（先查一下）"]
    )
    return True


def name_case(draft: Draft) -> bool:
    if not draft.name.isascii():
        return False
    changed = draft.name.replace("_", " ").replace("-", " ").title()
    draft.written = draft.random.choice([changed, draft.name.upper(), draft.name.title()])
    return True


def name_phrase(draft: Draft) -> bool:
    draft.written = draft.random.choice(["Use {}", "I will call {} now", "use the {} tool"]).format(
        draft.name
    )
    return True


# Values


def value_fence(draft: Draft) -> bool:
    tick = draft.random.choice(["```json\n{}\n```", "```\n{}\n```", "\n```json\n{}\n```", "`{}`"])
    draft.value = tick.replace("{}", draft.value)
    return True


def value_single_quotes(draft: Draft) -> bool:
    if not plain(draft, has_values):
        return False
    draft.value = repr(draft.arguments)
    return True


def value_curly(draft: Draft) -> bool:
    if not plain(draft, has_values):
        return False
    parts = dump(draft.arguments).split('"')
    draft.value = "".join(
        part + ("" if at == len(parts) - 1 else "“”"[at % 2]) for at, part in enumerate(parts)
    )
    return True


def value_fullwidth(draft: Draft) -> bool:
    if not plain(draft, has_values):
        return False
    draft.value = dump(draft.arguments).replace('": ', '"：').replace(", ", "，")
    return True


def value_comment(draft: Draft) -> bool:
    if not draft.arguments and not choose_tool(draft, has_values):
        return False
    inner = dump(draft.arguments)[1:-1]
    draft.value = draft.random.choice(
        ["{/* so */ %s}", "{%s // it's that\n}", "{ # as asked\n%s}", "{%s /* done */}"]
    ).replace("%s", inner)
    return True


def value_comma(draft: Draft) -> bool:
    if not draft.arguments and not choose_tool(draft, has_values):
        return False
    draft.value = dump(draft.arguments)[:-1] + draft.random.choice([",}", ", }", ",\n}"])
    return True


def value_keys(draft: Draft) -> bool:
    if not plain(draft, has_values):
        return False
    pairs = ", ".join(f"{key}: {dump(item)}" for key, item in draft.arguments.items())
    draft.value = "{" + pairs + "}"
    return True


def value_literals(draft: Draft) -> bool:
    flags = [
        tool
        for tool in draft.tools
        if any(kind["type"] == "boolean" for kind in properties(tool).values())
    ]
    if not flags:
        return False
    set_call(draft, draft.random.choice(flags))
    key = next(key for key, kind in properties(tool_of(draft)).items() if kind["type"] == "boolean")
    draft.arguments[key] = draft.random.random() < 0.5
    pairs = ", ".join(
        f"{dump(one)}: {item if one == key else dump(item)}"
        for one, item in draft.arguments.items()
    )
    draft.value = "{" + pairs + "}"
    return True


def value_raw_lines(draft: Draft) -> bool:
    if not plain(draft, is_single_text):
        return False
    key = required(tool_of(draft))[0]
    draft.arguments[key] = "first part\nsecond part"
    draft.value = dump(draft.arguments).replace("\\n", "\n")
    return True


def value_spaces(draft: Draft) -> bool:
    if not plain(draft, has_values):
        return False
    space = draft.random.choice(["\u00a0", "\u3000", "\u200b", "\n  ", "\t"])
    draft.value = dump(draft.arguments).replace(": ", f":{space}").replace('", "', f'",{space}"')
    return True


def value_twice_encoded(draft: Draft) -> bool:
    draft.value = dump(dump(draft.arguments))
    return bool(draft.arguments)


def value_wrapped(draft: Draft) -> bool:
    key = draft.random.choice(
        ["arguments", "parameters", "args", "input", "action_input", "kwargs"]
    )
    draft.value = dump({key: draft.arguments})
    return True


def value_envelope(draft: Draft) -> bool:
    draft.value = dump({"name": draft.name, "arguments": draft.arguments})
    return True


def value_list(draft: Draft) -> bool:
    draft.value = f"[{draft.value}]"
    return True


def value_call(draft: Draft) -> bool:
    if not plain(draft):
        return False
    pairs = [f"{key}={dump(item)}" for key, item in draft.arguments.items()]
    draft.value = f"{draft.name}({', '.join(pairs)})"
    return True


def value_pairs(draft: Draft) -> bool:
    if not plain(draft, has_values):
        return False
    draft.value = ", ".join(f"{key}={dump(item)}" for key, item in draft.arguments.items())
    return True


def value_flat(draft: Draft) -> bool:
    if not plain(draft, lambda tool: len(required(tool)) > 1):
        return False
    lines = [
        f"{key}: {item if isinstance(item, str) else dump(item)}"
        for key, item in draft.arguments.items()
    ]
    draft.value = "\n" + "\n".join(lines)
    return True


def value_bare(draft: Draft) -> bool:
    if not plain(draft, is_bare_text):
        return False
    only = next(iter(draft.arguments.values()))
    draft.value = draft.random.choice(["{}", '"{}"', "'{}'"]).format(only)
    return True


def value_unclosed(draft: Draft) -> bool:
    if not plain(draft, is_single_text):
        return False
    key = required(tool_of(draft))[0]
    draft.arguments = {key: draft.arguments[key]}
    draft.reading = a_call(draft.name, draft.arguments)
    draft.value = dump(draft.arguments)[:-1]
    return True


def value_inner_quotes(draft: Draft) -> bool:
    if not plain(draft, is_bare_text):
        return False
    key = required(tool_of(draft))[0]
    draft.arguments[key] = draft.random.choice(
        [
            'the "blue" line',
            '他说"再见"就走了',
            'a "b", or "c" here',
            '"open" first',
            'at the "end"',
        ]
    )
    draft.value = f'{{"{key}": "{draft.arguments[key]}"}}'
    return True


def value_path(draft: Draft) -> bool:
    if not plain(draft, is_bare_text):
        return False
    key = required(tool_of(draft))[0]
    draft.arguments[key] = draft.random.choice(
        ["D:\\Plans\\Q3.xlsx", "\\\\.\\Wide\\Share", "\\d+\\s"]
    )
    if draft.arguments[key].startswith("\\\\"):
        draft.arguments[key] = "E:\\Area\\Port"
    draft.value = f'{{"{key}": "{draft.arguments[key]}"}}'
    return True


def value_thousands(draft: Draft) -> bool:
    if not plain(draft, lambda tool: "number" in str(properties(tool))):
        return False
    key = required(tool_of(draft))[0]
    draft.arguments[key] = 12500
    draft.value = dump(draft.arguments).replace("12500", "12,500")
    return True


def value_escaped(draft: Draft) -> bool:
    if not plain(draft, has_values):
        return False
    draft.value = dump(draft.arguments).replace('"', '\\"')
    return True


def value_led(draft: Draft) -> bool:
    if "{" not in draft.value[:1]:
        return False
    draft.value = draft.random.choice(["Here it is: ", "JSON: ", "好的，", "json\n"]) + draft.value
    return True


def value_on_next_line(draft: Draft) -> bool:
    draft.value = draft.random.choice(["\n", "\n\n", "\r\n  "]) + draft.value
    return True


def value_repeated(draft: Draft) -> bool:
    draft.value = draft.value + draft.random.choice(["\n", "\n\n"]) + draft.value
    return bool(draft.arguments)


def value_mixed(draft: Draft) -> bool:
    """Write an object with many small faults at once."""
    if not plain(draft, has_values):
        return False
    draw = draft.random
    quote = draw.choice(['""', "''", "“”", "＂＂"])
    colon, comma = draw.choice([(":", ","), ("：", "，"), (": ", ", "), (" :\n  ", " ,\n")])
    key = draw.choice([f"{quote[0]}{{}}{quote[1]}", '"{}"', "{}"])
    word = {True: draw.choice(["true", "True"]), False: draw.choice(["false", "False"])}

    def written(item: Any) -> str:
        if isinstance(item, bool):
            return word[item]
        if isinstance(item, list):
            return "[" + ", ".join(written(one) for one in item) + draw.choice(["]", " ]"])
        return f"{quote[0]}{item}{quote[1]}" if isinstance(item, str) else dump(item)

    pairs = [f"{key.format(name)}{colon}{written(item)}" for name, item in draft.arguments.items()]
    note = draw.choice(["", "", " /* it's so */ ", "\n# done\n"])
    end = draw.choice(["", "", ",", " ,\n"])
    draft.value = "{" + note + comma.join(pairs) + end + "}"
    return True


def value_triple_quotes(draft: Draft) -> bool:
    if not plain(draft, is_single_text):
        return False
    key = required(tool_of(draft))[0]
    draft.arguments = {key: 'a line\nwith "quotes" and\nAction: a label'}
    draft.reading = a_call(draft.name, draft.arguments)
    draft.value = f'{{"{key}": """{draft.arguments[key]}"""}}'
    return True


def value_nested_label(draft: Draft) -> bool:
    if not plain(draft, is_single_text):
        return False
    key = required(tool_of(draft))[0]
    draft.arguments[key] = draft.random.choice(
        ["one\nObservation: two", "a\n```\nb", "x\nFinal Answer: y\n", "<think>", "q\nThought: z"]
    )
    draft.value = dump(draft.arguments).replace("\\n", "\n")
    return True


# The action and its input in one


def action_call(draft: Draft) -> bool:
    if not plain(draft):
        return False
    pairs = [f"{key}={dump(item)}" for key, item in draft.arguments.items()]
    form = draft.random.choice(["{}({})", "{} ({})"] if pairs else ["{}({})"])
    draft.action = draft.label(draft.labels[1]) + form.format(draft.name, ", ".join(pairs))
    return True


def action_positional(draft: Draft) -> bool:
    if not plain(draft, has_values):
        return False
    names = list(properties(tool_of(draft)))
    draft.arguments = {
        key: draft.arguments[key] for key in names if key in required(tool_of(draft))
    }
    draft.reading = a_call(draft.name, draft.arguments)
    items = ", ".join(dump(item) for item in draft.arguments.values())
    draft.action = f"{draft.label(draft.labels[1])}{draft.name}({items})"
    return True


def action_bracket(draft: Draft) -> bool:
    if not plain(draft, is_bare_text):
        return False
    only = next(iter(draft.arguments.values()))
    draft.action = f"{draft.label(draft.labels[1])}{draft.name}[{only}]"
    return True


def action_object(draft: Draft) -> bool:
    names = draft.random.choice(
        [("action", "action_input"), ("tool", "tool_input"), ("name", "arguments")]
    )
    value: JSON = {names[0]: draft.name, names[1]: draft.arguments}
    if draft.random.random() < 0.3:
        value = {"tool_call": value}
    form = draft.random.choice(["{}", "\n```json\n{}\n```", "\n{}"])
    draft.action = draft.label(draft.labels[1]) + form.replace("{}", dump(value))
    return True


def action_with_object_behind(draft: Draft) -> bool:
    form = draft.random.choice(["{} %s", "{}\n%s", "{}\n```json\n%s\n```"])
    draft.action = draft.label(draft.labels[1]) + form.replace("{}", draft.name) % draft.value
    return bool(draft.arguments)


def action_in_one_line(draft: Draft) -> bool:
    draft.label = lambda word: f"{word}: "
    draft.labels = ("Thought", "Action", "Action Input", "Final Answer")
    draft.gap = " "
    draft.thought = draft.random.choice(["quick look", "one call will do.", "先查一下。"])
    return plain(draft)


def action_without_input(draft: Draft) -> bool:
    if not choose_tool(draft, lambda tool: not properties(tool)):
        return False
    end = draft.random.choice(["", "\n", f"\n{draft.label(draft.labels[2])}"])
    draft.action = f"{draft.label(draft.labels[1])}{draft.name}{end}"
    return True


def two_actions(draft: Draft) -> bool:
    tool = draft.random.choice(draft.tools)
    other = pick_arguments(draft.random, tool, RICH)
    name = tool["function"]["name"]
    between = draft.random.choice(["", f"{draft.label(draft.labels[0])}And the other one.\n"])
    draft.after = (
        f"\n{between}{draft.label(draft.labels[1])}{name}"
        f"\n{draft.label(draft.labels[2])}{dump(other)}"
    )
    draft.faults.append("two")
    draft.reading = [*(draft.reading or []), *a_call(name, other)]
    return True


# Before and after


def long_thought(draft: Draft) -> bool:
    words = [draft.random.choice(WORDS) for _ in range(draft.random.randint(120, 900))]
    for at in range(12, len(words), 17):
        words[at] += draft.random.choice(["\n", "\n\n", "\n- ", "\nFirst: ", "\nNote: "])
    draft.thought = " ".join(words)
    return True


def think_block(draft: Draft) -> bool:
    other = draft.random.choice(draft.tools)["function"]["name"]
    draft.before = (
        f"<think>Maybe\nAction: {other}\nAction Input: {{}}\nFinal Answer: no, wait.\n</think>\n"
    )
    return True


def orphan_closer(draft: Draft) -> bool:
    draft.before = "Let me think.\nFinal Answer: not yet.\nThat is a draft.\n</think>\n\n"
    return True


def prose_before(draft: Draft) -> bool:
    draft.before = draft.random.choice(
        [
            "Sure, I can help with that.\n\n",
            "好的，我来查一下。\n",
            "\ufeff",
            "Question: which line?\n",
        ]
    )
    return True


def input_in_thought(draft: Draft) -> bool:
    draft.thought = "The user gave me this.\nInput: a town and a day.\nSo I call the tool."
    return True


def unknown_action_before(draft: Draft) -> bool:
    draft.before = "Thought: I look at it.\nAction: think about the question\n"
    return True


def explanation_after(draft: Draft) -> bool:
    draft.after = draft.random.choice(
        [
            "\n\nThis will return the next line.",
            "\n\n以上参数会返回结果。",
            "\n\nIt's what the user asked for (I hope): let's see.",
            " <!-- as asked -->",
        ]
    )
    return True


def observation_after(draft: Draft) -> bool:
    word = draft.random.choice(
        ["Observation: ", "观察：", "观察结果: ", "**Observation:** ", "> Observation: "]
    )
    draft.after = f"\n{word}it is fine\nThought: done\nFinal Answer: It is 12 degrees."
    return True


def thought_after(draft: Draft) -> bool:
    draft.after = "\n\nThought: I wait for the tool.\n\n[waiting]"
    return True


def answer_after(draft: Draft) -> bool:
    draft.after = "\nFinal Answer: The ferry leaves at nine."
    return True


def token_after(draft: Draft) -> bool:
    draft.after = draft.random.choice(
        ["<|im_end|>", "<|eot_id|>\n", "</s>", "<｜end▁of▁sentence｜>"]
    )
    return True


def piece_after(draft: Draft) -> bool:
    draft.after = draft.random.choice(["\nObserv", "\nObservation", "\n观察", "\nThou"])
    return True


def question_after(draft: Draft) -> bool:
    draft.after = "\n\nQuestion: and what of tomorrow?\nThought: hm\nAction: nothing\n"
    return True


LABELS: list[Fault] = [
    label_case,
    label_bold,
    label_heading,
    label_mark,
    label_words,
    label_colon,
    label_blank_lines,
]
WORDS_OF_LABELS: list[Fault] = [label_case, label_words]
AROUND_LABELS: list[Fault] = [label_bold, label_heading, label_mark, label_colon]
NAMES: list[Fault] = [
    name_marks,
    name_bold,
    name_prefix,
    name_token,
    name_stop,
    name_remark,
    name_case,
    name_phrase,
]
VALUES: list[Fault] = [
    value_fence,
    value_single_quotes,
    value_curly,
    value_fullwidth,
    value_comment,
    value_comma,
    value_keys,
    value_literals,
    value_raw_lines,
    value_spaces,
    value_twice_encoded,
    value_wrapped,
    value_envelope,
    value_list,
    value_call,
    value_pairs,
    value_flat,
    value_bare,
    value_unclosed,
    value_inner_quotes,
    value_path,
    value_thousands,
    value_escaped,
    value_repeated,
    value_mixed,
    value_mixed,
    value_triple_quotes,
    value_nested_label,
]
AROUND_VALUES: list[Fault] = [value_fence, value_led, value_on_next_line]
ACTIONS: list[Fault] = [
    action_call,
    action_positional,
    action_bracket,
    action_object,
    action_with_object_behind,
    action_in_one_line,
    action_without_input,
]
BEFORE: list[Fault] = [
    long_thought,
    think_block,
    orphan_closer,
    prose_before,
    input_in_thought,
    unknown_action_before,
]
AFTER: list[Fault] = [
    explanation_after,
    observation_after,
    thought_after,
    answer_after,
    token_after,
    piece_after,
    question_after,
    two_actions,
    step_in_fence,
]
UNFIT: set[frozenset[str]] = {
    frozenset(pair)
    for pair in [
        # what follows on the same line, or without a blank line, would be part of these values
        ("value_bare", "explanation_after"),
        ("value_flat", "explanation_after"),
        ("value_unclosed", "explanation_after"),
        ("action_with_object_behind", "label_heading"),
        ("action_in_one_line", "label_heading"),
        ("action_in_one_line", "two_actions"),
        ("action_in_one_line", "input_in_thought"),
        ("action_in_one_line", "unknown_action_before"),
        ("action_in_one_line", "long_thought"),
        ("action_without_input", "explanation_after"),
        ("value_unclosed", "two_actions"),
        ("value_unclosed", "step_in_fence"),
        ("value_fence", "step_in_fence"),
        ("value_fence", "value_flat"),
        ("value_fence", "value_bare"),
        ("value_led", "value_repeated"),
        ("value_led", "value_inner_quotes"),
        ("value_led", "value_unclosed"),
        ("action_object", "step_in_fence"),
        ("action_with_object_behind", "step_in_fence"),
    ]
}


def _fits(name: str, faults: list[str]) -> bool:
    return all(frozenset((name, other)) not in UNFIT for other in faults)


def _spoil(draft: Draft, groups: list[list[Fault]]) -> None:
    """Apply one fault of each group, the one that writes the whole action last."""
    for group in groups:
        fault = draft.random.choice(group)
        if fault.__name__ in draft.faults:
            continue
        if _fits(fault.__name__, draft.faults) and fault(draft):
            draft.faults.append(fault.__name__)


def make_call(draw: random.Random) -> Compound:
    """Make a reply that calls, with two or three faults."""
    tools = TOOLSETS[draw.choice(list(TOOLSETS))]
    draft = Draft(draw, tools, "", {})
    set_call(draft, draw.choice(tools))
    value = draw.choice([VALUES, ACTIONS, ACTIONS, VALUES, []])
    groups = [LABELS] if draw.random() < 0.4 else []
    groups += [WORDS_OF_LABELS, AROUND_LABELS] if not groups and draw.random() < 0.3 else []
    groups += [value] if value else []
    groups += [AROUND_VALUES] if value is not ACTIONS and draw.random() < 0.3 else []
    groups += [NAMES] if value is not ACTIONS and draw.random() < 0.5 else []
    groups += draw.sample([BEFORE, AFTER], draw.choice([0, 1, 1, 2]))
    order = [VALUES, AROUND_VALUES, NAMES, LABELS, WORDS_OF_LABELS, AROUND_LABELS]
    order += [BEFORE, ACTIONS, AFTER]
    _spoil(draft, sorted(groups, key=order.index))
    return Compound(draft.text(), tools, [draft.reading or []], tuple(draft.faults), draft.finish)


ANSWERS = (
    "The ferry leaves at nine.",
    "最近的渡口在中山路 18 号。",
    "Two lines:\n- Oslo\n- Ruse",
    'He said "yes", and that is all.',
    "The label 'Action:' is seven characters long.",
    "Steps:\n1. Input: your name\n2. Output: a ticket",
    "Tool: hammer\nArguments: none",
    "Use {braces} and [brackets] (freely).",
    "42",
    "Паром уходит в девять.",
    "a\r\nb",
)


def make_answer(draw: random.Random) -> Compound:
    """Make a reply that answers, with one to three faults."""
    tools = TOOLSETS[draw.choice(list(TOOLSETS))]
    draft = Draft(draw, tools, "", {})
    answer = draw.choice(ANSWERS)
    draft.reading = [{"final": answer}]
    if draw.random() < 0.6:
        _spoil(draft, [LABELS])
    if draw.random() < 0.4:
        _spoil(draft, [[long_thought, think_block, orphan_closer, input_in_thought]])
    form = draw.choice(["label", "label", "label", "finish", "action", "none first"])
    final = draft.label(draft.labels[3])
    action, value = draft.label(draft.labels[1]), draft.label(draft.labels[2])
    use = draft.labels[1] in ("Use", "USE", "use")
    if form == "label" or use:
        draft.action = f"{final}{answer}"
    elif form == "finish":
        draft.action = f"{action}Finish[{answer}]"
    elif form == "action":
        draft.action = f"{action}Final Answer\n{value}{answer}"
    else:
        draft.action = f"{action}None\n{value}None\n{final}{answer}"
    draft.faults.append(f"answer as {form}")
    ends = [observation_after, token_after, piece_after, question_after, call_after]
    if form in ("label", "none first") and draw.random() < 0.5:
        _spoil(draft, [ends])
    return Compound(draft.text(), tools, [draft.reading], tuple(draft.faults), None)


def call_after(draft: Draft) -> bool:
    tool = draft.random.choice(draft.tools)
    arguments = pick_arguments(draft.random, tool, PLAIN)
    name = tool["function"]["name"]
    draft.after = f"\n\nThought: one more\nAction: {name}\nAction Input: {dump(arguments)}"
    return True


def _refused(*kinds: str) -> list[list[JSON]]:
    return [[{"failure": kind}] for kind in kinds]


def _bad_unknown(draft: Draft) -> list[list[JSON]]:
    draft.written = draft.random.choice(
        ["fly_to_moon", "ferry_search", "查船票", draft.name + "_v2"]
    )
    return _refused("unknown_tool")


def _bad_missing(draft: Draft) -> list[list[JSON]]:
    if not choose_tool(draft, has_values):
        return []
    del draft.arguments[required(tool_of(draft))[0]]
    draft.value = dump(draft.arguments)
    return _refused("schema_violation")


def _bad_extra(draft: Draft) -> list[list[JSON]]:
    draft.value = dump({**draft.arguments, "colour": "red"})
    return _refused("schema_violation")


def _bad_type(draft: Draft) -> list[list[JSON]]:
    if not choose_tool(draft, lambda tool: "number" in str(tool) or "integer" in str(tool)):
        return []
    key = next(
        k for k, v in properties(tool_of(draft)).items() if v["type"] in ("number", "integer")
    )
    draft.value = dump({**draft.arguments, key: "5"})
    return _refused("schema_violation")


def _bad_value(draft: Draft) -> list[list[JSON]]:
    if not choose_tool(draft, lambda tool: "number" in str(tool) or "integer" in str(tool)):
        return []
    key = next(
        k for k, v in properties(tool_of(draft)).items() if v["type"] in ("number", "integer")
    )
    bad = draft.random.choice(["NaN", "Infinity", "1200*12", "1.2.3", "07", "-"])
    draft.value = dump({**draft.arguments, key: "@"}).replace('"@"', bad)
    return _refused("bad_arguments_syntax")


def _bad_twice(draft: Draft) -> list[list[JSON]]:
    if not choose_tool(draft, has_values):
        return []
    key = next(iter(draft.arguments))
    draft.value = f"{{{dump(key)}: {dump(draft.arguments[key])}, {dump(draft.arguments)[1:]}"
    return _refused("bad_arguments_syntax")


def _bad_two_objects(draft: Draft) -> list[list[JSON]]:
    if not plain(draft, is_bare_text):
        return []
    key = required(tool_of(draft))[0]
    draft.value = f"{dump({key: 'one'})}\n{dump({key: 'two'})}"
    return _refused("ambiguous_calls")


def _bad_cut(draft: Draft) -> list[list[JSON]]:
    if not plain(draft, has_values):
        return []
    whole = draft.value
    inside = [at for at in range(2, len(whole) - 1) if whole[:at].count('"') % 2]
    draft.value = whole[: draft.random.choice(inside)]
    draft.after = ""
    return _refused("truncated_output")


def _bad_length(draft: Draft) -> list[list[JSON]]:
    if not plain(draft, has_values):
        return []
    draft.value = draft.value[:-1]
    draft.finish = "length"
    return _refused("truncated_output")


def _bad_think(draft: Draft) -> list[list[JSON]]:
    draft.before = "<think>I wonder.\n"
    return _refused("truncated_output")


def _bad_thought(draft: Draft) -> list[list[JSON]]:
    draft.action = ""
    return _refused("no_move")


def _bad_none(draft: Draft) -> list[list[JSON]]:
    word = draft.random.choice(
        ["None", "N/A", "无", "No tool needed", "无需工具", "None (I know it)"]
    )
    draft.action = f"{draft.label('Action')}{word}"
    return _refused("no_move")


def _bad_empty(draft: Draft) -> list[list[JSON]]:
    draft.action = draft.label("Final Answer")
    return _refused("empty_turn")


def _bad_names(draft: Draft) -> list[list[JSON]]:
    names = [tool["function"]["name"] for tool in draft.tools]
    draft.written = draft.random.choice(["{} or {}", "{}, {}", "{} and {}"]).format(*names[:2])
    return _refused("ambiguous_calls", "unknown_tool")


def _bad_nameless(draft: Draft) -> list[list[JSON]]:
    draft.written = ""
    return _refused("missing_tool_name")


def _bad_markup(draft: Draft) -> list[list[JSON]]:
    body = dump({"name": draft.name, "arguments": draft.arguments})
    draft.action = draft.random.choice(
        ["<tool_call>\n{}\n</tool_call>", "```json\n{}\n```", "[TOOL_CALLS] [{}]"]
    ).replace("{}", body)
    return _refused("out_of_channel_call")


def _bad_observation(draft: Draft) -> list[list[JSON]]:
    draft.before = "Observation: it is fine.\n"
    return _refused("no_move")


BAD = [
    _bad_unknown,
    _bad_missing,
    _bad_extra,
    _bad_type,
    _bad_value,
    _bad_twice,
    _bad_two_objects,
    _bad_cut,
    _bad_length,
    _bad_think,
    _bad_thought,
    _bad_none,
    _bad_empty,
    _bad_names,
    _bad_nameless,
    _bad_markup,
    _bad_observation,
]


def make_refusal(draw: random.Random) -> Compound:
    """Make a reply that must be refused, with faults around the one that makes it so."""
    tools = TOOLSETS[draw.choice(list(TOOLSETS))]
    draft = Draft(draw, tools, "", {})
    set_call(draft, draw.choice(tools))
    if draw.random() < 0.6:
        _spoil(draft, [[label_case, label_bold, label_colon, label_blank_lines, label_mark]])
    if draw.random() < 0.4:
        _spoil(draft, [[long_thought, input_in_thought]])
    bad = draw.choice(BAD)
    readings = bad(draft)
    draft.faults.append(bad.__name__.removeprefix("_"))
    if not readings:
        return make_refusal(draw)
    return Compound(draft.text(), tools, readings, tuple(draft.faults), draft.finish)


def make_compounds(seed: int, count: int) -> list[Compound]:
    """Make replies, always the same ones for a seed."""
    draw = random.Random(seed)  # noqa: S311
    makers = [make_call, make_call, make_call, make_answer, make_refusal]
    return [draw.choice(makers)(draw) for _ in range(count)]
