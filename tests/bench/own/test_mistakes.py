"""A user's malformed files: each is one clear line with file, line and fix, and exit status 2."""

import json

import pytest

from bench.__main__ import main
from bench.status import MISTAKE

TOOLS = '''"""My tools."""


def get_price(product: str) -> dict:
    """Get a price.

    Args:
        product: Its code.
    """
    return {"euros": 3}
'''
TASKS = "question,expected_tool\nWhat does a pen cost?,get_price\n"
SCRIPT = '{"task": "own-01", "replies": [{"answer": "3 euros."}]}\n'
GOOD = {"tools.py": TOOLS, "tasks.csv": TASKS, "script.jsonl": SCRIPT}
ENTRY = {"type": "function", "function": {"name": "get_price", "parameters": None}}


def listed(*entries):
    """Return a file of tools with one entry a line."""
    return "[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n"


def with_schema(schema):
    return {"type": "function", "function": {"name": "get_stock", "parameters": schema}}


# name: (files, words after the command, the place that is named, words of what is wrong and the fix)
CHECK = ["tasks", "--tools", "tools.py", "--tasks", "tasks.csv"]
JSON_TOOLS = ["tasks", "--tools", "tools.json", "--tasks", "tasks.csv"]
YAML_TOOLS = ["tasks", "--tools", "tools.yaml", "--tasks", "tasks.csv"]
LINES = ["tasks", "--tools", "tools.py", "--tasks", "tasks.jsonl"]
RUN = [
    *("compare", "--dry-run", "--tools", "tools.py", "--tasks", "tasks.csv"),
    *("--script", "script.jsonl"),
]
FILE = ["compare", "--dry-run"]

TOOL_FILES = {
    "Python that does not parse": (
        {"tools.py": "def get_price(product: str) -> dict:\nreturn 3\n"},
        *(CHECK, "tools.py:2: ", "mend it"),
    ),
    "Python whose import raises": (
        {"tools.py": "X = 1\n\nY = X / 0\n"},
        *(CHECK, "tools.py:3: ", "ZeroDivisionError"),
    ),
    "Python that imports what is not there": (
        {"tools.py": "import no_such_module_anywhere\n"},
        *(CHECK, "tools.py:1: ", "no_such_module_anywhere"),
    ),
    "Python that leaves": (
        {"tools.py": "raise SystemExit(0)\n"},
        CHECK,
        "tools.py:1: ",
        "SystemExit",
    ),
    "a parameter without a type": (
        {"tools.py": TOOLS.replace("product: str", "product")},
        *(CHECK, "tools.py:4: ", "write product: str"),
    ),
    "a parameter that no JSON can fill": (
        {"tools.py": TOOLS.replace("product: str", "*product: str")},
        *(CHECK, "tools.py:4: ", "name each parameter"),
    ),
    "a marked function that is not there": (
        {"tools.py": TOOLS + '\nCHANGES = ["get_prize"]\n'},
        *(CHECK, "tools.py:12: ", "its functions: get_price"),
    ),
    "a module without functions": (
        {"tools.py": "X = 1\n"},
        CHECK,
        "tools.py: ",
        "public functions",
    ),
    "JSON that is none": (
        {"tools.json": '[\n{"type": "function",}\n]'},
        *(JSON_TOOLS, "tools.json:2: ", "save a list of OpenAI tools"),
    ),
    "a list of something else": (
        {"tools.json": listed(ENTRY, {"tool": "get_stock"})},
        *(JSON_TOOLS, "tools.json:3: ", "entry 2 is no tool"),
    ),
    "a name that no endpoint takes": (
        {"tools.json": listed({"name": "get price"})},
        *(JSON_TOOLS, "tools.json:2: ", "use 1 to 64"),
    ),
    "two tools of one name": (
        {"tools.json": listed(ENTRY, ENTRY)},
        *(JSON_TOOLS, "tools.json:3: ", "rename one"),
    ),
    "parameters that are no schema": (
        {"tools.json": listed(ENTRY, with_schema({"product": "string"}))},
        *(JSON_TOOLS, "tools.json:3: ", 'write {"type": "object"'),
    ),
    "a property that is no schema": (
        {"tools.json": listed(with_schema({"type": "object", "properties": {"product": "text"}}))},
        *(JSON_TOOLS, "tools.json:2: ", "parameters.product is no schema; write an object"),
    ),
    "a schema that points to the network": (
        {
            "tools.json": listed(
                with_schema(
                    {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/x.json"}}}
                )
            )
        },
        *(JSON_TOOLS, "tools.json:2: ", "points outside; write the schema out"),
    ),
    "a canned result of an unknown tool": (
        {
            "tools.json": json.dumps(
                {"tools": [ENTRY], "results": [{"tool": "get_prise", "result": 3}]}, indent=1
            )
        },
        *(JSON_TOOLS, "tools.json:12: ", "use one of get_price"),
    ),
    "a canned result without a result": (
        {"tools.json": json.dumps([ENTRY]), "tools.results.json": '[\n{"tool": "get_price"}\n]'},
        *(JSON_TOOLS, "tools.results.json:2: ", 'write it as {"tool": NAME'),
    ),
    "YAML that does not parse": (
        {"tools.yaml": "tools:\n  - name: get_price\n   description: x\n"},
        *(YAML_TOOLS, "tools.yaml:3: ", "not YAML"),
    ),
    "YAML that would unfold": (
        {"tools.yaml": "a: &a [x, x]\nb: *a\ntools: []\n"},
        *(YAML_TOOLS, "tools.yaml:2: ", "write the value out"),
    ),
    "YAML that would run something": (
        {"tools.yaml": "tools: !!python/object/apply:os.getcwd []\n"},
        *(YAML_TOOLS, "tools.yaml:1: ", "not YAML"),
    ),
    "no such file": (
        {},
        ["tasks", "--tools", "tool.py", "--tasks", "tasks.csv"],
        "'tool.py': ",
        "give",
    ),
}
TASK_FILES = {
    "no column of tools": (
        {"tasks.csv": "question,tags\nWhat?,x\n"},
        *(CHECK, "tasks.csv:1: ", "known: question, expected_tool"),
    ),
    "a line without its tool": (
        {"tasks.csv": TASKS + "And a cup?,\n"},
        *(CHECK, "tasks.csv:3: ", "write none where none is needed"),
    ),
    "an unknown tool": (
        {"tasks.csv": TASKS + "And a cup?,get_prise\n"},
        *(CHECK, "tasks.csv:3: ", "use one of get_price"),
    ),
    "too many cells": (
        {"tasks.csv": TASKS + "A cup, a pen?,get_price\n"},
        *(CHECK, "tasks.csv:3: ", 'in "quotes"'),
    ),
    "a quote that stays open": (
        {"tasks.csv": TASKS + '"And a cup?,get_price\n'},
        *(CHECK, "tasks.csv:3: ", 'close its "quotes"'),
    ),
    "two columns that mean one": (
        {"tasks.csv": "question,tool,expected_tool\nWhat?,get_price,get_price\n"},
        *(CHECK, "tasks.csv:1: ", "drop one"),
    ),
    "arguments that are no JSON": (
        {"tasks.csv": "question,tool,arguments\nWhat?,get_price,product=pen\n"},
        *(CHECK, "tasks.csv:2: ", "in a CSV cell"),
    ),
    "arguments for another number of calls": (
        {"tasks.csv": 'question,tool,arguments\nWhat?,get_price,"[{}, {}]"\n'},
        *(CHECK, "tasks.csv:2: ", "one object, one for each expected tool"),
    ),
    "an unknown language": (
        {"tasks.csv": "question,tool,lang\nQuoi?,get_price,fr\n"},
        *(CHECK, "tasks.csv:2: ", "allowed: en, zh"),
    ),
    "two tasks of one id": (
        {"tasks.csv": "id,question,tool\na,What?,get_price\na,Who?,none\n"},
        *(CHECK, "tasks.csv:3: ", "rename it"),
    ),
    "an empty question": (
        {"tasks.csv": "id,question,tool\na,,get_price\n"},
        *(CHECK, "tasks.csv:2: ", "question"),
    ),
    "a header only": ({"tasks.csv": "question,tool\n"}, CHECK, "tasks.csv:1: ", "holds no task"),
    "a line that is no JSON": (
        {"tasks.jsonl": '{"question": "What?", "tool": "none"}\n{"question": \n'},
        *(LINES, "tasks.jsonl:2: ", "write one object a line"),
    ),
    "a line that is a list": (
        {"tasks.jsonl": "[1]\n"},
        LINES,
        "tasks.jsonl:1: ",
        "one object a line",
    ),
    "a gold that is none": (
        {"tasks.jsonl": '{"question": "What?", "gold": {"call": []}}\n'},
        *(LINES, "tasks.jsonl:1: ", "known fields: calls"),
    ),
    "another kind of file": (
        {"tasks.xlsx": "PK"},
        *(
            ["tasks", "--tools", "tools.py", "--tasks", "tasks.xlsx"],
            "tasks.xlsx:1: ",
            "save it so",
        ),
    ),
    "tools without tasks": ({}, ["tasks", "--tools", "tools.py"], "--tools: ", "--tasks FILE"),
    "no UTF-8": (
        {"tasks.csv": b"question,tool\n\xff\xfe,none\n"},
        CHECK,
        "tasks.csv:1: ",
        "not UTF-8",
    ),
}
OTHER_FILES = {
    "a variant of an unknown tool": (
        {"v.json": '{"short": {\n "descriptions": {\n  "get_prise": "x"}}}'},
        *([*RUN, "--variants", "v.json"], "v.json:3: ", "use one of get_price"),
    ),
    "a variant of an unknown parameter": (
        {"v.json": '{"short": {\n "parameters": {\n  "get_price": {"prod": "x"}}}}'},
        *([*RUN, "--variants", "v.json"], "v.json:3: ", "it has product"),
    ),
    "a variant named like a bundled one": (
        {"v.json": '{\n"name": {"descriptions": {}}}'},
        *([*RUN, "--variants", "v.json"], "v.json:2: ", "name yours otherwise"),
    ),
    "a variant that is not there": (
        {"v.json": '{"short": {"descriptions": {"get_price": "Price."}}}'},
        *(
            [*RUN, "--variants", "v.json", "--variant", "shirt"],
            "--variant shirt: ",
            "known: short",
        ),
    ),
    "a variant that changes nothing": (
        {},
        *([*RUN, "--variant", "what"], "--variant what: ", "name it with --variants"),
    ),
    "a script without a task": (
        {"script.jsonl": SCRIPT.replace("own-01", "own-02")},
        *(RUN, "script.jsonl:1: ", "add {"),
    ),
    "a script's odd reply": (
        {"script.jsonl": '\n{"task": "own-01", "replies": [{"say": "x"}]}\n'},
        *(RUN, "script.jsonl:2: ", "reply 1 can't be played"),
    ),
    "a script and a model": ({}, [*RUN, "--model", "m"], "--script and --model: ", "drop one"),
    "leave for an unknown tool": (
        {},
        [*RUN, "--allow", "buy"],
        "--allow buy: ",
        "known: get_price",
    ),
    "no time at all": ({}, [*RUN, "--tool-timeout", "0"], "--tool-timeout 0: ", "more than 0"),
}
CONFIGS = {
    "an unknown option": ("limit = 1\nvarint = 3\n", 2, "did you mean variant?"),
    "an option of nothing like it": ("zzz = 1\n", 1, "see python -m bench compare --help"),
    "a key": ('model = "m"\napi_key = "sk-planted-0123456789"\n', 2, "set LLM_API_KEY"),
    "a key by another name": ('\n\nopenai-api-key = "sk-planted"\n', 3, "set LLM_API_KEY"),
    "a key in a header": ('header = ["Authorization=Bearer x"]\n', 1, "on the command line"),
    "a key in further fields": ('extra-body = {a = [{api_key = "x"}]}\n', 1, "on the command line"),
    "no TOML": ('tools = "tools.py"\ntasks = tasks.csv\n', 2, 'write name = "text"'),
    "TOML that breaks off": ('tools = "tools.py"\ntasks = ["a",\n', 2, 'write name = "text"'),
    "a text for a number": ('\nlimit = "all"\n', 2, "no whole number from 1 on"),
    "a negative number": ("limit = -3\n", 1, "no whole number from 1 on"),
    "a number for a switch": ("stream = 1\n", 1, "write true or false"),
    "a list for one value": ('tasks = ["a.csv", "b.csv"]\n', 1, "takes one value"),
    "an object for a text": ("model = {a = 1}\n", 1, "write a text or number"),
    "a table": ("limit = 1\n[compare]\ntrials = 2\n", 2, "no option 'compare'"),
    "what is said once": ('resume = "latest"\n', 1, "give it as --resume"),
    "no UTF-8": (b"model = '\xff'\n", 1, "save it so"),
}


def play(files, words, folder, monkeypatch, capsys):
    """Run a command in a folder of files; return its status and what it complains."""
    for name, text in {**GOOD, **files}.items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / name).write_bytes(data)
    monkeypatch.chdir(folder)
    status = main(words)
    out, err = capsys.readouterr()
    assert out == ""
    return status, err


@pytest.mark.parametrize(
    ("files", "words", "place", "fix"),
    [pytest.param(*row, id=name) for name, row in (TOOL_FILES | TASK_FILES | OTHER_FILES).items()],
)
def test_a_malformed_file_is_one_clear_line(
    files, words, place, fix, tmp_path, monkeypatch, capsys
):
    status, err = play(files, words, tmp_path, monkeypatch, capsys)
    assert status == MISTAKE, err
    [line] = err.splitlines()
    assert line.replace(f"{tmp_path}/", "").startswith(f"bench: {place}"), line
    assert fix in line
    assert len(line) < 500


@pytest.mark.parametrize(("text", "at", "fix"), CONFIGS.values(), ids=CONFIGS)
def test_a_malformed_config_is_one_clear_line(text, at, fix, tmp_path, monkeypatch, capsys):
    status, err = play({"bench.toml": text}, FILE, tmp_path, monkeypatch, capsys)
    assert status == MISTAKE, err
    [line] = err.splitlines()
    assert line.startswith(f"bench: bench.toml:{at}: "), line
    assert fix in line
    assert "planted" not in line


def test_the_good_files_that_the_tables_start_from_are_good(tmp_path, monkeypatch, capsys):
    for name, text in GOOD.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(CHECK) == 0
    assert "1 tasks; gold that scores 1: 1" in capsys.readouterr().out
    assert main(RUN) == 0
    assert capsys.readouterr().err.startswith("SCRIPTED: no model was asked.")
