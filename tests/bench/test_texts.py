"""The catalogue of texts: nothing missing, nothing left over, every place in braces kept."""

import ast
import re
from pathlib import Path

import pytest

from bench import findings, texts
from bench.tables import MEASURES
from bench.texts import catalogue, retell, say, speaking

BENCH = Path(texts.__file__).parent.parent
SOURCES = (BENCH / "findings.py", BENCH / "charts.py", *sorted((BENCH / "report").glob("*.py")))
SAYING = ("say", "mark", "label")


def fixed_texts():
    """Yield every text that a report says, from the code, the templates and the tables."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if called and node.func.id in SAYING and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value
    for path in (BENCH / "templates").rglob("*.jinja"):
        found = re.findall(r"""say\((["'])(.+?)\1\)""", path.read_text(encoding="utf-8"))
        yield from (text for _, text in found)
    for measure in MEASURES:
        yield from (measure.label, measure.meaning)
    yield from (*findings.KINDS.values(), *findings.STOPS.values())


def places(text):
    return sorted(re.findall(r"{(\w+)}", text))


@pytest.mark.parametrize("language", sorted({*texts.LANGUAGES} - {"en"}))
def test_a_catalogue_holds_every_text_and_no_other(language):
    wanted, held = set(fixed_texts()), catalogue(language)
    assert len(wanted) > 250
    assert wanted - set(held) == set()
    assert set(held) - wanted == set()
    assert [text for text in held if places(text) != places(held[text])] == []


def test_a_text_is_said_in_the_language_of_the_block():
    assert say("{n} units", n=3) == "3 units"
    with speaking("zh"):
        assert say("{n} units", n="{x}") == "{x} 个单元"
        assert say("not in the catalogue: {n}", n=1) == "not in the catalogue: 1"
    assert say("Answer") == "Answer"


def test_a_language_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="'fr' is none of"), speaking("fr"):
        pass


RETOLD = {
    "a form": ("9 units, under 15: counts only", "只有 9 个单元，少于 15 个：只报告计数"),
    "none": ("something new", "something new"),
}


@pytest.mark.parametrize(("text", "told"), RETOLD.values(), ids=RETOLD)
def test_a_text_made_elsewhere_is_said_again(text, told):
    with speaking("zh"):
        assert retell(text, findings._NOTES) == told
