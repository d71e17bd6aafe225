"""Own tasks from as little as two columns, own variants, scripted replies."""

import json
from pathlib import Path

import pytest

from bench.choice import Choice
from bench.own import load_own
from bench.own.check import check_own
from bench.own.script import read_script
from bench.own.tasks import read_tasks
from bench.scoring import acceptable
from bench.types import AnswerPart, Request, StepKey
from parsers import Call, parse_react

SETS = {"own": ("get_price", "get_stock", "buy"), "weather": ("get_weather",)}


def read(text, folder, name="tasks.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return read_tasks(folder / name, SETS, "own")


# ------------------------------------------------------------ tasks

SAME = {
    "CSV": ("tasks.csv", "question,expected_tool\nWhat is a pen?,get_price\n"),
    "semicolons": ("tasks.csv", "question;expected_tool\nWhat is a pen?;get_price\n"),
    "tabs": ("tasks.tsv", "question\texpected_tool\nWhat is a pen?\tget_price\n"),
    "a byte order mark": ("tasks.csv", "\ufeffquestion,expected_tool\nWhat is a pen?,get_price\n"),
    "Windows line ends": ("tasks.csv", "question,expected_tool\r\nWhat is a pen?,get_price\r\n"),
    "empty lines": ("tasks.csv", "\nquestion,expected_tool\n\nWhat is a pen?,get_price\n\n"),
    "other spellings": ("tasks.csv", "Query,Expected Tools\nWhat is a pen?,get_price\n"),
    "a slip of the pen": ("tasks.csv", "quesiton,expcted_tool\nWhat is a pen?,get_price\n"),
    "notes beside": ("tasks.csv", "question,tool,note\nWhat is a pen?,get_price,mine\n"),
    "JSON Lines": ("tasks.jsonl", '{"question": "What is a pen?", "tool": "get_price"}\n'),
    "a list of one": ("tasks.jsonl", '{"question": "What is a pen?", "tools": ["get_price"]}\n'),
}


@pytest.mark.parametrize(("name", "text"), SAME.values(), ids=SAME)
def test_two_columns_make_a_task(name, text, tmp_path):
    [task] = read(text, tmp_path, name)
    assert (task.id, task.pair, task.lang, task.category) == ("own-01", "own-01", "en", "own")
    assert (task.toolset, task.question) == ("own", "What is a pen?")
    [wanted] = task.gold.calls
    assert wanted.tool == "get_price"
    assert acceptable(wanted, Call("get_price", {"product": "pen"}))
    assert not acceptable(wanted, Call("get_stock", {"product": "pen"}))


HEAD = "id,question,expected_tool,expected_arguments,expected_answer,forbidden,lang\n"
ROWS = {
    "arguments": ('a,Q?,get_price,"{""product"": ""pen""}",,,', lambda t: t.gold.calls[0].arguments, {"product": ("pen",)}),
    "two calls": ('a,Q?,"get_price, get_stock",,,,', lambda t: [c.tool for c in t.gold.calls], ["get_price", "get_stock"]),
    "no tool": ("a,Q?,none,,,,", lambda t: t.gold.calls, ()),
    "a number": ("a,Q?,get_price,,8.5,,", lambda t: t.gold.contains, (AnswerPart(8.5),)),
    "a text": ("a,Q?,get_price,,sold out|none left,,", lambda t: t.gold.contains, (AnswerPart(any=("sold out", "none left")),)),
    "forbidden": ("a,Q?,get_price,,,buy,", lambda t: t.gold.forbidden, ("buy",)),
    "a language that is guessed": ("a,笔多少钱？,get_price,,,,", lambda t: t.lang, "zh"),
    "a language that is given": ("a,笔多少钱？,get_price,,,,en", lambda t: t.lang, "en"),
}  # fmt: skip


@pytest.mark.parametrize(("row", "of", "value"), ROWS.values(), ids=ROWS)
def test_what_else_a_row_may_say(row, of, value, tmp_path):
    [task] = read(f"{HEAD}{row}\n", tmp_path)
    assert of(task) == value


def test_a_line_may_hold_all_that_a_bundled_task_holds(tmp_path):
    row = {
        "id": "w-1",
        "pair": "w",
        "lang": "zh",
        "category": "mine",
        "toolset": "weather",
        "question": "Q?",
        "gold": {
            "calls": [{"tool": "get_weather", "arguments": {"city": ["Beijing", "北京"]}}],
            "ordered": True,
        },
    }
    [task] = read(json.dumps(row) + "\n", tmp_path, "tasks.jsonl")
    assert (task.id, task.pair, task.lang, task.category) == ("w-1", "w", "zh", "mine")
    assert task.gold.ordered
    assert not task.gold.calls[0].any_arguments


TOOLS = """
- name: get_price
  description: Get a price.
  parameters: {type: object, properties: {product: {type: string, description: Its code.}}, required: [product]}
- {name: buy, description: Buy it., changes: true}
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Read what a folder holds, given the rows of its tasks."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.yaml").write_text(TOOLS, encoding="utf-8")

    def load(*rows, **more):
        head = "question,tool,arguments,answer\n"
        (tmp_path / "tasks.csv").write_text(head + "\n".join(rows) + "\n", encoding="utf-8")
        return load_own(Choice(tools=("tools.yaml",), tasks="tasks.csv", **more))

    return load


CHECKED = {
    "a good task": ('Q?,get_price,"{""product"": ""pen""}",3', []),
    "no arguments": ("Q?,get_price,,3", []),
    "arguments that the tool refuses": (
        'Q?,get_price,"{""prod"": ""pen""}",3',
        ["own-01: get_price would refuse its expected arguments: missing field: product"],
    ),
}


@pytest.mark.parametrize(("row", "problems"), CHECKED.values(), ids=CHECKED)
def test_own_tasks_are_checked_without_a_tool_run(row, problems, own):
    check = check_own(own(row))
    assert (check.tasks, check.gold_right, check.damaged_wrong) == (1, 1, check.damaged)
    assert [problem.partition(";")[0] for problem in check.problems] == problems


def test_every_file_is_known_by_its_hash(own):
    assert own("Q?,none,,").files.keys() == {"tools.yaml", "tasks.csv"}


# ------------------------------------------------------------ variants

VARIANTS = {
    "a description": ({"descriptions": {"get_price": "Price."}}, "Price.", "Its code."),
    "the full text inside": (
        {"descriptions": {"get_price": "First! {full}"}},
        *("First! Get a price.", "Its code."),
    ),
    "one for each language": (
        {"descriptions": {"get_price": {"zh": "价格", "en": "Price."}}},
        *("Price.", "Its code."),
    ),
    "a parameter": ({"parameters": {"get_price": {"product": "Code."}}}, "Get a price.", "Code."),
    "no parameters": ({"parameters": "undescribed"}, "Get a price.", None),
}


@pytest.mark.parametrize(("recipe", "description", "product"), VARIANTS.values(), ids=VARIANTS)
def test_a_variant_tells_the_same_tools_otherwise(recipe, description, product, own):
    Path("v.json").write_text(json.dumps({"mine": recipe}), encoding="utf-8")
    found = own("Q?,get_price,,", variants="v.json")
    [task] = found.tasks
    toolbox_for = found.toolbox_for()
    full, told = (toolbox_for(task, name).tools[0] for name in ("full", "mine"))
    assert full.description == "Get a price."
    assert told.description == description
    assert told.parameters["properties"]["product"].get("description") == product
    assert told.parameters["properties"]["product"]["type"] == "string"
    assert toolbox_for(task, "mine") is toolbox_for(task, "mine")


# ------------------------------------------------------------ scripts


SCRIPT = '{"task": "own-01", "replies": [{"calls": [{"call": "get_price", "arguments": {"product": "pen"}}, {"call": "get_price", "arguments": {"product": "cup"}}]}, {"answer": "3 and 4."}]}\n'


@pytest.mark.parametrize("dialect", ["json", "call", "bracket"])
def test_a_scripted_call_is_written_in_the_form_that_was_asked_for(dialect, own):
    Path("s.jsonl").write_text(SCRIPT, encoding="utf-8")
    found = own("Q?,get_price,,")
    client = read_script(Path("s.jsonl"), found.tasks)
    label = "react" if dialect == "json" else f"react/{dialect}"
    request = Request((), {}, StepKey("own-01", label, "full", 0, 0))
    text = client.script(request)
    tools = [entry.tool for entry in found.entries]
    reading = parse_react(text, tools, dialect=dialect)
    assert [call.arguments for call in reading.calls] == [{"product": "pen"}, {"product": "cup"}]


def test_a_script_that_has_come_to_its_end_says_nothing(own):
    Path("s.jsonl").write_text(SCRIPT, encoding="utf-8")
    client = read_script(Path("s.jsonl"), own("Q?,get_price,,").tasks)
    assert client.script(Request((), {}, StepKey("own-01", "native", "full", 0, 2))) is None
