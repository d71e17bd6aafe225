"""Own tools: how they are found, what they are taken for, and that none can stop a run."""

import asyncio
import json
import sys
import threading
from dataclasses import dataclass
from datetime import date
from enum import Enum
from itertools import count

import pytest

from bench.clients import ScriptedClient
from bench.loop import solve
from bench.own.calls import OwnCall
from bench.own.tools import find_tools, load_entries
from bench.tools import Toolbox, leave_for, refuse_all
from bench.tools.toolbox import LONGEST_RESULT
from bench.types import WorkbenchError
from parsers import Call

# ------------------------------------------------------------ tools that misbehave

SECONDS = 0.3

MODULE = '''
"""Tools that do all that a tool must not do."""
import asyncio
import os
import sys
import threading
from itertools import count

HANG = threading.Event()


def hang() -> str:
    """Never come back."""
    HANG.wait()
    return "late"


async def hang_async() -> str:
    """Never come back, politely."""
    await asyncio.sleep(3600)
    return "late"


def fail() -> str:
    """Raise."""
    raise ValueError("no such product: 17\\nsee the list")


def leave() -> str:
    """Leave the program."""
    sys.exit(3)


class Mute(Exception):
    def __str__(self):
        raise RuntimeError


def fail_mutely() -> str:
    """Raise what cannot even be told."""
    raise Mute


def give_object() -> object:
    """Give back what is not JSON."""
    return object()


def give_bytes() -> dict:
    """Give back bytes inside JSON."""
    return {"picture": b"\\x00"}


def give_endless() -> object:
    """Give back numbers without end."""
    return count()


def give_circle() -> list:
    """Give back a list that holds itself."""
    circle = []
    circle.append(circle)
    return circle


def give_nan() -> float:
    """Give back no number."""
    return float("nan")


def give_ten_megabytes() -> str:
    """Give back a text of ten megabytes."""
    return "x" * 10_000_000


def give_many_rows() -> list:
    """Give back a list of ten megabytes."""
    return [{"row": number, "text": "x" * 1000} for number in range(10_000)]


def give_deep() -> list:
    """Give back a list a hundred thousand levels deep."""
    value = []
    for _ in range(100_000):
        value = [value]
    return value


def tell_key() -> str:
    """Tell a key of the environment."""
    raise RuntimeError("401 for url https://api.example/v1?key=" + os.environ["SHOP_API_KEY"])
'''
HOSTILE = {
    "hang": "the tool did not answer within 0.3 s",
    "hang_async": "the tool did not answer within 0.3 s",
    "fail": "the tool failed: ValueError: no such product: 17 see the list",
    "leave": "the tool failed: SystemExit: 3",
    "fail_mutely": "the tool failed: Mute: (it has no text)",
    "give_object": "the tool returned object, which is not JSON: object has no JSON form",
    "give_bytes": "the tool returned dict, which is not JSON: bytes has no JSON form",
    "give_endless": "the tool returned count, which is not JSON: count has no JSON form",
    "give_circle": "the tool returned list, which is not JSON",
    "give_nan": "the tool returned float, which is not JSON",
    "give_ten_megabytes": "the result is too long: 10000000 characters, at most 20000",
    "give_many_rows": "the result is too long: more than 20000 characters",
    "give_deep": "the tool returned list, which is not JSON",
    "tell_key": "the tool failed: RuntimeError: 401 for url https://api.example/v1?key=[key]",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def hostile(here):
    (here / "hostile.py").write_text(MODULE, encoding="utf-8")

    def load(name):
        seconds = SECONDS if name.startswith("hang") else 60.0
        return Toolbox(load_entries([f"hostile.py:{name}"], seconds)[0], seconds)

    return load


def run(coroutine):
    """Run to the end, or fail: a stuck run must not become a stuck test."""
    return asyncio.run(asyncio.wait_for(coroutine, 120))


@pytest.mark.parametrize(("name", "said"), HOSTILE.items(), ids=HOSTILE)
def test_a_tool_that_misbehaves_becomes_an_error_text_and_a_record(
    name, said, way, task, hostile, monkeypatch
):
    monkeypatch.setenv("SHOP_API_KEY", "planted-0123456789")
    client = ScriptedClient([way.calls((name, {})), way.answer("It does not work.")])
    episode = run(solve(task, hostile(name), way.driver, client))
    assert episode.stop == "answered"
    [result] = episode.turns[0].results
    assert result.error
    assert json.loads(result.content)["error"].startswith(said)
    assert len(result.content) <= LONGEST_RESULT
    told = json.dumps(client.requests[-1].messages[-1], ensure_ascii=False)
    assert said.split(":")[0] in told
    assert "planted" not in told


def test_a_tool_that_never_returns_is_not_called_without_end(hostile):
    calls, held = count(), threading.Event()
    toolbox = hostile("hang")

    def hang() -> None:
        next(calls)
        held.wait()

    toolbox.entries[0].function.function = hang
    call = Call("hang", {}, id="c")

    async def often():
        return [await toolbox.run(call) for _ in range(6)]

    results = run(often())
    held.set()
    assert len({result.content for result in results}) == 1
    assert next(calls) == 4


def test_several_calls_run_at_once(here):
    (here / "pair.py").write_text(
        "import threading\nMEET = threading.Barrier(2, timeout=20)\n"
        'def meet(who: str) -> str:\n    """Wait for the other."""\n    MEET.wait()\n    return who\n',
        encoding="utf-8",
    )
    toolbox = Toolbox(load_entries(["pair.py"])[0], 30)
    calls = [Call("meet", {"who": name}, id=name) for name in ("a", "b")]
    assert [result.content for result in run(toolbox.run_all(calls))] == ['"a"', '"b"']


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    day: date


PLAIN = {
    "a text": ("warm", "warm"),
    "JSON as a text": ('{"a": 1}', '{"a": 1}'),
    "an object": ({"a": [1, None, True]}, '{"a": [1, null, true]}'),
    "a dataclass with a date": (Point(1, date(2026, 3, 16)), '{"x": 1, "day": "2026-03-16"}'),
    "a set": ({2, 1}, "[1, 2]"),
    "an enum": (Colour.RED, '"red"'),
    "nothing": (None, "null"),
}


@pytest.mark.parametrize(("value", "text"), PLAIN.values(), ids=PLAIN)
def test_what_has_a_json_form_is_given_back_in_it(value, text):
    assert OwnCall(lambda: value)() == text


# ------------------------------------------------------------ leave


BUY = 'def buy(what: str) -> str:\n    """Buy it."""\n    return what\n'
WRITERS = {
    "a list in the module": (
        "tools.py",
        'CHANGES = ["buy"]\n\n' + BUY,
    ),
    "the bundled decorator": (
        "tools.py",
        "from bench.tools import needs_leave as changes\n\n" + BUY.replace("def", "@changes\ndef"),
    ),
    "a mark on the function": (
        "tools.py",
        BUY + "\nbuy.needs_leave = True\n",
    ),
    "a field of the entry": ("tools.json", '[{"name": "buy", "changes": true}]'),
    "a field in the function": ("tools.json", '[{"function": {"name": "buy", "changes": true}}]'),
    "MCP's hint": ("tools.yml", "- name: buy\n  annotations: {readOnlyHint: false}\n"),
}


@pytest.mark.parametrize(("file", "text"), WRITERS.values(), ids=WRITERS)
def test_what_changes_something_needs_leave(file, text, here):
    (here / file).write_text(text, encoding="utf-8")
    toolbox = Toolbox(load_entries([file])[0])
    arguments = {"what": "a pen"} if file.endswith(".py") else {}
    call = Call("buy", arguments, id="c")
    refused, granted = (run(toolbox.run(call, leave)) for leave in (refuse_all, leave_for(["buy"])))
    assert (refused.error, refused.leave) == (True, None)
    assert "nobody gave leave" in refused.content
    assert (granted.error, granted.leave) == (False, "flag")


# ------------------------------------------------------------ where they are


SHOP = '''"""A shop."""
import helper_of_the_shop

def get_price(product: str) -> int:
    """Get a price."""
    return helper_of_the_shop.PRICE

async def get_stock(product: str) -> int:
    """Get how many are there."""
    import late_of_the_shop
    return late_of_the_shop.STOCK

def _hidden(x):
    return x

TOOLS = [get_stock]
'''
BOTH, PRICE, STOCK = ("get_price", "get_stock"), ("get_price",), ("get_stock",)
TARGETS = {
    "a file": ("shop/own_shop.py", BOTH),
    "a function of a file": ("shop/own_shop.py:get_stock", STOCK),
    "a list of a file": ("shop/own_shop.py:TOOLS", STOCK),
    "a module": ("packed_shop.tools", BOTH),
    "a function of a module": ("packed_shop.tools:get_price", PRICE),
    "what a package shows": ("packed_shop", PRICE),
}


@pytest.fixture
def shop(here, monkeypatch):
    for name in list(sys.modules):
        if name.startswith("packed_shop") or name.endswith("_of_the_shop"):
            monkeypatch.delitem(sys.modules, name)
    (here / "shop").mkdir()
    (here / "packed_shop").mkdir()
    files = {
        "shop/own_shop.py": SHOP,
        "shop/helper_of_the_shop.py": "PRICE = 3\n",
        "shop/late_of_the_shop.py": "STOCK = 7\n",
        "packed_shop/__init__.py": 'from packed_shop.tools import get_price\n__all__ = ["get_price"]\n',
        "packed_shop/tools.py": SHOP.replace("import helper_of_the_shop", "")
        .replace("helper_of_the_shop.PRICE", "3")
        .replace("import late_of_the_shop", "")
        .replace("late_of_the_shop.STOCK", "7"),
    }
    for name, text in files.items():
        (here / name).write_text(text, encoding="utf-8")
    return here


@pytest.mark.parametrize(("target", "names"), TARGETS.values(), ids=TARGETS)
def test_tools_are_found_and_run(target, names, shop):
    entries, paths = load_entries([target])
    assert tuple(entry.tool.name for entry in entries) == names
    toolbox = Toolbox(entries, 20)
    for name in names:
        result = run(toolbox.run(Call(name, {"product": "pen"}, id="c")))
        assert result.content == {"get_price": "3", "get_stock": "7"}[name]
    assert paths
    assert all(path.is_relative_to(shop) for path in paths)


@pytest.mark.usefixtures("shop")
def test_the_files_that_tools_rest_on_are_all_named():
    _, paths = load_entries(["shop/own_shop.py"])
    names = [path.name for path in paths]
    assert {"own_shop.py", "helper_of_the_shop.py"} <= set(names)


def test_several_targets_are_offered_together(shop):
    (shop / "more.json").write_text('[{"name": "f7"}]', encoding="utf-8")
    entries, _ = load_entries(["shop/own_shop.py:get_price", "more.json"])
    assert [entry.tool.name for entry in entries] == ["get_price", "f7"]
    with pytest.raises(WorkbenchError, match="two tools are named get_price"):
        load_entries(["shop/own_shop.py:get_price", "shop/own_shop.py"])


# ------------------------------------------------------------ files of tools

CANNED = """
tools:
  - type: function
    function:
      name: get_rain
      description: Get the rain of a day.
      parameters:
        type: object
        properties: {city: {type: string}, day: {type: string}}
        required: [city]
  - {name: get_wind, description: Get the wind.}
results:
  - {tool: get_rain, arguments: {city: Beijing, day: 2026-03-16}, result: {mm: 4}}
  - {tool: get_rain, arguments: {city: Atlantis}, result: {error: "unknown city"}}
"""
RESULTS = {
    "these arguments": ("get_rain", {"city": "beijing", "day": "2026-03-16"}, '{"mm": 4}', False),
    "an error": ("get_rain", {"city": "Atlantis"}, '{"error": "unknown city"}', True),
    "other arguments": (
        *("get_rain", {"city": "Paris"}),
        *('{"error": "there is no result for these arguments"}', True),
    ),
    "a tool that no result is for": ("get_wind", {}, '"ok"', False),
}


@pytest.mark.parametrize(("tool", "arguments", "text", "error"), RESULTS.values(), ids=RESULTS)
def test_a_file_of_tools_answers_from_its_table(tool, arguments, text, error, here):
    (here / "tools.yaml").write_text(CANNED, encoding="utf-8")
    toolbox = Toolbox(load_entries(["tools.yaml"])[0])
    result = run(toolbox.run(Call(tool, arguments, id="c")))
    assert (result.content, result.error) == (text, error)


def test_the_table_may_stand_beside_the_tools(here):
    (here / "tools.json").write_text('[{"name": "get_wind"}]', encoding="utf-8")
    (here / "tools.results.json").write_text(
        '[{"tool": "get_wind", "result": {"knots": 9}}]', encoding="utf-8"
    )
    entries, paths = load_entries(["tools.json"])
    assert run(Toolbox(entries).run(Call("get_wind", {}, id="c"))).content == '{"knots": 9}'
    assert [path.name for path in paths] == ["tools.json", "tools.results.json"]


def test_a_call_that_the_schema_refuses_is_told_what_helps(here):
    (here / "tools.yaml").write_text(CANNED, encoding="utf-8")
    toolbox = Toolbox(load_entries(["tools.yaml"])[0])
    result = run(toolbox.run(Call("get_rain", {}, id="c")))
    assert json.loads(result.content) == {"error": "missing field: city", "required": ["city"]}


def test_one_loader_serves_the_linter_and_a_run(here):
    (here / "tools.yaml").write_text(CANNED, encoding="utf-8")
    found = find_tools("tools.yaml")
    assert [place.rpartition(":")[2] for place in found.places] == ["3", "11"]
