"""Read a million broken replies: `python tests/fuzz/fuzz_parsers.py`. A command, not a test.

Replies are made from the cases by mutation and from pieces by a small grammar. One that shows a
behaviour not seen before (outcome, failure, repairs at the three levels) is kept and mutated
further. Every job has its own seed, so that a run can be repeated. What breaks a claim is made
shorter and printed as a line for a table of named cases.
"""

import argparse
import json
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

import jsonschema_rs

from bench.hostile import FLOODS
from parsers import LEVELS, ReactStream, parse_native, parse_react
from parsers.types import Tool, as_tools
from parsers.wire import parse_response

CASES = Path(__file__).resolve().parents[2] / "datasets" / "cases"
LONGEST = 2_000
KEPT_LENGTH = 300
"""Characters of a text that is mutated further: many short texts say more than few long ones."""
MOST_SECONDS = 0.5
"""Processor seconds that one reading of such a text may take: a hundred times what it does."""
KEPT = 4_000

LABELS = [
    "Thought:",
    "thought：",
    "思考：",
    "**Thought:**",
    "### Thought",
    "Action:",
    "ACTION：",
    "行动：",
    "动作:",
    "**Action**:",
    "- Action:",
    "> Action:",
    "1. Action:",
    "Action 2:",
    "Tool:",
    "Use ",
    "Action Input:",
    "Action_Input:",
    "输入：",
    "参数:",
    "Input:",
    "Arguments:",
    "**Action Input:**",
    "Observation:",
    "观察：",
    "Obser",
    "Final Answer:",
    "FinalAnswer:",
    "最终答案：",
    "Answer:",
    "**Final Answer:**",
    "Question:",
    "问题：",
    "Finish[",
]
MARKUP = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<function=search>",
    "</function>",
    "<parameter=query>",
    "</parameter>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|python_tag|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "functions.get_weather:0",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<invoke",
    "name='search'>",
    "</invoke>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "✿FUNCTION✿:",
    "✿ARGS✿:",
    "<|channel|>commentary",
    "to=functions.search",
    "<|message|>",
    "<|call|>",
    "<minimax:tool_call>",
]
SYNTAX = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    '"',
    "'",
    "`",
    "```",
    "```json",
    '"""',
    ":",
    "：",
    ",",
    "，",
    "=",
    "“",
    "”",
    "‘",
    "’",
    "「",
    "」",
    "｛",
    "｝",
    "\\",
    "\\n",
    "\\u12",
    "\\ud83d",
    '\\"',
    "//",
    "/*",
    "*/",
    "#",
    "<!--",
    "-->",
    "None",
    "null",
    "True",
    "False",
    "NaN",
    "Infinity",
    "1e999",
    "12,500",
    "-0",
    "0x1",
    ".",
    ";",
    "|",
    "<",
    ">",
    "&",
    "\\'",
    "{}",
    "[]",
    '""',
    "\x00",
    "\u200b",
    "\xa0",
    "\ufeff",
    "\u3000",
    "�",
    "\r\n",
    "\t",
    "😀",
    "汉",
    "é",
    "́",
]
NAMES = [
    "get_weather",
    "get_fx_rate",
    "search",
    "get_time",
    "run_sql",
    "天气查询",
    "`get_weather`",
    "'search'",
    "search()",
    "functions.search",
    "get-weather",
    "GetWeather",
    "get_weather<|x|>",
    "nothing",
    "None",
    "N/A",
    "无",
    "Final",
    "get_wea",
]
VALUES = (
    '{"city": "Lisbon"}',
    "{'city': '杭州'}",
    '{"base": "EUR", "quote": "CNY"}',
    '{"query": "a "b" c", "official": True}',
    '{"query": "a, b", "sites": ["x", "y"], "since": null}',
    '{"amount": 12,500, "base": "USD", "quote": "CNY"}',
    '"{\\"city\\": \\"Turin\\"}"',
    '[{"city": "Oslo"}]',
    '{"arguments": {"city": "Oslo"}}',
    '{"name": "get_weather", "arguments": {"city": "Oslo"}}',
    '{"action": "search", "action_input": {"query": "x"}}',
    "get_fx_rate(base=\"EUR\", quote='CNY')",
    'search("a (b), c")',
    "base=EUR, quote=CNY",
    "base: EUR\nquote: CNY",
    "Lisbon",
    '{"path": "D:\\Finance\\w.xlsx"}',
    '{"city": "Oslo"',
    '{"city": "Osl',
    '{"city": "Oslo"}{"city": "Bergen"}',
    "{}",
    "",
)
ENDS = [
    *("<|im_end|>", "<|eot_id|>", "</s>", "<|im_end|>\n"),
    *("\nObservation:", "\nObservation: x\n", "\n观察：", "\n**Observation**\n", "\nQuestion: "),
    *("</think>", "<think>", "\n```\n", '"', "{", "}", "\nAction: search\n", "\nFinal Answer: "),
]
NASTY = (None, "", " ", [], {}, 0, 1.5, True, [None], {"a": []}, "{", "null", [[[[]]]], "\ud800")


def load_seeds():
    """Return the texts and the wires of the cases, with the tools that both offer."""
    seeds = {}
    for kind, key in (("react", "text"), ("native", "wire")):
        lines = (CASES / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()
        tools = json.loads((CASES / f"{kind}_tools.json").read_text(encoding="utf-8"))
        seeds[kind] = [json.loads(line)[key] for line in lines], as_tools(tools)
    return seeds


class Maker:
    """Make hostile replies from a seed."""

    def __init__(self, seed, texts, wires):
        self.random = random.Random(seed)  # noqa: S311 (it has to be repeatable, not secret)
        self.texts, self.wires = list(texts), list(wires)
        self.units = [unit for _, unit, _ in FLOODS.values()]

    def text(self):
        roll = self.random.random()
        if roll < 0.02:
            codes = (self.random.randrange(0x110000) for _ in range(self.random.randrange(60)))
            return "".join(map(chr, codes))
        text = self.grown() if roll < 0.4 else self.random.choice(self.texts)
        for _ in range(self.random.choice((0, 1, 1, 2, 2, 3, 5))):
            text = self.mutated(text)
        return text[:LONGEST]

    def ended(self):
        """Put what may end a reply, or keep it from ending, into a text."""
        text = self.text()[:KEPT_LENGTH]
        for _ in range(self.random.choice((1, 2, 3, 4))):
            at = self.random.randrange(len(text) + 1)
            text = text[:at] + self.random.choice(ENDS) + text[at:]
        return text

    def piece(self):
        table = self.random.choice((LABELS, MARKUP, SYNTAX, SYNTAX, NAMES, VALUES, self.units))
        return self.random.choice(table)

    def grown(self):
        """Grow a reply from labels, names, values and what may stand between them."""
        pick, roll = self.random.choice, self.random.random
        parts = []
        for _ in range(pick((1, 1, 1, 2, 3))):
            if roll() < 0.7:
                parts += [pick(LABELS[:5]), " ", pick(("need it", "先查", "so: (a)", "")), "\n"]
            parts += [pick(LABELS[5:16]), pick((" ", "", "\n")), pick(NAMES), pick(("\n", " ", ""))]
            if roll() < 0.8:
                parts += [pick(LABELS[16:23]), pick((" ", "\n", "\n```json\n"))]
            parts += [pick(VALUES), pick(("\n", "", " done", "\n```", "<|im_end|>", "\n\n"))]
        if roll() < 0.3:
            parts += [pick(LABELS[23:]), " ", pick(("42", "好的", "", "a: b")), "\n"]
        return "".join(parts)

    def mutated(self, text):
        at = self.random.randrange(len(text) + 1)
        end = min(len(text), at + self.random.choice((1, 1, 3, 10, 40)))
        kind = self.random.randrange(9)
        if kind == 0:
            return text[:at] + self.piece() + text[at:]
        if kind == 1:
            return text[:at] + text[end:]
        if kind == 2:
            return text[:end] + text[at:end] * self.random.choice((1, 2, 30)) + text[end:]
        if kind == 3:
            return text[:at] + self.piece() * self.random.choice((1, 2, 40)) + text[end:]
        if kind == 4:
            other = self.random.choice(self.texts)
            return text[:at] + other[self.random.randrange(len(other) + 1) :]
        if kind == 5:
            lines = text.split("\n")
            self.random.shuffle(lines)
            return "\n".join(lines)
        if kind == 6:
            return text[:at]
        if kind == 7:
            old, new = self.random.choice(SYNTAX[:18]), self.random.choice(SYNTAX)
            return text.replace(old, new) if old else text
        return text[:at] + text[at:end].swapcase() + text[end:]

    def wire(self):
        value = json.loads(json.dumps(self.random.choice(self.wires)))
        for _ in range(self.random.choice((1, 1, 2, 3))):
            value = self.bent(value, 0)
        return value

    def bent(self, value, depth):
        """Change one place in a JSON value."""
        if (depth > 2 and self.random.random() < 0.15) or not isinstance(value, (dict, list, str)):
            return self.random.choice(NASTY)
        if isinstance(value, str):
            return self.mutated(value)
        if not value:
            return self.random.choice(NASTY)
        if isinstance(value, list):
            at = self.random.randrange(len(value))
            new = self.random.choice(([], [value[at]] * 2, [self.bent(value[at], depth + 1)]))
            return [*value[:at], *new, *value[at + 1 :]]
        key = self.random.choice(list(value))
        if self.random.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: self.bent(value[key], depth + 1)}

    def message(self):
        """Make an assistant message around texts that were not made for it."""
        function = {"name": self.random.choice(NAMES), "arguments": self.random.choice(VALUES)}
        if self.random.random() < 0.7:
            function["arguments"] = self.mutated(function["arguments"])
        call = {"id": "call_1", "type": "function", "function": function}
        content = self.random.choice((None, "", self.text()))
        return {"content": content, "tool_calls": [call] * self.random.choice((0, 1, 1, 2))}


# ---------------------------------------------------------------- what has to hold


class Broken(Exception):  # noqa: N818 (a claim that does not hold)
    """A claim does not hold; the text names it."""


def claim(holds, name):
    if not holds:
        raise Broken(name)


def read_levels(read, length, tools):
    """Read at each level and check every claim about the three readings; return them."""
    readings = {}
    for level in LEVELS:
        began = time.thread_time()
        reading = read(level)
        claim(time.thread_time() - began < MOST_SECONDS, f"{level} is slow")
        check_reading(reading, level, length, tools)
        readings[level] = reading
    for lower, upper in (("strict", "hardened"), ("hardened", "rescue")):
        kept = keeps(readings[lower], readings[upper])
        claim(kept, f"{upper} does not read what {lower} reads")
    return readings


def check_reading(reading, level, length, tools):
    outcomes = (bool(reading.good_calls), reading.final is not None, reading.failure is not None)
    claim(sum(outcomes) == 1, f"{level} has not one outcome")
    for call in reading.good_calls:
        claim(call.name in tools, f"{level} calls a tool that is not offered")
        claim(isinstance(call.arguments, dict), f"{level} calls without arguments")
        json.dumps(call.arguments, allow_nan=False)
        claim(tools[call.name].is_valid(call.arguments), f"{level} goes past the schema")
    if length is not None:
        for span in reading.dropped:
            claim(0 <= span.start <= span.end <= length, f"{level} drops what is not there")
        at = reading.failure and reading.failure.position
        claim(at is None or 0 <= at <= length, f"{level} points outside of the text")


def keeps(lower, upper):
    """Say whether a higher level reads all that a lower one does; it may read more calls."""
    if lower.failure is not None:
        return True
    if lower.final is not None or all(call.failure is None for call in lower.calls):
        return (moves(lower), lower.final) == (moves(upper), upper.final)
    later = iter(moves(upper))
    return all(move in later for move in moves(lower))


def moves(reading):
    return [(call.name, json.dumps(call.arguments, sort_keys=True)) for call in reading.good_calls]


def behaviour(readings):
    return tuple(
        (
            reading.outcome,
            reading.failure and (reading.failure.kind, reading.failure.detail),
            frozenset(repair.name for repair in reading.repairs),
        )
        for reading in readings.values()
    )


def check_text(text, tools, schemas, finish_reason=None):
    def read(level):
        return parse_react(text, tools, level=level, finish_reason=finish_reason)

    return read_levels(read, len(text), schemas)


def check_stream(text, tools):
    """Feed one character after the other: a stream that can end early is then most tempted to."""
    stream = ReactStream(tools)
    for character in text:
        stream.feed(character)
    claim(stream.finish() == parse_react(text, tools), "a stream reads otherwise than the whole")


def check_message(message, tools, schemas):
    return read_levels(lambda level: parse_native(message, tools, level=level), None, schemas)


def check_wire(wire, tools, schemas):
    return read_levels(lambda level: parse_response(wire, tools, level=level), None, schemas)


# ---------------------------------------------------------------- the run


def fuzz(job, seed, inputs, seconds):
    """Make and read up to so many inputs; return counts, behaviours and what broke."""
    seeds = load_seeds()
    (texts, react_tools), (wires, native_tools) = seeds["react"], seeds["native"]
    maker = Maker(f"{seed}/{job}", texts, wires)
    schemas = {"react": compile_all(react_tools), "native": compile_all(native_tools)}
    seen, broken, counts = set(), {}, Counter()
    until = time.monotonic() + seconds
    for number in range(inputs):
        if number % 64 == 0 and time.monotonic() > until:
            break
        kind, value, check = next_input(maker, number, react_tools, native_tools, schemas)
        counts[kind] += 1
        found, readings = run(check, value)
        if found:
            broken.setdefault((kind, found), shorten(check, value, found))
        elif (kind, behaviour(readings)) not in seen and len(seen) < KEPT:
            seen.add((kind, behaviour(readings)))
            if kind == "text" and len(value) <= KEPT_LENGTH:
                maker.texts.append(value)
    return counts, len(seen), broken


def next_input(maker, number, react_tools, native_tools, schemas):
    roll = number % 20
    if roll == 0:
        return "message", maker.message(), lambda m: check_message(m, react_tools, schemas["react"])
    if roll in (1, 2):
        return "wire", maker.wire(), lambda w: check_wire(w, native_tools, schemas["native"])
    finish = (None, None, "stop", "length")[number % 4]
    fed = roll in (3, 4)

    def check(text):
        readings = check_text(text, react_tools, schemas["react"], finish)
        if fed:
            check_stream(text, react_tools)
        return readings

    return "text", maker.ended() if fed else maker.text(), check


def compile_all(tools: tuple[Tool, ...]):
    return {tool.name: jsonschema_rs.validator_for(dict(tool.parameters)) for tool in tools}


def run(check, value):
    """Return the name of the claim that broke, or None with the readings."""
    try:
        return None, check(value)
    except Broken as problem:
        return str(problem), None
    except Exception as problem:  # noqa: BLE001 (no exception may come out of a reader)
        return f"raises {type(problem).__name__}: {problem}"[:120], None


def shorten(check, value, found):
    """Cut a text as long as the same claim stays broken."""
    if not isinstance(value, str):
        return value
    size, tries = len(value) // 2, 400
    while size and tries:
        at = 0
        while at < len(value) and tries:
            tries -= 1
            shorter = value[:at] + value[at + size :]
            if run(check, shorter)[0] == found:
                value = shorter
            else:
                at += size
        size //= 2
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000, help="in all jobs together")
    parser.add_argument("--seconds", type=float, default=1_500, help="stop then, finished or not")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", default="1")
    asked = parser.parse_args()
    share = -(-asked.inputs // asked.jobs)
    jobs = [(job, asked.seed, share, asked.seconds) for job in range(asked.jobs)]
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(asked.jobs) as pool:
        results = pool.starmap(fuzz, jobs)
    return report(results, time.monotonic() - began, asked)


def report(results, seconds, asked):
    counts = sum((found for found, _, _ in results), Counter())
    broken = {}
    for _, _, found in results:
        broken.update(found)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    seen = max(number for _, number, _ in results)
    read = f"{counts.total():,} inputs ({kinds}) in {seconds:.0f} s, seed {asked.seed}"
    found = f"{seen:,} behaviours in one of {asked.jobs} jobs; {len(broken)} claims broken"
    lines = [f"{read}; {found}"]
    lines += [f'    "fuzz, {kind}: {name}": {value!a},' for (kind, name), value in broken.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    if counts.total() < asked.inputs and not broken:
        sys.stdout.write(f"stopped by the clock before {asked.inputs:,} inputs\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
