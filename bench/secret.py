"""What is never written or shown: keys, and what a user's patterns find. Replaces; keeps nothing.

A command says at its start what is secret. From then on every text passes here on its way to a file
or a terminal, and every reply before it is read. What is sent to a model is not changed.
"""

import base64
import html
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus

KEY = "[key]"
SECRET = "[secret]"  # noqa: S105 (what stands in its place)
SHORTEST = 6
"""Characters of a key; a shorter one would be found in any text."""
SECONDS = 1.0
"""Time limit of one pattern on one text."""
LONGEST_PATTERN = 1_000

_LONG = 256
_PLACEHOLDERS = frozenset(
    ("none", "null", "empty", "ollama", "lmstudio", "lm-studio", "dummy", "no-key", "not-needed")
)
"""Keys that are none: servers that ask for no key take any word, and these occur in answers."""
_PLAIN = re.compile(r"[A-Z]?[a-z]{0,15}|[A-Z]{0,16}|[0-9]{0,11}")
"""One word or a small number: to hide it would change what models say, so it is no key."""
_NAME = re.compile(
    r"(?:^|[-_. ])(?:api)?(?:key|token|secret|password|passwd|passphrase|auth|authorization"
    r"|bearer|cookie|credentials?|signature|sig)$|[-_]pwd$|^llm_api_key"
)
_PLAIN_HEADERS = frozenset(
    ("accept", "accept-encoding", "accept-language", "content-type", "http-referer", "referer")
) | {"origin", "user-agent", "x-title", "openai-beta", "anthropic-version", "api-version"}
"""Headers that carry no key."""
_USER = re.compile(r"://([^/\s@]{1,1000})@")
_IN_QUERY = re.compile("key|token|secret|auth|sig|pass|pwd|code", re.IGNORECASE)
_SCHEME = re.compile(r"\b(?:bearer|basic) +([^\s\"',;]{8,})", re.IGNORECASE)
_WELL_KNOWN = re.compile(
    r"\b(?:(?:sk|pk|rk|gsk|hf|xai|gh[opsu]|glpat|github_pat|xox[a-z])[-_]|AIza|AKIA|eyJ)"
    r"(?=[-_A-Za-z.]*[0-9])[-_A-Za-z0-9.]{16,}"
)
"""How keys of known makers begin."""


def names_secret(name: str) -> bool:
    """Tell whether what bears this name is a secret: `--token`, `OPENAI_API_KEY`, `accessToken`."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip().lstrip("-"))
    return bool(_NAME.search(parted.lower()))


def is_telling(text: str) -> bool:
    """Tell whether a key can be told from ordinary words, and so be hidden wherever it stands."""
    plain = len(text) < SHORTEST or text.lower() in _PLACEHOLDERS
    return not plain and not _PLAIN.fullmatch(text)


# ------------------------------------------------------------ one key


def _escape_odd(text: str, form: str, plain: str = "") -> str:
    return "".join(c if c.isalnum() or c in plain else form.format(ord(c)) for c in text)


_WRITERS: tuple[Callable[[str], str], ...] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: text.replace("/", "\\/"),
    lambda text: _escape_odd(text, "\\u{:04X}"),
    lambda text: _escape_odd(text, "\\u{:04x}"),
    lambda text: _escape_odd(text, "\\u{:04X}", "-_."),
    lambda text: _escape_odd(text, "\\u{:04x}", "-_."),
    lambda text: quote(text, safe="", errors="surrogatepass"),
    lambda text: quote(text, errors="surrogatepass"),
    lambda text: quote_plus(text, errors="surrogatepass"),
    lambda text: re.sub(
        "%..", lambda found: found[0].lower(), quote(text, safe="", errors="surrogatepass")
    ),
    html.escape,
)
"""How programs write a text into JSON, addresses and pages."""


def _write_forms(text: str) -> set[str]:
    """Return a text in every form, also one within another; of a very long one fewer."""
    found = {text}
    for _ in range(2 if len(text) <= _LONG else 1):
        found |= {write(form) for form in found for write in _WRITERS}
    return found


def _base64_pieces(key: str) -> Iterator[str]:
    """Yield what stands in base64 wherever a key begins in what was encoded (`user:KEY`)."""
    data = key.encode("utf-8", "surrogatepass")
    for shift, start in ((0, 0), (1, 2), (2, 3)):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(shift) + data)[start : (shift + len(data)) * 8 // 6].decode()


@dataclass(frozen=True)
class _Key:
    text: str

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """What stands in every text that holds the key in some form; a quick look finds them."""
        core = max(re.findall(r"[A-Za-z0-9]+", self.text), key=len, default="")
        return (core if len(core) >= 4 else "", *dict.fromkeys(_base64_pieces(self.text)))

    @cached_property
    def forms(self) -> re.Pattern[str]:
        pieces = {form for piece in _base64_pieces(self.text) for form in _write_forms(piece)}
        plain = sorted(_write_forms(self.text), key=len, reverse=True)
        coded = sorted(pieces, key=len, reverse=True)
        edge = "[A-Za-z0-9+/_-]?"
        return re.compile(
            f"{'|'.join(map(re.escape, plain))}|{edge}(?:{'|'.join(map(re.escape, coded))}){edge}=*"
        )

    @cached_property
    def starred(self) -> re.Pattern[str]:
        """The beginning of the key, a gap, and perhaps its end, as some endpoints quote keys."""
        word = r"[\w+/=-]{0,200}"
        return re.compile(rf"({re.escape(self.text[:4])}{word}?)(?:[*•]{{2,}}|\.{{3}}|…)+({word})")

    def hide(self, text: str) -> str:
        if any(mark in text for mark in self.marks):
            text = self.forms.sub(KEY, text)
        return self.starred.sub(self._unstar, text) if self.text[:4] in text else text

    def _unstar(self, found: re.Match[str]) -> str:
        ours = self.text.startswith(found[1]) and self.text.endswith(found[2])
        return KEY if ours else found[0]


@lru_cache(maxsize=256)
def _key_of(text: str) -> _Key:
    return _Key(text)


# ------------------------------------------------------------ all that is known


@dataclass(frozen=True, slots=True)
class Secrets:
    """Keys and patterns, and how texts are rid of them."""

    keys: tuple[_Key, ...] = ()
    patterns: tuple[Any, ...] = field(default=())
    """Compiled by `regex`, which can be given a time limit."""

    def __bool__(self) -> bool:
        return bool(self.keys or self.patterns)

    def knowing(self, keys: Iterable[str], patterns: Iterable[str] = ()) -> "Secrets":
        """Return these and more."""
        texts = {key.text for key in self.keys} | set(filter(is_telling, keys))
        longest_first = sorted(texts, key=lambda text: (-len(text), text))
        held = {pattern.pattern: pattern for pattern in self.patterns}
        held |= {text: read_pattern(text) for text in patterns if text not in held}
        return Secrets(tuple(map(_key_of, longest_first)), tuple(held.values()))

    def hide_keys(self, text: str) -> str:
        """Replace every key; safe also in a text of JSON or HTML, which stays what it is."""
        for key in self.keys:
            text = key.hide(text)
        return text

    def hide(self, text: str) -> str:
        """Replace keys and what patterns find; in JSON and event streams inside their texts only."""
        text = self.hide_keys(text)
        if is_stream(text) and (events := _Events(text, self)):
            return events.hide()
        if self.patterns or "\\u00" in text:
            return self._hide_json(text) or self.hide_plain(text)
        return text

    def hide_plain(self, text: str) -> str:
        """Replace keys and what patterns find in a text that is nothing but text."""
        text = self.hide_keys(text)
        for pattern in self.patterns:
            text = _substitute(pattern, text)
        return text

    def _hide_json(self, text: str) -> str | None:
        """Hide inside a JSON text; None where it is none."""
        if text.lstrip()[:1] not in ("{", "["):
            return None
        try:
            value = json.loads(text)
            hidden = self.hide_value(value, numbers=bool(self.patterns))
        except (ValueError, RecursionError):
            return None
        return text if hidden == value else json.dumps(hidden, ensure_ascii=False)

    def hide_value(self, value: Any, *, numbers: bool = False) -> Any:
        """Hide in every text of a value, names too; with `numbers` also where a number is found.

        Counts of tokens, times and places in lists stay: nobody could read the answer without them.
        """
        if not self:
            return value
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {
                self._hide_name(name): self.hide_value(
                    item, numbers=numbers and name not in _COUNTS
                )
                for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.hide_value(item, numbers=numbers) for item in value]
        if numbers and isinstance(value, int | float) and not isinstance(value, bool):
            told = json.dumps(value)
            hidden = self.hide_plain(told)
            return value if hidden == told else hidden
        return value

    def _hide_name(self, name: Any) -> Any:
        """Leave names such as our own: a file whose fields are renamed can't be read again."""
        ours = not isinstance(name, str) or re.fullmatch("[a-z_]+", name)
        return name if ours else self.hide_plain(name)


_COUNTS = frozenset(("usage", "timings", "created", "index", "prompt_filter_results"))


def _substitute(pattern: Any, text: str) -> str:
    parts, end = [], 0
    for found in _find_all(pattern, text):
        if found[0]:
            parts += [text[end : found.start()], SECRET]
            end = found.end()
    return "".join(parts) + text[end:]


def _find_all(pattern: Any, text: str) -> list[Any]:
    try:
        return list(pattern.finditer(text, timeout=SECONDS))
    except TimeoutError:
        raise _mistake(
            f"--secret {pattern.pattern}: takes more than {SECONDS:g} s on a text of {len(text)} "
            "characters; write a simpler pattern"
        ) from None


def _mistake(text: str) -> Exception:
    from bench.types import WorkbenchError  # noqa: PLC0415 (takes time to load; --help needs none)

    return WorkbenchError(text)


def read_pattern(text: str) -> Any:
    """Compile a pattern; raises WorkbenchError where it is none, or finds the empty text."""
    import regex  # noqa: PLC0415 (only where a pattern is named)

    if len(text) > LONGEST_PATTERN:
        raise _mistake(f"a pattern of {len(text)} characters; write {LONGEST_PATTERN} or less")
    try:
        pattern = regex.compile(text)
        empty = pattern.search("", timeout=SECONDS)
    except (regex.error, OverflowError, RecursionError, MemoryError, TimeoutError) as error:
        raise _mistake(f"{text!r} is no pattern that can be used ({error})") from None
    if empty is not None:
        raise _mistake(f"{text!r} finds the empty text; write what stands in the secret")
    return pattern


# ------------------------------------------------------------ event streams

_DATA = re.compile(r"(data: ?)(\{.*\})(\s*)")


def is_stream(text: str) -> bool:
    """Tell whether a text is one of server-sent events."""
    return "data:" in text[:2_000] and text.lstrip("\ufeff \t\r\n")[:1] not in ("{", "[", "<")


_Place = tuple[int, Any, Any]
"""The line of a piece of text, what holds it, and under which name or number."""


class _Events:
    """A stream's events: a secret that is split over several is hidden in them all.

    A text in which one is found then stands whole in the event in which it begins, and the others
    lose their part of it. All else stays as it came.
    """

    def __init__(self, text: str, secrets: Secrets) -> None:
        self._lines, self._secrets = text.split("\n"), secrets
        self._values: dict[int, Any] = {}
        self._changed: set[int] = set()
        for number, line in enumerate(self._lines):
            if found := _DATA.fullmatch(line):
                with suppress(ValueError, RecursionError):
                    self._values[number] = json.loads(found[2])

    def __bool__(self) -> bool:
        return bool(self._values)

    def hide(self) -> str:
        """Return the stream without secrets."""
        for places in self._channels().values():
            self._hide_channel(places)
        for number, line in enumerate(self._lines):
            if number not in self._values:
                self._lines[number] = self._secrets.hide_plain(line)
            else:
                self._hide_beside(number, line)
            if number in self._changed:
                start, end = _DATA.sub(r"\1", line), line[len(line.rstrip()) :]
                told = json.dumps(self._values[number], ensure_ascii=False)
                self._lines[number] = f"{start}{told}{end}"
        return "\n".join(self._lines)

    def _hide_beside(self, number: int, line: str) -> None:
        """Hide in what is no growing text: whole there, if it is there."""
        if self._secrets.patterns or "\\u00" in line:
            value = self._values[number]
            self._values[number] = _beside_deltas(value, self._secrets.hide_value)
            self._changed |= {number} if self._values[number] != value else set()

    def _channels(self) -> dict[tuple[Any, ...], list[_Place]]:
        """Return where each growing text has its pieces, such as a call's arguments."""
        found: dict[tuple[Any, ...], list[_Place]] = {}
        for number, value in self._values.items():
            for at, choice in enumerate(_list_choices(value)):
                _walk(number, choice.get("delta"), (str(choice.get("index", at)),), found)
        return found

    def _hide_channel(self, places: Sequence[_Place]) -> None:
        joined = "".join(holder[name] for _, holder, name in places)
        hidden = self._secrets.hide(joined)
        if hidden == joined:
            return
        for at, (number, holder, name) in enumerate(places):
            holder[name] = "" if at else hidden
            self._changed.add(number)


def _list_choices(value: Any) -> list[dict[str, Any]]:
    listed = value.get("choices") if isinstance(value, dict) else None
    return [c for c in listed if isinstance(c, dict)] if isinstance(listed, list) else []


def _walk(
    number: int, part: Any, path: tuple[str, ...], found: dict[tuple[Any, ...], list[_Place]]
) -> None:
    """Collect the texts below a delta; pieces of one text have the same path in every event."""
    listed = isinstance(part, list)
    inner = part.items() if isinstance(part, dict) else enumerate(part) if listed else ()
    for name, item in inner:
        told = item.get("index", name) if listed and isinstance(item, dict) else name
        if isinstance(item, str):
            found.setdefault((*path, str(told)), []).append((number, part, name))
        else:
            _walk(number, item, (*path, str(told)), found)


def _beside_deltas(value: Any, change: Callable[[Any], Any]) -> Any:
    """Change an event but for its deltas."""
    if not _list_choices(value):
        return change(value)
    choices = [
        {k: v if k == "delta" else change(v) for k, v in choice.items()}
        for choice in _list_choices(value)
    ]
    return {**change({k: v for k, v in value.items() if k != "choices"}), "choices": choices}


# ------------------------------------------------------------ what this process knows

_known = Secrets()


def know(keys: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
    """Hide these from now on, beside what is known; plain words and short texts are no keys."""
    global _known  # noqa: PLW0603 (what is secret is so in every thread and every file)
    _known = _known.knowing(keys, patterns)


@contextmanager
def forgetting() -> Iterator[None]:
    """Forget afterwards what was learned meanwhile: one command's secrets are no other's."""
    global _known  # noqa: PLW0603 (as above)
    before = _known
    try:
        yield
    finally:
        _known = before


def hide(text: str) -> str:
    """Return a text without what is known to be secret."""
    return _known.hide(text) if _known else text


def hide_keys(text: str) -> str:
    """Return a text of JSON, Markdown or HTML without keys, else as it was."""
    return _known.hide_keys(text) if _known.keys else text


def hide_value(value: Any) -> Any:
    """Return a value of JSON without what is known to be secret."""
    return _known.hide_value(value) if _known else value


def hide_found(value: Any) -> Any:
    """Return a value of JSON without what patterns find; keys stay."""
    return replace(_known, keys=()).hide_value(value) if _known.patterns else value


# ------------------------------------------------------------ where secrets are said


def know_environment(environ: Mapping[str, str]) -> None:
    """Take what stands in the environment under a secret's name, or as a user in an address."""
    know(in_environment(environ))


def in_environment(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets of the environment; the path of a file with keys is none."""
    for name, value in environ.items():
        if names_secret(name) and not os.path.exists(value):  # noqa: PTH110 (it never raises)
            yield value
        if "://" in value:
            yield from in_address(value)


def hide_environment(text: str, environ: Mapping[str, str]) -> str:
    """Return a text without keys, also where nobody said that the environment's are secret."""
    return _known.knowing(in_environment(environ)).hide_keys(text)


def know_words(words: Sequence[str]) -> None:
    """Take the secrets of a command line."""
    know(found for before, word in pairwise(["", *words]) for found in _in_word(before, word))


def know_options(options: Mapping[str, Any]) -> None:
    """Take the secrets of options by name, wherever they were said, and their patterns."""
    for name, value in options.items():
        for text in value if isinstance(value, list | tuple) else [value]:
            if isinstance(text, str):
                know_words([f"--{name.replace('_', '-')}", text])
    know((), options.get("secret") or ())


def mask(words: Sequence[str]) -> list[str]:
    """Return a command line fit to be kept: without its secrets, however short."""
    masked = []
    for before, word in pairwise(["", *words]):
        flag, sign, said = word.partition("=") if word.startswith("-") else ("", "", word)
        for found in sorted(_in_word(before, word), key=len, reverse=True):
            said = said.replace(found, KEY)
        masked.append(hide(f"{flag}{sign}{said}"))
    return masked


def mask_option(name: str, value: Any) -> Any:
    """Return an option's value fit to be kept, a text or a list of them; any other as it is."""
    if isinstance(value, list | tuple):
        return type(value)(mask_option(name, item) for item in value)
    if not isinstance(value, str) or name == "secret":
        return hide_value(value) if isinstance(value, str) else value
    return mask([f"--{name.replace('_', '-')}", value])[1]


def is_masked(value: Any) -> bool:
    """Tell whether a kept option is not what was said."""
    if isinstance(value, str):
        return KEY in value or SECRET in value
    return isinstance(value, list | tuple) and any(map(is_masked, value))


def mask_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request's options without what bears a secret's name; tools stay as they are."""
    return {
        name: value if name in _NO_SECRETS else _mask_fields({name: value})[name]
        for name, value in options.items()
    }


_NO_SECRETS = frozenset(("tools", "tool_choice", "response_format", "stop"))


def _mask_fields(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: KEY if names_secret(str(name)) and item else _mask_fields(item)
            for name, item in value.items()
        }
    return [_mask_fields(item) for item in value] if isinstance(value, list | tuple) else value


def refuse_in_name(name: str) -> None:
    """Refuse a name that would be hidden: it is what a run's parts are found by."""
    if (hidden := hide(name)) != name:
        raise _mistake(f"{hidden!r}: a key or what --secret finds stands in this name; rename it")


def _in_word(before: str, word: str) -> Iterator[str]:
    """Yield the secrets of one word of a command line, the word before it known."""
    name, sign, value = word.partition("=")
    whole = sign and word.startswith("-")
    flag, said = (name, value) if whole else (before if before.startswith("-") else "", word)
    return filter(None, _in_value(flag, said))


def _in_value(flag: str, said: str) -> Iterator[str]:
    if flag == "--secret":
        return
    if flag in ("--header", "-H"):
        yield from _in_header(said)
    elif flag == "--extra-body":
        yield from _in_fields(said)
    elif names_secret(flag):
        yield said
    elif said.startswith("mcp:"):
        with suppress(ValueError):
            inner = ["", *shlex.split(said.removeprefix("mcp:"))]
            yield from (found for pair in pairwise(inner) for found in _in_word(*pair))
    else:
        name, _, value = said.partition("=")
        if names_secret(name):
            yield value
    yield from in_address(said)
    yield from (found[1] for found in _SCHEME.finditer(said))
    yield from (found[0] for found in _WELL_KNOWN.finditer(said))


def in_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets of further headers."""
    return (found for name, value in headers.items() for found in _in_header(f"{name}={value}"))


def _in_header(text: str) -> Iterator[str]:
    name, sign, value = text.partition("=" if "=" in text.partition(":")[0] else ":")
    if name.strip().lower() in _PLAIN_HEADERS:
        return
    value = value.strip() if sign else text
    scheme, _, credentials = value.partition(" ")
    yield from (value, credentials.strip())
    yield from (part.partition("=")[2].strip() for part in value.split(";"))
    if scheme.lower() == "basic":
        with suppress(ValueError):
            plain = base64.b64decode(credentials).decode("utf-8", "replace")
            yield from (plain, plain.partition(":")[2])


def _in_fields(text: str) -> Iterator[str]:
    """Yield what stands under a secret's name in a JSON text; all of it where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        yield text
        return
    yield from _texts_below(value, secret=False)


def _texts_below(value: Any, *, secret: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _texts_below(item, secret=secret or names_secret(name))
    elif isinstance(value, list):
        for item in value:
            yield from _texts_below(item, secret=secret)
    elif isinstance(value, str) and secret:
        yield value


def in_address(text: str) -> Iterator[str]:
    """Yield user, password and keys of every address in a text."""
    for found in _USER.finditer(text):
        yield found[1]
        yield found[1].partition(":")[2]
    query = text.partition("?")[2].partition("#")[0] if "://" in text else ""
    yield from (value for name, value in parse_qsl(query) if _IN_QUERY.search(name))
