"""Tell what an endpoint's refusal means: status and body in, `Failure` out.

May not read a model's move, use a clock, or know what was asked. Words come before the status,
since servers wrap one fault in many statuses.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from parsers.types import Failure

QUOTED = 200
"""Characters of an endpoint's own words that a failure repeats."""

_DEPTH = 6
_MANY = 40
_BOUND = 20_000
"""How deep and how far an error body is searched: nobody's explanation is longer."""

_SAID = ("message", "msg", "detail", "error_description", "error_msg", "status_msg", "title")
_NAMED = ("type", "code", "status", "param", "reason", "loc", "path", "__type")
_INSIDE = ("error", "errors", "metadata", "raw", "base_resp", "details", "innererror", "response")
_CODES = ("code", "status", "status_code", "http_code", "statusCode")

_CONTEXT = re.compile(
    r"context[ _-]?(?:length|size|window|limit)|maximum context|max(?:imum)? prompt length"
    r"|(?:prompt|input|conversation|messages?) (?:is|are) too long|prompt[ _]too[ _]long"
    r"|too many input tokens|reduce the length of|model token limit|range of input length"
    r"|exceeds? the (?:maximum|max) (?:number of |input |allowed )?(?:input )?tokens"
    r"|max(?:imum)?_prompt_tokens|上下文长度|超出.{0,8}长度|prompt.{0,4}超长|输入.{0,4}超长"
    r"|longer than the maximum model length|too many tokens: size limit"
    r"|tokens\W{1,4}max_new_tokens\W must be"
)
_PER_TIME = re.compile(r"per (?:min|hour|day|second)|\b[tr]p[md]\b")
_OUR_TEXT = re.compile(
    r"(?:failed|unable|not able) to parse (?:the |your )?(?:request|messages?\b|tools\b|grammar|body"
    r"|json(?: body)?\b(?! arguments)|schema|chat template|template|response_format|tool_choice)"
)
_PARSER = re.compile(
    r"failed to parse|error parsing tool call|tool_use_failed|failed_generation"
    r"|malformed_function_call|failed to call a function"
    r"|output_parse_failed|generated output that could not be parsed|invalid diff|less tool calls"
    r"|model produced invalid content|xml syntax error on line"
    r"|unexpected tokens remaining in message header|harmonyerror"
)
_SET_UP = re.compile(
    r"jinja|enable[-_]auto[-_]tool[-_]choice|tool[-_]call[-_]parser|roles must alternate"
    r"|(?:does not|doesn't|not|no endpoints found that) support (?:for )?"
    r"(?:tools?\b(?![ _]choice)|tool use|tool[- ]?calling|functions?\b|function[- ]?calling)"
    r"|(?:tools?|tool use|tool calling|function calling) (?:is|are) not (?:supported|enabled)"
    r"|is not callable: .{1,60} at row \d"
)
_LOADING = re.compile(r"loading model|model (?:is )?(?:still )?loading|model is not ready")
_LIMITED = re.compile(
    r"rate[ _-]?limit|too[ _]many[ _]requests|overloaded|resource_exhausted|insufficient_quota"
    r"|throttl|insufficient[ _](?:balance|credits|funds)|quota_exceeded|欠费|余额不足"
)
_UNPAID = re.compile(
    r"insufficient[ _](?:quota|balance|credits?|funds)|payment required|exceeded_current_quota"
    r"|欠费|余额不足"
)
_FILTERED = re.compile(
    r"content[ _]filter|content_policy|content management policy|responsibleai|data_inspection"
    r"|datainspectionfailed|input_sensitive|output_sensitive|敏感内容"
)
_TYPES: tuple[tuple[re.Pattern[str], int], ...] = (
    (_LIMITED, 429),
    (re.compile(r"unauthenticated|authentication_error|invalid_api_key"), 401),
    (re.compile(r"permission_(?:denied|error)"), 403),
    (re.compile(r"not_found_error|model_not_found"), 404),
    (re.compile(r"invalid_request|invalid_argument|badrequest|bad_request"), 400),
)

_LENGTHS = {"length", "max_tokens", "model_length", "max_output_tokens", "token_limit"}
_FILTERS = re.compile(
    r"content_?filter(?:ed|_\w+)?\b|sensitive|safety|refusal|refused|recitation|prohibited_content"
    r"|blocklist|spii|guardrail_intervened|content_policy_violation"
)
_UNPARSED = re.compile(r"malformed_(?:function|tool)_call|unexpected_tool_call")
_BROKEN = {
    "network_error",
    "error",
    "abort",
    "aborted",
    "insufficient_system_resource",
    "server_error",
    "internal_error",
    "engine_error",
}

_DETAILS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "access",
        re.compile(r"api[ _]key|unauthori[sz]ed|unauthenticated|permission|model_not_found"),
    ),
    ("tool_choice", re.compile(r"tool[ _]choice|parallel[ _]tool|function_call(?:ing)?_config")),
    ("reasoning", re.compile(r"reasoning|thought_?signature|thinking")),
    (
        "ids",
        re.compile(
            r"\bids? (?:must|has to|should|may|is too|was|needs?)|a-z, a-z, 0-9|(?:invalid|malformed"
            r"|duplicate|duplicated|repeated|empty) (?:tool[ _]call[ _])?ids?\b|length of 9"
            r"|tool_calls?\W*\d*\W*\.?id\W|string_above_max_length|ids? .{0,30}(?:unique|characters)"
        ),
    ),
    (
        "content",
        re.compile(
            r"tool_calls'?: empty|content type|\.content\b|\bcontent\b.{0,40}"
            r"(?:null|string|text|list|array|str\b|empty|required|missing|valid|part)"
            r"|(?:list|null|empty|array) content|utf-8|surrogate|unicode"
        ),
    ),
    (
        "pairing",
        re.compile(
            r"tool_call_ids?|tool[ _]messages?|tool[ _]results?|role '?\"?tool|tool role"
            r"|function[ _]?(?:call|response)s?\b|(?<!parallel_)tool_calls|\.role\b|tool_result|tool_use ids"
        ),
    ),
    ("schema", re.compile(r"schema|properties|function_parameters|\btools\b|\$ref|parameters")),
    ("stop", re.compile(r"\bstop(?:[ _](?:words?|sequences?|strings?))?\b")),
    (
        "setting",
        re.compile(
            r"temperature|top_?p|top_?k|max_(?:completion_)?tokens|penalty|\bseed\b|parallel"
            r"|unsupported[ _](?:parameter|value)|unknown[ _]parameter|unrecognized|logprobs"
            r"|stream|\bn\b|extra (?:inputs|fields)|not permitted"
        ),
    ),
    ("content", re.compile(r"content|messages?\b")),
)


@dataclass(frozen=True, slots=True)
class Complaint:
    """What an error body says, wherever and however it says it."""

    text: str
    """For people: the first explanation, on one line."""
    words: str
    """All explanations, types, codes and parameter names, in lower case."""
    status: int | None = None
    """A status that stands inside the body."""
    generation: str = ""
    """The model's text that the server could not parse."""


def find_complaint(body: Any) -> Complaint | None:
    """Return what the body complains of: an object, a list with one, a text; None if nothing."""
    if isinstance(body, str):
        text = _first_line(body)
        return Complaint(text, body[:_BOUND].lower()) if text else None
    holder = _holder(body)
    said: list[str] = []
    named: list[str] = []
    _collect(holder, said, named, _DEPTH)
    if not said and not named:
        return None
    generation = _find(holder, ("failed_generation",), _DEPTH)
    words = " \n".join([*said, *named, "failed_generation" if generation is not None else ""])
    text = next((_first_line(one) for one in said if one.strip()), " ".join(named[:3]))
    shown = generation if isinstance(generation, str) else ""
    return Complaint(text, words[:_BOUND].lower(), _inner_status(holder), shown)


def classify(complaint: Complaint | None, status: int, *, in_stream: bool = False) -> Failure:
    """Say which failure it is: context, parser and set-up words first, then the status.

    `status` is HTTP's, 0 where no answer came; a status inside the body goes before it. In a
    stream, what neither words nor code name is `stream_interrupted`.
    """
    by_words = judge_words(complaint, status)
    if by_words is not None:
        return by_words
    words = complaint.words if complaint else ""
    code = complaint.status if complaint and complaint.status else status
    if 0 < code < 400:
        code = _typed_status(words)
    return _by_status(code, words, _sentence(complaint, status), in_stream)


def judge_finish(reason: str | None) -> Failure | None:
    """Return the failure that a finish reason names by itself, None where the payload decides."""
    word = (reason or "").strip().lower()
    if not word:
        return None
    if _UNPARSED.search(word):
        return Failure(
            "server_rejected_output",
            message=f"The endpoint could not parse the model's call (finish_reason {_show(reason)}).",
            field="finish_reason",
        )
    if _FILTERS.match(word):
        return Failure(
            "refused_or_filtered",
            message=f"The endpoint ended the reply with finish_reason {_show(reason)}.",
            field="finish_reason",
        )
    if word in _BROKEN:
        return Failure(
            "endpoint_error",
            message=f"The endpoint failed while answering (finish_reason {_show(reason)}).",
            field="finish_reason",
            retryable=True,
        )
    return None


def is_length(reason: str | None) -> bool:
    """Say whether a finish reason means that the token limit cut the reply."""
    return isinstance(reason, str) and reason.strip().lower() in _LENGTHS


def decode_json(text: str) -> Any:
    """Return the decoded value, with `Repeated` where an object names a key twice.

    Raises only `ValueError`, also for nesting beyond what the decoder stands.
    """
    try:
        return json.loads(text, object_pairs_hook=_pairs)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


class Repeated(dict[str, Any]):
    """An object that names a key twice: reads as the decoder would, is written as it came."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    def items(self) -> Any:
        """Return every pair, also the overridden ones, so that encoding keeps them."""
        return self.pairs


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else Repeated(pairs)


def retry_after(headers: Mapping[str, str], body: Any, now: float | None = None) -> float | None:
    """Return how long the endpoint asks to wait, in seconds; None where it does not say.

    Reads `retry-after-ms`, `retry-after` (seconds, or a date: counted from the answer's own
    `Date`, else from `now` in seconds since 1970, else not at all: nothing here has a clock), and
    the texts of bodies ("try again in 1m20.5s", Gemini's `retryDelay`).
    """
    low = {str(k).lower(): str(v).strip() for k, v in headers.items()} if headers else {}
    for read in (
        _plain_seconds(low.get("retry-after-ms", ""), 0.001),
        _plain_seconds(low.get("retry-after", ""), 1.0),
        _until(low.get("retry-after", ""), low.get("date", ""), now),
        _seconds_in_body(body),
    ):
        if read is not None:
            return max(0.0, read)
    return None


# what a body says


def _holder(body: Any) -> Any:
    if isinstance(body, list | tuple):
        return next((one for one in body if isinstance(one, Mapping)), list(body))
    return body


def _collect(value: Any, said: list[str], named: list[str], depth: int) -> None:
    if depth == 0 or len(said) > _MANY:
        return
    if isinstance(value, str):
        said.append(value[:_BOUND])
    elif isinstance(value, list | tuple):
        for one in value[:8]:
            _collect(one, said, named, depth - 1)
    elif isinstance(value, Mapping):
        for key in (*_INSIDE[:2], *_SAID, *_INSIDE[2:]):
            if key in value:
                _collect(value[key], said, named, depth - 1)
        if len(named) < _MANY:
            named.extend(_names(value))


def _names(value: Mapping[Any, Any]) -> Iterator[str]:
    for key in _NAMED:
        one = value.get(key)
        if isinstance(one, list | tuple):
            one = ".".join(str(part) for part in one[:8] if isinstance(part, str | int))
        if isinstance(one, str) and one:
            yield one[:QUOTED]


def _find(value: Any, keys: tuple[str, ...], depth: int) -> Any:
    if depth == 0:
        return None
    if isinstance(value, list | tuple):
        return next(
            (f for one in value[:8] if (f := _find(one, keys, depth - 1)) is not None), None
        )
    if not isinstance(value, Mapping):
        return None
    own = next((value[key] for key in keys if value.get(key) is not None), None)
    if own is not None:
        return own
    inner = (_find(value[key], keys, depth - 1) for key in _INSIDE if key in value)
    return next((found for found in inner if found is not None), None)


def _inner_status(value: Any, depth: int = _DEPTH) -> int | None:
    if depth == 0 or not isinstance(value, Mapping):
        return None
    for key in ("error", "errors"):
        found = _inner_status(_holder(value.get(key)), depth - 1)
        if found is not None:
            return found
    codes = (_status(value.get(key)) for key in _CODES)
    return next((code for code in codes if code is not None), None)


def _status(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
        return value
    return None


def _first_line(text: str) -> str:
    head = text[: 20 * QUOTED].lstrip("\ufeff \t\r\n")
    if head[:1] == "<" and re.match(r"<(?:!doctype|html|head|body|center|h1)", head, re.IGNORECASE):
        title = re.search(r"<(title|h1)>([^<]{1,200})</", head, re.IGNORECASE)
        return "an HTML page" + (f", {' '.join(title[2].split())}" if title else "")
    return " ".join(head.split())[:QUOTED]


def _show(reason: str | None) -> str:
    return " ".join((reason or "").split())[:40]


def _sentence(complaint: Complaint | None, status: int) -> str:
    who = f"The endpoint answered {status}" if status else "No answer came from the endpoint"
    text = complaint.text.rstrip(". ") if complaint else ""
    return f"{who}: {text}." if text else f"{who}."


# what it means


def judge_words(complaint: Complaint | None, status: int) -> Failure | None:
    """Return the failure that the words of a complaint name, whatever the status; None if none."""
    words = complaint.words if complaint else ""
    if not words:
        return None
    said = _sentence(complaint, status)
    if _CONTEXT.search(words) and not _PER_TIME.search(words):
        return Failure("context_overflow", message=said, field="body")
    if _OUR_TEXT.search(words):
        return Failure("request_rejected", _detail(400, words), said, field="body")
    if _PARSER.search(words):
        shown = " ".join((complaint.generation if complaint else "").split())[:QUOTED]
        about = f" The model wrote: {shown}." if shown else ""
        return Failure("server_rejected_output", message=said + about, field="body")
    if _SET_UP.search(words):
        return Failure("request_rejected", "set-up", said, field="body")
    if _LOADING.search(words):
        return Failure("endpoint_error", "loading", said, field="body", retryable=True)
    return None


def names_status(complaint: Complaint) -> bool:
    """Say whether a complaint names a kind of refusal, by a number or in a server's own word."""
    return complaint.status is not None or _LIMITED.search(complaint.words) is not None


def _typed_status(words: str) -> int:
    return next((status for pattern, status in _TYPES if pattern.search(words)), 500)


def _by_status(code: int, words: str, said: str, in_stream: bool) -> Failure:
    if code in {402, 429, 503, 529} or (400 <= code < 500 and _LIMITED.search(words)):
        paid = code != 402 and not _UNPAID.search(words)
        return Failure("rate_limited", message=said, field="body", retryable=paid)
    if 400 <= code < 500 and code != 408:
        if _FILTERED.search(words):
            return Failure("refused_or_filtered", message=said, field="body")
        return Failure("request_rejected", _detail(code, words), said, field="body")
    if in_stream:
        return Failure("stream_interrupted", "error", said, field="body", retryable=True)
    detail = None
    if code in {0, 408, 504}:
        detail = "timeout" if code or "time" in words else "connection"
    return Failure("endpoint_error", detail, said, field="body", retryable=code not in {501, 505})


def _detail(code: int, words: str) -> str | None:
    if code in {401, 403, 404}:
        return "access"
    return next((name for name, pattern in _DETAILS if pattern.search(words)), None)


# how long to wait

_SPAN = re.compile(
    r"(?:(?P<h>\d{1,6}(?:\.\d{1,9})?)\s?h(?:ours?|rs?)?\s?)?"
    r"(?:(?P<m>\d{1,6}(?:\.\d{1,9})?)\s?m(?!s)(?:in(?:ute)?s?)?\s?)?"
    r"(?:(?P<s>\d{1,9}(?:\.\d{1,9})?)\s?s(?:ec(?:ond)?s?)?\s?)?"
    r"(?:(?P<ms>\d{1,9}(?:\.\d{1,9})?)\s?(?:ms|milliseconds?))?"
)
_ASKED = re.compile(r"(?:try again|retry|wait|available)(?: (?:in|after|for))? (?:about )?(?=\d)")


def _plain_seconds(text: str, unit: float) -> float | None:
    if re.fullmatch(r"-?\d{1,12}(?:\.\d{1,12})?", text):
        return float(text) * unit
    if re.fullmatch(r"[\d.]{1,20}m?s", text):
        return _span(text)
    return None


def _until(date: str, answered: str, now: float | None) -> float | None:
    then = _stamp(date)
    start = _stamp(answered)
    start = now if start is None else start
    return None if then is None or start is None else then - start


def _stamp(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _seconds_in_body(body: Any) -> float | None:
    if isinstance(body, str) and body.lstrip()[:1] in {"{", "["}:
        with suppress(ValueError):
            body = decode_json(body)
    keys = ("retryDelay", "retry_delay", "retry_after", "retryAfter", "retry_after_seconds")
    told = _find(_holder(body), keys, _DEPTH)
    if isinstance(told, Mapping):
        told = told.get("seconds")
    if isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told < 1e9:
        return float(told)
    if isinstance(told, str):
        read = _plain_seconds(told.strip(), 1.0)
        read = _span(told.strip()) if read is None else read
        if read is not None:
            return read
    complaint = find_complaint(body)
    asked = _ASKED.search(complaint.words) if complaint else None
    return _span(complaint.words[asked.end() :]) if complaint and asked else None


def _span(text: str) -> float | None:
    found = _SPAN.match(text)
    if not found or not found[0].strip():
        return None
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    return sum(float(found[name]) * size for name, size in units.items() if found[name])
