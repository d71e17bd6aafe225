"""bench.toml: what flags hold; flags win over the environment, the environment over the file."""

from pathlib import Path

import pytest

from bench import __main__ as command_line
from bench.__main__ import main
from bench.status import MISTAKE


@pytest.fixture
def said(tmp_path, monkeypatch):
    """Return the options of a command in a folder with a bench.toml."""
    monkeypatch.chdir(tmp_path)

    def parse(text, *words, name="bench.toml"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
        told = command_line._with_command(list(words))
        options = command_line._parser().parse_args(told)
        options.config_words = told
        command_line._take_config(options)
        return vars(options)

    return parse


VALUES = {
    "a text": ('model = "m"', "model", "m"),
    "a number": ("limit = 3", "limit", 3),
    "a fraction": ("tool-timeout = 0.5", "tool_timeout", 0.5),
    "a list": ('drivers = ["react", "native"]', "drivers", ["react", "native"]),
    "one of a list": ('drivers = "react"', "drivers", ["react"]),
    "what may be repeated": ('header = ["A=1", "B=2"]', "header", ["A=1", "B=2"]),
    "a switch": ("stream = true", "stream", True),
    "a switch that is off": ("stream = false", "stream", False),
    "a switch that turns off": ("no-example = true", "example", False),
    "an underscore": ('base_url = "http://127.0.0.1:9/v1"', "base_url", "http://127.0.0.1:9/v1"),
    "a negative number": ("seed = -3", "seed", -3),
    "further fields": ("extra-body = {a = 1}", "extra_body", '{"a": 1}'),
    "a folder": ('results = "runs"', "results", Path("runs")),
    "nothing": ("", "limit", None),
}


@pytest.mark.parametrize(("text", "name", "value"), VALUES.values(), ids=VALUES)
def test_a_key_is_what_its_flag_is(text, name, value, said):
    assert said(text + "\n", "compare")[name] == value


ORDER = {
    "a flag over the file": ("limit = 3", {}, ["--limit", "5"], {"limit": 5}),
    "a repeated flag over the file": (
        'header = ["A=1"]',
        *({}, ["--header", "B=2"], {"header": ["B=2"]}),
    ),
    "a list of flags over the file": (
        'drivers = ["react"]',
        *({}, ["--drivers", "native"], {"drivers": ["native"]}),
    ),
    "the environment over the file": (
        'base-url = "http://127.0.0.1:9/v1"',
        *({"LLM_BASE_URL": "http://127.0.0.1:8/v1"}, [], {"base_url": None}),
    ),
    "a model over the file's script": (
        'script = "s.jsonl"',
        *({}, ["--model", "m"], {"script": None, "model": "m"}),
    ),
    "the environment's model over the file's script": (
        'script = "s.jsonl"',
        *({"LLM_MODEL": "m"}, [], {"script": None, "model": None}),
    ),
    "the file's model over its script": (
        'script = "s.jsonl"\nmodel = "m"',
        *({}, [], {"script": None, "model": "m"}),
    ),
    "a script over the file's model": (
        'model = "m"',
        *({}, ["--script", "s.jsonl"], {"script": "s.jsonl", "model": None}),
    ),
    "an address keeps the file's model": (
        'model = "m"',
        *({}, ["--base-url", "http://127.0.0.1:9/v1"], {"model": "m"}),
    ),
    "a run that goes on": (
        'limit = 3\nheader = "A=1"\nresults = "runs"',
        *({}, ["--resume", "x"], {"limit": None, "header": ["A=1"], "results": Path("runs")}),
    ),
}


@pytest.mark.parametrize(("text", "environ", "words", "expected"), ORDER.values(), ids=ORDER)
def test_flags_then_environment_then_file(text, environ, words, expected, said, monkeypatch):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    found = said(text + "\n", "compare", *words)
    assert {name: found[name] for name in expected} == expected


def test_without_a_command_the_file_speaks_too(said):
    assert said("limit = 3\n")["limit"] == 3


def test_a_named_file_is_read_and_its_paths_are_seen_from_it(said):
    text = 'tools = ["tools.py:f", "my.tools"]\ntasks = "tasks.csv"\nresults = "runs"\n'
    found = said(text, "compare", "--config", "sub/mine.toml", name="sub/mine.toml")
    assert found["tools"] == ["sub/tools.py:f", "my.tools"]
    assert (found["tasks"], found["results"]) == ("sub/tasks.csv", Path("sub/runs"))
    assert found["config"] == "sub/mine.toml"


def test_a_command_takes_what_it_knows(said):
    text = 'tools = "tools.py"\ntasks = "tasks.csv"\nlimit = 3\nresults = "runs"\n'
    found = said(text, "tasks")
    assert (found["tools"], found["tasks"], "limit" in found) == (["tools.py"], "tasks.csv", False)
    found = said(text, "league")
    assert (found["tools"], found["results"]) == (None, Path("runs"))


def test_a_named_file_that_is_not_there_is_one_clear_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "--config", "mine.toml"]) == MISTAKE
    assert capsys.readouterr().err == "bench: mine.toml: no such file; check --config\n"
