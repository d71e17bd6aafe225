"""The fixed texts of reports in another language: a catalogue for each, keyed by the English text.

`say` gives a text in the language that is spoken at the moment. What is not in a catalogue stays
English, so a new sentence never breaks a report; a test tells which ones are missing.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

LANGUAGES = ("en", "zh")
_spoken: ContextVar[str] = ContextVar("spoken", default="en")


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Speak a language of `LANGUAGES` in this block."""
    if language not in LANGUAGES:
        raise ValueError(f"{language!r} is none of {', '.join(LANGUAGES)}")
    token = _spoken.set(language)
    try:
        yield
    finally:
        _spoken.reset(token)


def spoken() -> str:
    """Return the language that is spoken."""
    return _spoken.get()


def say(text: str, **values: Any) -> str:
    """Give a text in the language that is spoken, with its places in braces filled."""
    return catalogue(spoken()).get(text, text).format(**values) if values else _plain(text)


def retell(text: str, forms: Sequence[str]) -> str:
    """Say a text that was made from one of these forms, elsewhere and in English."""
    for form in forms:
        found = _pattern(form).fullmatch(text)
        if found is not None:
            return say(form, **found.groupdict())
    return text


@cache
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+?)", re.escape(form)))


def mark(text: str) -> str:
    """Return a text as it is; it stands in the catalogues and is said later."""
    return text


def _plain(text: str) -> str:
    return catalogue(spoken()).get(text, text)


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """Return a language's texts by the English ones; English has none."""
    if language == "en":
        return {}
    path = Path(__file__).parent / f"{language}.toml"
    found: dict[str, str] = tomllib.loads(path.read_text(encoding="utf-8"))
    return found
