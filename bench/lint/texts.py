"""Check what a model reads: descriptions, parameter texts, and tools that read alike.

English and Chinese. Says how something is worded, never whether it is true.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from bench.lint.finding import WHOLE, Finding, Subject, kind_of
from bench.lint.points import Point, read_points
from bench.lint.schemas import LONGEST_DESCRIPTION, walk_schema

MOST_TOKENS = 800
"""Of one tool; it is sent with every request."""
ALIKE = 0.35
SAME = 0.8
"""Cosine of two descriptions' words: from here on they are look-alikes, or the same text."""

_CJK = re.compile(r"[㐀-鿿豈-﫿]")


# ---------------------------------------------------------------- descriptions

_MISSING: Mapping[Point, tuple[str, str]] = {
    "what": (
        "nothing says what it does",
        'begin with a verb and its object: "Get the weather in a city: temperature and wind."',
    ),
    "when": (
        "nothing says when to use it",
        'add "Use it for …" with the questions it answers',
    ),
}
_CLAIM = re.compile(
    r"\balways\s+(?:use|call|prefer)\s+(?:this|it)\b(?!\s+(?:tool\s+)?(?:before|when|if|for|after)\b)"
    r"|\bdefault\s+to\s+(?:using\s+)?(?:this|it)\b|\b(?:most\s+powerful|best|fastest)\b[^.]*\btool\b"
    r"|\bbefore\s+any\s+other\b|\bfirst,\s+before\b|(?:任何时候|始终|总是|务必)[^。]*?(?:首先|优先)[^。]*?使用"
    r"|先于其他|最(?:强大|好|佳)的工具",
    re.IGNORECASE,
)


def check_description(subject: Subject, source: str) -> Iterator[Finding]:
    """Find which of the four points a description leaves out, and what in it misleads."""

    def found(rule: str, says: str, write: str) -> Finding:
        return Finding(source, subject.name, WHOLE, rule, says, write)

    text = subject.description.strip()
    if not text:
        yield found(
            "what",
            "it has no description: a model has only the name",
            "say what it does, when to use it, when not, and its limits",
        )
        return
    points = read_points(text)
    for point, (says, write) in _MISSING.items():
        if point not in points:
            yield found(point, says, write)
    if not points & {"when-not", "limits"}:
        yield found(
            "when-not",
            "nothing says where it ends: neither what it is not for, nor a limit",
            'add "Not for … (the other tool)" and what it cannot do: range, kinds, how many',
        )
    if len(text) > LONGEST_DESCRIPTION:
        yield found(
            "size",
            f"{len(text)} characters: Azure takes {LONGEST_DESCRIPTION}, and models skim",
            "keep the four points, cut the rest",
        )
    if claim := _CLAIM.search(text):
        yield found(
            "claim",
            f'"{claim[0]}" pulls calls to it that belong to other tools',
            "say for which questions it is right instead",
        )


# ---------------------------------------------------------------- parameters

_WORD = re.compile(r"[a-z]+|[㐀-鿿]+")
_FILLER = """
the a an of for to in is be this that it its your value parameter param argument input field string
integer number boolean object array list specify specified given optional required
"""
_EMPTY_WORDS = frozenset(_FILLER.split())
_DATE_NAME = re.compile(
    r"(?:^|_)(?:date|datetime|time|day|start|end|since|until|from|to|before|after|deadline|due|at"
    r"|timestamp|birthday)(?:_|$)|日期|时间"
)
_DATE_TEXT = re.compile(
    r"(?<!up)\b(?:date|time|day|timestamp|datetime)\b|日期|时间|时刻", re.IGNORECASE
)
_DATE_FORM = re.compile(
    r"YYYY|yyyy|HH|ISO|RFC|\d{4}-\d{2}|\d{1,2}:\d{2}|unix|epoch|\bseconds\b|毫秒|时间戳|格式"
    r"|today|tomorrow|natural language|IANA",
    re.IGNORECASE,
)
_MEASURE_NAME = re.compile(
    r"(?:^|_)(?:duration|timeout|delay|interval|ttl|length|weight|height|width|depth|distance"
    r"|radius|size|area|volume|amount|price|cost|budget|total|temperature|speed|age|rate|angle)(?:_|$)"
)
_UNIT = re.compile(
    r"\b(?:second|minute|hour|day|week|month|year|ms|sec|min|metre|meter|km|cm|mm|mile|feet|inch"
    r"|gram|kg|kilo\w*|lb|pound|ton|litre|liter|ml|byte|kb|mb|gb|pixel|px|percent|degree|celsius"
    r"|fahrenheit|kelvin|yuan|dollar|euro|cent|usd|eur|cny|rmb|currency|point|character|word|line"
    r"|item|result|row|page|token|hz|km/h|mph)(?:e?s)?\b|[%°€$¥￥]"
    r"|秒|分|小时|天|周|月|年|米|公里|厘米|克|斤|吨|升|字节|像素|百分|度|元|美元|人民币|外币|货币|个|条|页|字",
    re.IGNORECASE,
)
_UNIT_NAME = re.compile(
    r"_(?:s|sec|secs|seconds|ms|minutes?|mins?|hours?|days?|m|km|cm|mm|kg|g|lb|px|bytes|kb|mb|usd"
    r"|cny|eur|percent|pct|celsius|c|f|tokens|chars)$"
)
_ID_NAME = re.compile(r"(?:^|_)(?:id|uid|uuid|code|sku|isbn|iban|ticker|symbol|hash)s?$")
_SHOWN = re.compile(
    r"such as|e\.g|for example|i\.e|like|format|from\b|returned by|obtained|given by|[:：]\s*\S"
    r"|['\"`“「].+?['\"`”」]|\d|例如|比如|如\s|格式|来自|返回|获取|(?-i:[A-Z]{2,})",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"\b(?:one of|options? (?:are|is)|possible values|allowed values|must be either|either)\b"
    r"|可选值|可选项|取值(?:为|有|范围)?[:：]|[\w'\"`]+\s*\|\s*[\w'\"`]+\s*\|",
    re.IGNORECASE,
)


def check_parameters(subject: Subject, source: str) -> Iterator[Finding]:
    """Find parameters without a text, or whose text leaves the form of the value open."""
    for path, part in walk_schema(subject.parameters):
        text = part.get("description")
        described = text.strip() if isinstance(text, str) else ""
        name = path.rpartition(".")[2]
        if not described:
            write = _propose(name, part)
            yield Finding(source, subject.name, path, "parameter", "it has no description", write)
            continue
        for says, write in _check_text(name, described, part):
            yield Finding(source, subject.name, path, "parameter", says, write)


def _propose(name: str, part: Mapping[str, Any]) -> str:
    if part.get("enum"):
        return "say what it chooses, and what the values mean"
    if _DATE_NAME.search(name.casefold()) and kind_of(part) == "string":
        return 'say what it is and its form: "First day, as YYYY-MM-DD."'
    if kind_of(part) in {"integer", "number"}:
        return 'say what it counts, its unit and its range: "Minutes, 15 to 480."'
    if kind_of(part) == "boolean":
        return "say what true does"
    if part.get("properties") or kind_of(part) == "array":
        return "say what it holds"
    return f'say what it is and show a value: "{_as_words(name)}, such as …"'


def _as_words(name: str) -> str:
    return name[:40].replace("_", " ").strip().capitalize()


def _check_text(name: str, text: str, part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    lowered, kind = name.casefold(), kind_of(part)
    if _says_nothing(lowered, text) and not part.get("properties") and not part.get("enum"):
        yield "its description says no more than its name", _propose(name, part)
        return
    if part.get("enum") or part.get("format") or part.get("pattern"):
        return
    if (
        kind == "string"
        and _DATE_NAME.search(lowered)
        and _DATE_TEXT.search(f"{_as_words(name)} {text}")
    ):
        if not _DATE_FORM.search(text):
            yield (
                "the form of the date or time is open",
                'say it: "as YYYY-MM-DD", "as HH:MM in 24 hours"',
            )
    elif kind == "string" and _ID_NAME.search(lowered) and not _SHOWN.search(text):
        yield (
            "nothing shows what such a code looks like",
            'show one: "such as A1001", or say which tool gives it',
        )
    if kind in {"number", "integer"} and _MEASURE_NAME.search(lowered):
        told = _UNIT.search(text) or _UNIT_NAME.search(lowered)
        if not told:
            yield "its unit is open", 'say the unit: "in minutes", "in yuan", "in kilograms"'
    if kind == "string" and _LISTED.search(text):
        yield (
            "its values are listed in words only",
            'put them into "enum", so that no other is written',
        )


def _says_nothing(name: str, text: str) -> bool:
    """Say whether a description has no word beyond the name and words that mean nothing."""
    known = set(_WORD.findall(name.replace("_", " "))) | _EMPTY_WORDS
    words = _WORD.findall(text.casefold())
    if any(_CJK.match(word) for word in words):
        return False
    return all(word in known or word.removesuffix("s") in known for word in words)


# ---------------------------------------------------------------- language


def check_language(subject: Subject, source: str) -> Iterator[Finding]:
    """Find a tool whose parameters are described in another language than the tool."""
    texts = {path: part.get("description") for path, part in walk_schema(subject.parameters)}
    words = {path: text for path, text in texts.items() if isinstance(text, str) and text.strip()}
    if not subject.description.strip() or not words:
        return
    ours = is_chinese(subject.description)
    for path, text in words.items():
        if is_chinese(text) != ours:
            yield Finding(
                source,
                subject.name,
                path,
                "language",
                "it is described in another language than the tool",
                f"write it in {'Chinese' if ours else 'English'} too",
            )
            return


def is_chinese(text: str) -> bool:
    """Say whether a text is mostly Chinese: more ideographs than half its Latin words."""
    return len(_CJK.findall(text)) > len(re.findall(r"[A-Za-z]+", text)) / 2


def check_set_language(subjects: Sequence[Subject], source: str) -> Iterator[Finding]:
    """Find the tools that are described in another language than most of the set."""
    told = [
        (subject, is_chinese(subject.description)) for subject in subjects if subject.description
    ]
    chinese = sum(ours for _, ours in told)
    most = chinese * 2 > len(told)
    for subject, ours in told:
        if ours != most and len(told) > 1:
            yield Finding(
                source,
                subject.name,
                WHOLE,
                "language",
                "it is described in another language than most tools beside it",
                f"write it in {'Chinese' if most else 'English'} too",
            )


# ---------------------------------------------------------------- look-alikes

_COMMON = """
the and for use with not its from that this are is it of to in a an or only get one when by be as on
at you can will which tool
"""
_STOP = frozenset(_COMMON.split())


def check_alike(subjects: Sequence[Subject], source: str) -> Iterator[Finding]:
    """Find pairs of tools whose descriptions are near each other and are not told apart."""
    words = weigh_words([count_words(subject.description) for subject in subjects])
    for (one, ours), (other, theirs) in combinations(zip(subjects, words, strict=True), 2):
        near = cosine(ours, theirs)
        named = other.name in one.description or one.name in other.description
        if near >= SAME or (near >= ALIKE and not named):
            yield Finding(
                source,
                one.name,
                WHOLE,
                "alike",
                f"it reads like {other.name} (likeness {near:.2f} of 1)"
                + ("" if named else ", and neither names the other"),
                f'say what only this one does, and add "Not for … ({other.name})"',
            )


def count_words(text: str) -> Counter[str]:
    """Count Latin words without endings and stop words, and pairs of Chinese characters.

    Names such as `get_order` are left out: to name the other tool is not to be like it.
    """
    text = re.sub(r"\b\w+_\w+\b", " ", text.casefold())
    latin = [word.removesuffix("s") for word in re.findall(r"[a-z]{3,}", text) if word not in _STOP]
    runs = re.findall(r"[㐀-鿿]+", text)
    return Counter(latin + [run[at : at + 2] for run in runs for at in range(len(run) - 1)])


def weigh_words(counts: Sequence[Counter[str]]) -> list[dict[str, float]]:
    """Return the counts times log(1 + texts / texts with the word): common words weigh little."""
    having = Counter(word for count in counts for word in count)
    scale = {word: math.log(1 + len(counts) / texts) for word, texts in having.items()}
    return [{word: times * scale[word] for word, times in count.items()} for count in counts]


def cosine(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return how near two texts' weights are, from 0 (nothing shared) to 1 (the same)."""
    shared = sum(weight * other.get(word, 0.0) for word, weight in one.items())
    sizes = math.sqrt(sum(c * c for c in one.values()) * sum(c * c for c in other.values()))
    return shared / sizes if sizes else 0.0


# ---------------------------------------------------------------- size


def estimate_tokens(value: Any) -> int:
    """Estimate the tokens of a value's JSON: four Latin characters or one Chinese one for each."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    chinese = len(_CJK.findall(text))
    return chinese + math.ceil((len(text) - chinese) / 4)


def size_of(subject: Subject) -> int:
    """Estimate the tokens that a tool adds to every request."""
    return estimate_tokens([subject.name, subject.description, subject.parameters])


def check_size(subject: Subject, source: str) -> Iterator[Finding]:
    """Find a tool that costs many tokens in every request."""
    tokens = size_of(subject)
    if tokens > MOST_TOKENS:
        yield Finding(
            source,
            subject.name,
            WHOLE,
            "size",
            f"about {tokens} tokens in every request (4 Latin characters or 1 Chinese one a token)",
            f"shorten it below {MOST_TOKENS}, or split it",
        )
