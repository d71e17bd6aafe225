"""Who may import whom (CONTRIBUTING.md, the map), read from the files without running them."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ONLY_IN = {
    "openai": {"bench/clients.py", "bench/perf/episodes.py"},
    "pandas": {"bench/tables.py", "bench/charts.py"},
    "matplotlib": {"bench/charts.py"},
    "starlette": {"bench/endpoint/server.py", "bench/endpoint/script.py"},
    "uvicorn": {"bench/endpoint/server.py"},
    "mcp": {"bench/mcp_tools.py"},
}
PARSERS_MAY = {"parsers", "regex", "jsonschema_rs"} | set(sys.stdlib_module_names)
SOURCES = sorted(
    path
    for package in ("parsers", "bench")
    for path in (ROOT / package).rglob("*.py")
    # the examples are run by other projects' Pythons
    if "_datasets" not in path.parts and "examples" not in path.parts
)


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: imports are absolute"
            yield node.module


def relative(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_module_imports_only_what_its_place_allows(path):
    for name in imports(path):
        top = name.split(".")[0]
        if path.parts[-2] == "parsers":
            assert top in PARSERS_MAY, f"{relative(path)} may not import {name}"
        if top in ONLY_IN:
            assert relative(path) in ONLY_IN[top], f"{relative(path)} may not import {name}"
        assert top not in {"tests", "notebooks"}, f"{relative(path)} may not import {name}"


def test_data_folders_are_no_packages():
    for name in ("datasets", "results", "notebooks", "tests"):
        assert not list((ROOT / name).rglob("__init__.py"))
