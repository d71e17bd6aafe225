"""Tools on a text that must arrive unchanged: a wrong quote or newline shows in their result."""

import hashlib
import json
import zlib
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from bench.tools.data import Row, make_error

_LONGEST = 5000


def count_text(text: str, unit: Literal["characters", "words", "lines"] = "characters") -> Row:
    """Count the characters, words or lines of a text exactly.

    Use it whenever a length is asked. Words are parted by white space; spaces count as characters.
    Not for counting how often something occurs (replace_text tells that).

    Args:
        text: The text, exactly as it is.
        unit: What to count.
    """
    if len(text) > _LONGEST:
        return _too_long()
    counts = {
        "characters": len(text),
        "words": len(text.split()),
        "lines": len(text.splitlines()),
    }
    return {"unit": unit, "count": counts[unit]}


def _too_long() -> Row:
    return make_error("text too long", maximum_characters=_LONGEST)


def hash_text(text: str, algorithm: Literal["crc32", "md5", "sha256"] = "crc32") -> Row:
    """Compute the checksum of a text in UTF-8, in lower-case hexadecimal digits.

    Use it for fingerprints of a text. One changed character changes everything. Not for files,
    encryption or passwords.

    Args:
        text: The text, exactly as it is.
        algorithm: Kind of checksum.
    """
    if len(text) > _LONGEST:
        return _too_long()
    data = text.encode("utf-8", "surrogatepass")
    digests = {
        "crc32": f"{zlib.crc32(data):08x}",
        "md5": hashlib.md5(data, usedforsecurity=False).hexdigest(),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    return {"algorithm": algorithm, "checksum": digests[algorithm]}


def replace_text(text: str, find: str, replacement: str, ignore_case: bool = False) -> Row:
    """Replace every occurrence of one piece of text by another, and tell how many there were.

    Use it for edits that must be exact. Plain text only, no patterns or wildcards.

    Args:
        text: The text to change, exactly as it is.
        find: The piece to look for.
        replacement: What to put in its place; may be empty.
        ignore_case: Whether upper and lower case count as the same.
    """
    if max(len(text), len(replacement)) > _LONGEST:
        return _too_long()
    if not find:
        return make_error("find is empty", hint="give the piece of text to look for")
    result, count = _replace(text, find, replacement, ignore_case)
    if len(result) > _LONGEST * 2:
        return make_error("result too long", maximum_characters=_LONGEST * 2)
    return {"count": count, "text": result}


def _replace(text: str, find: str, replacement: str, ignore_case: bool) -> tuple[str, int]:
    kept, rest, count = [], text, 0
    wanted = find.lower() if ignore_case else find
    while (at := (rest.lower() if ignore_case else rest).find(wanted)) >= 0:
        kept += [rest[:at], replacement]
        rest, count = rest[at + len(find) :], count + 1
    return "".join([*kept, rest]), count


def parse_url(url: str) -> Row:
    """Split a URL into scheme, host, port, path, query parameters and fragment, decoded.

    Use it to read what a link holds. It opens nothing and cannot say whether the page exists.

    Args:
        url: The whole URL, with its scheme.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
        query = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=100)
    except ValueError as problem:
        return make_error(f"not a URL: {problem}", example="https://example.com/a?b=1")
    if not parts.scheme or not parts.hostname:
        return make_error("not a URL: scheme or host is missing", example="https://example.com/a")
    return {
        "scheme": parts.scheme,
        "host": parts.hostname,
        "port": port,
        "path": unquote(parts.path),
        "parameters": [{"name": name, "value": value} for name, value in query],
        "fragment": unquote(parts.fragment) or None,
    }


def check_json(text: str) -> Row:
    """Check whether a text is valid JSON; tell its type and size, or where the first error is.

    Use it for JSON that somebody wrote. It does not repair anything and checks no schema.

    Args:
        text: The JSON text, exactly as it is.
    """
    if len(text) > _LONGEST:
        return _too_long()
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return {"valid": False, **_locate(text, error)}
    except RecursionError:
        return {"valid": False, "problem": "nested too deeply"}
    return {"valid": True, **_describe(value)}


def _locate(text: str, error: json.JSONDecodeError) -> Row:
    """Name a problem and its place; Python 3.13 and later tell a trailing comma otherwise."""
    problem, at = error.msg, error.pos
    before = text[:at].rstrip()
    if before.endswith(",") and text[at : at + 1] in ("}", "]"):
        problem, at = "trailing comma", len(before) - 1
    if problem.startswith("Illegal trailing comma"):
        problem = "trailing comma"
    line = text.count("\n", 0, at) + 1
    return {"problem": problem, "line": line, "column": at - text.rfind("\n", 0, at)}


def _describe(value: Any) -> Row:
    match value:
        case dict():
            return {"type": "object", "size": len(value), "keys": list(value)[:50]}
        case list():
            return {"type": "array", "size": len(value)}
        case bool():
            return {"type": "boolean"}
        case None:
            return {"type": "null"}
        case str():
            return {"type": "string", "size": len(value)}
    return {"type": "number"}
