"""A variant changes only what it says, and what it shows leads back to the real tool."""

import asyncio
import json
import re
from pathlib import Path

import jsonschema_rs
import pytest

from bench.paths import find_datasets
from bench.tools import list_toolsets, load_tools
from bench.types import WorkbenchError
from bench.variants import (
    FULL,
    LOOKALIKES,
    VARIANTS,
    apply_to_toolbox,
    apply_variant,
    find_file,
    list_variants,
    original_name,
    read_texts,
)
from parsers import Call, Tool

LANGS = ("en", "zh")
EACH = [(variant, lang) for variant in VARIANTS for lang in LANGS]
FOLDER = find_datasets() / "variants"


def full(lang, toolset="all"):
    return load_tools(toolset, lang).tools


def bare_schema(schema):
    """Return a schema without its texts."""
    if isinstance(schema, dict):
        return {k: bare_schema(v) for k, v in schema.items() if not is_text(k, v)}
    return [bare_schema(part) for part in schema] if isinstance(schema, list) else schema


def is_text(key, value):
    return key == "description" and isinstance(value, str)


def recipe(variant):
    return json.loads(find_file(variant).read_text(encoding="utf-8"))


def words(text, lang):
    return re.findall(r"\w+", text) if lang == "en" else re.findall(r"\w", text)


def is_within(part, whole):
    """Say whether all words of a part stand in the whole, in their order."""
    rest = iter(whole)
    return all(word in rest for word in part)


# ------------------------------------------------------------ the data


def test_every_variant_has_its_file_and_every_file_its_variant():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(VARIANTS)
    assert list(list_variants()) == list(VARIANTS)
    assert all(says.endswith(".") for says in list_variants().values())


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_file_keeps_to_the_schema_and_names_only_bundled_tools(path):
    schema = json.loads((find_datasets() / "schema" / "variants.json").read_text(encoding="utf-8"))
    value = json.loads(path.read_text(encoding="utf-8"))
    jsonschema_rs.validate(schema, value)
    known = {tool.name for tool in full("en")}
    told = value.get("descriptions", {})
    named = {name for texts in told.values() for name in texts}
    assert named | set(value.get("tools", ())) | set(value.get("names", {})) <= known
    assert len({frozenset(texts) for texts in told.values()}) <= 1, "both languages tell the same"


@pytest.mark.parametrize("variant", ["name", "what", "what+when"])
def test_the_steps_of_the_ladder_have_a_text_for_every_tool(variant):
    for texts in recipe(variant)["descriptions"].values():
        assert set(texts) == {tool.name for tool in full("en")}


@pytest.mark.parametrize("variant", ["verbose", "examples"])
def test_the_long_texts_are_there_for_the_six_look_alikes(variant):
    for texts in recipe(variant)["descriptions"].values():
        assert set(texts) == set(LOOKALIKES)


# ------------------------------------------------------------ only what it says


@pytest.mark.parametrize(("variant", "lang"), EACH)
def test_a_variant_changes_only_what_it_says(variant, lang):
    changes = set(recipe(variant)["changes"])
    shown = apply_variant(full(lang), variant, lang)
    renamed = {own: told for told, own in shown.names.items()}
    for before, after in zip(full(lang), shown.tools, strict=True):
        assert bare_schema(after.parameters) == bare_schema(before.parameters)
        if "name" not in changes:
            assert after.name == before.name
            assert "description" in changes or after.description == before.description
            assert "parameters" in changes or read_texts(after) == read_texts(before)
        else:
            assert after.name == renamed[before.name]
            assert unscramble(after.description, shown.names) == before.description
    assert changes or shown.tools == full(lang)


def unscramble(text, names):
    return re.sub(r"func_\d+", lambda found: names[found[0]], text)


@pytest.mark.parametrize(("variant", "lang"), EACH)
def test_changed_names_the_tools_that_differ_and_no_other(variant, lang):
    shown = apply_variant(full(lang), variant, lang)
    pairs = zip(full(lang), shown.tools, strict=True)
    assert shown.changed == {before.name for before, after in pairs if before != after}
    assert bool(shown.changed) == (variant != FULL)


@pytest.mark.parametrize("variant", ["verbose", "examples", "wrong-language"])
@pytest.mark.parametrize("lang", LANGS)
def test_a_variant_of_the_look_alikes_leaves_the_other_tools_alone(variant, lang):
    assert apply_variant(full(lang), variant, lang).changed == set(LOOKALIKES)


@pytest.mark.parametrize("variant", ["assertive", "misleading"])
@pytest.mark.parametrize("lang", LANGS)
def test_one_look_alike_claims_what_is_not_its_own(variant, lang):
    changed = apply_variant(full(lang), variant, lang).changed
    assert len(changed) == 1
    assert changed < set(LOOKALIKES)


@pytest.mark.parametrize("lang", LANGS)
def test_the_ladder_takes_words_away_and_puts_none_in(lang):
    steps = ["what", "what+when", FULL]
    told = {step: apply_variant(full(lang), step, lang).tools for step in steps}
    for what, when, whole in zip(*told.values(), strict=True):
        assert when.description.startswith(what.description)
        assert len(what.description) < len(when.description) < len(whole.description)
        assert is_within(words(when.description, lang), words(whole.description, lang)), what.name


@pytest.mark.parametrize("lang", LANGS)
def test_a_name_has_two_or_three_words(lang):
    for tool in apply_variant(full(lang), "name", lang).tools:
        text = tool.description
        assert text.endswith({"en": " tool", "zh": "工具"}[lang])
        assert 2 <= len(text.split()) <= 4 if lang == "en" else 4 <= len(text) <= 8


@pytest.mark.parametrize("lang", LANGS)
def test_verbose_tells_the_same_facts_in_about_five_times_the_words(lang):
    for before, after in zip(
        full(lang), apply_variant(full(lang), "verbose", lang).tools, strict=True
    ):
        if before == after:
            continue
        short, long = before.description, after.description
        assert 4 < len(words(long, lang)) / len(words(short, lang)) < 6, before.name
        assert len(long) <= 1024
        for fact in (r"\d+", r"[a-z]+_[a-z_]+", r"(?<![A-Za-z])[A-Z]{2,}(?![A-Za-z])"):
            assert set(re.findall(fact, long)) == set(re.findall(fact, short)), before.name


@pytest.mark.parametrize("lang", LANGS)
def test_examples_adds_two_questions_that_no_task_asks(lang):
    asked = {
        json.loads(line)["question"]
        for path in (find_datasets() / "tasks").glob("*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    }
    for before, after in zip(
        full(lang), apply_variant(full(lang), "examples", lang).tools, strict=True
    ):
        added = after.description.removeprefix(before.description)
        questions = re.findall(r"[\"“](.+?)[\"”]", added)
        assert before == after or len(questions) == 2
        assert not asked & set(questions)


@pytest.mark.parametrize("variant", ["bare-params", "bare"])
def test_undescribed_parameters_have_no_text_at_any_depth(variant):
    for tool in apply_variant(full("en"), variant, "en").tools:
        assert '"description": "' not in json.dumps(tool.parameters)


def test_bare_is_the_name_without_the_parameters_texts():
    names = [tool.description for tool in apply_variant(full("zh"), "name", "zh").tools]
    assert [tool.description for tool in apply_variant(full("zh"), "bare", "zh").tools] == names


@pytest.mark.parametrize("lang", LANGS)
def test_wrong_language_is_the_other_languages_full_text(lang):
    other = {tool.name: tool for tool in full("zh" if lang == "en" else "en")}
    shown = apply_variant(full(lang), "wrong-language", lang).tools
    assert all(tool == other[tool.name] for tool in shown if tool.name in LOOKALIKES)


# ------------------------------------------------------------ scrambled names


@pytest.mark.parametrize("lang", LANGS)
def test_scrambled_names_lead_back_and_stand_in_every_text(lang):
    shown = apply_variant(full(lang), "scrambled-name", lang)
    hidden = set(LOOKALIKES)
    assert {own for told, own in shown.names.items() if told != own} == hidden
    for tool in shown.tools:
        texts = " ".join([tool.name, tool.description, *read_texts(tool).values()])
        assert not any(re.search(rf"\b{name}\b", texts) for name in hidden), texts


NAMES = {
    "a shown name is the tool behind it": ("scrambled-name", "func_7", "get_weather"),
    "a name that was not hidden stays": ("scrambled-name", "convert_units", "convert_units"),
    "a hidden name was not on offer": (
        "scrambled-name",
        "get_weather",
        "get_weather (not offered)",
    ),
    "an invented name stays invented": ("scrambled-name", "func_99", "func_99"),
    "other variants hide no name": ("verbose", "get_weather", "get_weather"),
}


@pytest.mark.parametrize(("variant", "shown", "own"), NAMES.values(), ids=NAMES)
def test_a_shown_name_is_told_back(variant, shown, own):
    assert original_name(variant, shown) == own


@pytest.mark.parametrize("toolset", list_toolsets())
def test_names_are_one_to_one_in_every_toolset(toolset):
    for variant in VARIANTS:
        shown = apply_variant(full("en", toolset), variant, "en")
        own = [tool.name for tool in full("en", toolset)]
        assert [original_name(variant, tool.name) for tool in shown.tools] == own
        assert len(set(shown.names)) == len(own)


def test_a_shown_name_runs_the_function_behind_it():
    box = apply_to_toolbox(load_tools("weather"), "scrambled-name", "en")
    result = asyncio.run(box.run(Call("func_7", {"city": "Beijing"})))
    assert not result.error
    assert json.loads(result.content)["city"]
    assert asyncio.run(box.run(Call("get_weather", {"city": "Beijing"}))).error


def test_a_toolbox_in_full_is_the_same_toolbox():
    assert apply_to_toolbox(load_tools("money"), FULL, "en") == load_tools("money")


# ------------------------------------------------------------ other tools, other names


def test_an_unknown_variant_is_the_users_mistake_with_the_list():
    with pytest.raises(WorkbenchError, match=r"'nmae'.*known: full, what"):
        apply_variant(full("en"), "nmae", "en")
    with pytest.raises(WorkbenchError):
        find_file("../tools/zh")


def test_a_users_own_tool_keeps_its_texts_even_under_a_bundled_name():
    schema = {"type": "object", "properties": {"city": {"type": "string", "description": "Town."}}}
    own = Tool("get_weather", "My weather.", schema)
    assert apply_variant([own], "name", "en").tools == (own,)
    bare = apply_variant([own], "bare-params", "en").tools[0]
    assert (bare.description, read_texts(bare)) == ("My weather.", {})


def test_data_files_are_plain_files():
    assert all(isinstance(find_file(variant), Path) for variant in VARIANTS)
