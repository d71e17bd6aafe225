"""The checks of the strict endpoint: what is wrong with a request, and how an endpoint says so.

Pure functions of a request and a profile; no network. The request is a stranger's: every value is
looked at before it is used. All checks exist once, and a profile only switches them off or words
them in its own way.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, assert_never

import jsonschema_rs

from bench.profiles import REASONING_FIELDS, SETTINGS, TOKEN_LIMITS, ErrorStyle, Profile
from bench.types import Message, WorkbenchError


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a request is refused for."""

    case: str
    """The check, a key of `refusals.json`."""
    detail: str
    """The group of checks that it belongs to."""
    message: str
    status: int = 400
    code: str | None = None
    type: str = "invalid_request_error"
    param: str | None = None
    errors: ErrorStyle | None = None
    """A form of body of its own; None: the profile's."""
    words: Mapping[str, str] | None = None
    """What the message's places are filled with, for a profile's own message."""


FILE = Path(__file__).with_name("refusals.json")


@cache
def cases() -> Mapping[str, Refusal]:
    """Give every check with what is answered unless a profile says it otherwise."""
    groups = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        case: Refusal(case=case, detail=detail, **said)
        for detail, members in groups.items()
        for case, said in members.items()
    }


NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ROLES = ("system", "developer", "user", "assistant", "tool")
KNOWN_KEYS = frozenset(
    {
        *SETTINGS - {"random_seed", "top_k", "min_p", "repetition_penalty"},
        *TOKEN_LIMITS,
        *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stop", "n"),
        *("stream", "stream_options", "response_format", "user", "metadata", "store"),
        *("reasoning_effort", "service_tier", "prediction", "modalities", "verbosity"),
    }
)
MESSAGE_KEYS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "refusal"})
RANGES: Mapping[str, tuple[float, float]] = {
    "top_p": (0, 1),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
MAX_DEPTH = 64


# ---------------------------------------------------------------- refusing


def refusal(case: str, param: str | None = None, **words: object) -> Refusal:
    """Make a case's refusal; `words` fill the places of its message."""
    texts = {"where": param or "", **{name: _short(value) for name, value in words.items()}}
    base = cases()[case]
    return replace(base, message=_fill(base.message, texts), param=param, words=texts)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 200 else text[:200] + "…"


def _fill(message: str, words: Mapping[str, str]) -> str:
    """Fill the places in one pass, so that a stranger's text is never itself filled."""
    return re.sub(r"\{(\w+)\}", lambda place: words.get(place[1], ""), message).strip()


def check_profile(profile: Profile) -> None:
    """Raise `WorkbenchError` where a profile switches or words a check that does not exist."""
    known = cases()
    groups = {found.detail for found in known.values()}
    for name in profile.server.ignores - known.keys() - groups:
        raise WorkbenchError(f"profile {profile.name!r}: 'ignores' names no check: {name!r}")
    for name, said in profile.server.says.items():
        extra = set(said) - {"status", "type", "code", "message", "errors"}
        if name not in known or extra:
            wrong = ", ".join(sorted(extra)) or name
            raise WorkbenchError(f"profile {profile.name!r}: 'says' has no place for {wrong!r}")


def is_ignored(found: Refusal, profile: Profile) -> bool:
    """Tell whether this endpoint makes no such check."""
    ignores = profile.server.ignores
    local_key = found.case == "no_key" and profile.server.local
    return found.case in ignores or found.detail in ignores or local_key


def in_words_of(found: Refusal, profile: Profile) -> Refusal:
    """Say a refusal as this endpoint says it."""
    said = dict(profile.server.says.get(found.case, {}))
    if "message" in said:
        said["message"] = _fill(str(said["message"]), found.words or {})
    if profile.server.code is not None:
        said.setdefault("code", profile.server.code)
    return replace(found, **said)


def first_refusal(
    body: Mapping[str, Any], profile: Profile, models: Sequence[str] = ()
) -> Refusal | None:
    """Give the first check that a request fails, in this endpoint's words, or None.

    `models` are the names on offer (none: every name).
    """
    for found in _all_refusals(body, profile, models):
        if not is_ignored(found, profile):
            return in_words_of(found, profile)
    return None


def _all_refusals(
    body: Mapping[str, Any], profile: Profile, models: Sequence[str]
) -> Iterator[Refusal]:
    yield from _check_model(body, models)
    for check in CHECKS:
        yield from check(body, profile)
    count, window = estimate_tokens(body), profile.server.window
    if count > window and profile.server.overflow == "refuse":
        yield refusal("context_length", "messages", count=count, limit=window)


def estimate_tokens(body: Mapping[str, Any]) -> int:
    """Estimate the prompt's tokens: four characters each, of messages and tools."""
    messages, tools = body.get("messages"), body.get("tools")
    return sum(len(_dump(part)) for part in (messages, tools) if part) // 4


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def render_error(found: Refusal, style: ErrorStyle) -> Any:
    """Give the JSON body of a refusal in one of the forms that endpoints use."""
    message, kind = found.message, found.type
    usual = {"message": message, "type": kind, "param": found.param, "code": found.code}
    match found.errors or style:
        case "openai":
            return {"error": usual}
        case "flat":
            return {"object": "error", **usual, "code": found.code or found.status}
        case "gemini":
            status = "INVALID_ARGUMENT" if found.status == 400 else "FAILED_PRECONDITION"
            return [{"error": {"code": found.status, "message": message, "status": status}}]
        case "llamacpp":
            return {"error": {"code": found.status, "message": message, "type": kind}}
        case "openrouter":
            provider = {"provider_name": "scripted"}
            return {"error": {"message": message, "code": found.status, "metadata": provider}}
        case "text":
            return {"error": message}
        case "list":
            return {"error": [{"code": found.case, "path": [found.param], "message": message}]}
        case "detail":
            return {"detail": message}
        case unknown:
            assert_never(unknown)


# ---------------------------------------------------------------- text and model


def text_refusal(text: str, body: Any) -> Refusal | None:
    """Find a lone surrogate or U+0000 anywhere in the body; `text` is the body as it came.

    Only an escape can hide either, so a body without one is not walked.
    """
    if "\\u" not in text and "\x00" not in text:
        return None
    for where, value in _texts(body, ""):
        if "\x00" in value:
            return refusal("nul", where or None)
        if any("\ud800" <= character <= "\udfff" for character in value):
            return refusal("not_utf8", where or None)
    return None


def _texts(value: Any, where: str) -> Iterator[tuple[str, str]]:
    pending = [(where, value)]
    while pending:
        place, item = pending.pop()
        match item:
            case str():
                yield place, item
            case dict():
                yield from ((place, key) for key in item)
                pending.extend((f"{place}.{key}".lstrip("."), part) for key, part in item.items())
            case list():
                pending.extend((f"{place}[{at}]", part) for at, part in enumerate(item))


def _check_model(body: Mapping[str, Any], models: Sequence[str]) -> Iterator[Refusal]:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        yield refusal("model_missing", "model")
    elif models and model not in models:
        yield refusal("model_unknown", "model", name=model)


# ---------------------------------------------------------------- messages


def messages_of(body: Mapping[str, Any]) -> list[tuple[int, Message]]:
    """Give the messages that are objects, with their places."""
    messages = body.get("messages")
    listed = messages if isinstance(messages, list) else []
    return [(at, message) for at, message in enumerate(listed) if isinstance(message, dict)]


def calls_of(message: Message) -> list[tuple[int, Mapping[str, Any]]]:
    """Give the calls of a message that are objects, with their places."""
    calls = message.get("tool_calls")
    listed = calls if isinstance(calls, list) else []
    return [(at, call) for at, call in enumerate(listed) if isinstance(call, dict)]


def _check_roles(body: Mapping[str, Any], _profile: Profile) -> Iterator[Refusal]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield refusal("messages_missing", "messages")
        return
    before = "system"
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        if not isinstance(message, dict) or "role" not in message:
            yield refusal("message_form", where)
            continue
        role = message["role"]
        yield from _check_role(role, before, where)
        before = str(role)


def _check_role(role: Any, before: str, where: str) -> Iterator[Refusal]:
    if role not in ROLES:
        yield refusal("role_unknown", f"{where}.role", value=role)
    if role in ("system", "developer") and before not in ("system", "developer"):
        yield refusal("system_place", f"{where}.role")
    if role == "user" and before == "tool":
        yield refusal("user_after_tool", f"{where}.role", role=before)


def _check_last_role(body: Mapping[str, Any], _profile: Profile) -> Iterator[Refusal]:
    for at, message in messages_of(body)[-1:]:
        role = message.get("role")
        if role not in ("user", "tool"):
            yield refusal("last_role", f"messages[{at}].role", role=role)


def _check_content(body: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    for at, message in messages_of(body):
        where = f"messages[{at}].content"
        content = message.get("content")
        if content is None or content == "":
            yield from _check_no_content(message, where, profile)
        elif isinstance(content, list):
            yield from _check_parts(content, where, profile)
        elif not isinstance(content, str):
            yield refusal("content_type_wrong", where, value=type(content).__name__)
        if message.get("role") == "tool":
            yield from _check_name(message, f"messages[{at}].name", profile)


def _check_no_content(message: Message, where: str, profile: Profile) -> Iterator[Refusal]:
    with_calls = message.get("role") == "assistant" and bool(message.get("tool_calls"))
    if message.get("content") == "":
        if with_calls and profile.content == "null":
            yield refusal("content_empty_with_calls", where)
    elif with_calls:
        if profile.content == "empty":
            yield refusal("content_null_with_calls", where)
    else:
        yield refusal("content_null" if "content" in message else "content_missing", where)


def _check_parts(parts: list[Any], where: str, profile: Profile) -> Iterator[Refusal]:
    if not profile.list_content:
        yield refusal("content_list", where)
    for at, part in enumerate(parts):
        is_text = isinstance(part, dict) and part.get("type") == "text"
        if not is_text or not isinstance(part.get("text"), str):
            yield refusal("content_part", f"{where}[{at}]")
    if not parts:
        yield refusal("content_part", where)


def _check_name(message: Message, where: str, profile: Profile) -> Iterator[Refusal]:
    name = message.get("name")
    if profile.tool_name == "required" and not (isinstance(name, str) and name):
        yield refusal("name_required", where)
    if profile.tool_name == "refused" and "name" in message:
        yield refusal("name_refused", where)


def _check_reasoning(body: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    for at, message in messages_of(body):
        if message.get("role") != "assistant":
            continue
        given = [name for name in REASONING_FIELDS if name in message]
        must = profile.reasoning == "must" and message.get("tool_calls")
        if must and not isinstance(message.get(profile.reasoning_field), str):
            yield refusal("reasoning_missing", f"messages[{at}].{profile.reasoning_field}")
        if given and profile.reasoning == "must_not":
            yield refusal("reasoning_refused", f"messages[{at}].{given[0]}")


# ---------------------------------------------------------------- calls, ids and pairing


def _check_calls(body: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    earlier: set[str] = set()
    for at, message in messages_of(body):
        if "tool_calls" not in message:
            continue
        where = f"messages[{at}].tool_calls"
        calls = message["tool_calls"]
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            yield refusal("tool_calls_form", where)
        elif not calls:
            yield refusal("tool_calls_empty", where)
        here: set[str] = set()
        for index, call in calls_of(message):
            place = f"{where}[{index}]"
            yield from _check_function(call, place)
            yield from _check_id(call.get("id"), place, profile, here, earlier)
        earlier |= here


def _check_function(call: Mapping[str, Any], where: str) -> Iterator[Refusal]:
    function = call.get("function")
    parts = function if isinstance(function, dict) else {}
    name, arguments = parts.get("name"), parts.get("arguments")
    if call.get("type") != "function":
        yield refusal("call_type", where)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield refusal("call_name", where, value=name)
    if not isinstance(arguments, str):
        yield refusal("call_arguments_type", where)
        return
    try:
        decoded = json.loads(arguments)
    except (ValueError, RecursionError):
        yield refusal("call_arguments_json", where)
        return
    if not isinstance(decoded, dict):
        yield refusal("call_arguments_object", where)


def _check_id(
    identity: Any, where: str, profile: Profile, here: set[str], earlier: set[str]
) -> Iterator[Refusal]:
    if not isinstance(identity, str) or not identity:
        yield refusal("call_id_missing", where)
        return
    if not re.fullmatch(profile.id_form, identity, re.DOTALL):
        if len(identity) > 40:
            yield refusal("call_id_long", f"{where}.id", count=len(identity))
        yield refusal("call_id_form", f"{where}.id", value=identity, form=profile.id_words)
    if identity in here:
        yield refusal("call_id_repeated", f"{where}.id", value=identity)
    if identity in earlier:
        yield refusal("call_id_reused", f"{where}.id", value=identity)
    here.add(identity)


def _check_pairing(body: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    match profile.server.pairing:
        case "ids":
            yield from _check_ids_paired(messages_of(body))
        case "count":
            yield from _check_counts(messages_of(body))
        case "silent":
            return
        case unknown:
            assert_never(unknown)


def _check_ids_paired(messages: list[tuple[int, Message]]) -> Iterator[Refusal]:
    """Walk the history; `waiting` are the ids that still need a result, here and now."""
    waiting: list[str] = []
    answered: set[str] = set()
    for position, (at, message) in enumerate(messages):
        if message.get("role") == "tool":
            yield from _check_result(message.get("tool_call_id"), at, waiting, answered)
            continue
        if waiting:
            yield _unanswered(waiting, at, messages[position:])
        waiting = [str(call.get("id")) for _, call in calls_of(message)]
        answered = set()
    if waiting:
        yield _unanswered(waiting, messages[-1][0], [])


def _check_result(
    identity: Any, at: int, waiting: list[str], answered: set[str]
) -> Iterator[Refusal]:
    if not isinstance(identity, str) or not identity:
        yield refusal("result_without_id", f"messages[{at}]")
    elif identity in answered:
        yield refusal("result_second", f"messages.[{at}].role", ids=identity)
    elif identity not in waiting:
        yield refusal("result_orphan", f"messages.[{at}].role", ids=identity, role="user")
    else:
        waiting.remove(identity)
        answered.add(identity)


def _unanswered(waiting: list[str], at: int, rest: list[tuple[int, Message]]) -> Refusal:
    later = [message.get("tool_call_id") for _, message in rest if message.get("role") == "tool"]
    case = "result_between" if any(identity in later for identity in waiting) else "result_missing"
    return refusal(case, f"messages.[{at}].role", ids=", ".join(waiting))


def _check_counts(messages: list[tuple[int, Message]]) -> Iterator[Refusal]:
    wanted, before = 0, "none"
    for at, message in messages:
        role = str(message.get("role"))
        if role == "tool":
            if before not in {"tool", "calls"}:
                yield refusal("result_orphan", f"messages[{at}].role", ids="", role=before)
            wanted -= 1
            before = role
            continue
        if wanted:
            yield refusal("result_count", f"messages[{at}].role")
        wanted = len(calls_of(message))
        before = "calls" if wanted else role
    if wanted:
        yield refusal("result_count", "messages")


def _check_signature(body: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    if not profile.server.signature:
        return
    for at, message in messages_of(body):
        for index, call in calls_of(message)[:1]:
            if not _signature(call):
                yield refusal("signature_missing", f"messages[{at}].tool_calls[{index}]")


def _signature(call: Mapping[str, Any]) -> Any:
    value: Any = call
    for step in ("extra_content", "google", "thought_signature"):
        value = value.get(step) if isinstance(value, dict) else None
    return value


# ---------------------------------------------------------------- tools


def tools_of(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Give the functions on offer that are objects with a name."""
    tools = body.get("tools")
    listed = tools if isinstance(tools, list) else []
    functions = [tool.get("function") for tool in listed if isinstance(tool, dict)]
    return [f for f in functions if isinstance(f, dict) and isinstance(f.get("name"), str)]


def _check_tools(body: Mapping[str, Any], _profile: Profile) -> Iterator[Refusal]:
    if "tools" in body:
        yield from _tools_refusals(_dump(body["tools"]))


@lru_cache(maxsize=256)
def _tools_refusals(tools_text: str) -> tuple[Refusal, ...]:
    """Check a list of tools once; every request of an episode carries the same."""
    return tuple(_check_tool_list(json.loads(tools_text)))


def _check_tool_list(tools: Any) -> Iterator[Refusal]:
    if not isinstance(tools, list):
        yield refusal("tools_form", "tools")
        return
    if not tools:
        yield refusal("tools_empty", "tools")
    names: set[str] = set()
    for at, tool in enumerate(tools):
        where = f"tools[{at}]"
        if not isinstance(tool, dict) or not isinstance(tool.get("function"), dict):
            yield refusal("tools_form", where)
            continue
        yield from _check_tool(tool, where, names)


def _check_tool(tool: Mapping[str, Any], where: str, names: set[str]) -> Iterator[Refusal]:
    function = tool["function"]
    name = function.get("name")
    if tool.get("type") != "function":
        yield refusal("tool_type", where)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield refusal("tool_name", where, value=name)
        return
    if name in names:
        yield refusal("tool_name_repeated", where, name=name)
    names.add(name)
    if not isinstance(function.get("description", ""), str):
        yield refusal("tool_description", where)
    if "parameters" in function:
        yield from _check_parameters(function, f"{where}.function.parameters", name)


def _check_parameters(function: Mapping[str, Any], where: str, name: str) -> Iterator[Refusal]:
    schema = function["parameters"]
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield refusal("parameters_form", where, name=name)
        return
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        yield refusal("properties_missing", where, name=name)
        properties = {}
    required = schema.get("required", [])
    unknown = [key for key in required if key not in properties] if _is_texts(required) else []
    if unknown:
        yield refusal("required_unknown", where, name=name, value=", ".join(unknown))
    yield from _check_schema(schema, where, name)
    if function.get("strict") is True and not all(map(_is_closed, _schemas(schema))):
        yield refusal("strict_schema", where, name=name)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _check_schema(schema: Mapping[str, Any], where: str, name: str) -> Iterator[Refusal]:
    for part in _schemas(schema):
        reference = part.get("$ref")
        if isinstance(reference, str) and _resolve(schema, reference) is None:
            yield refusal("ref_unknown", where, name=name, value=reference)
            return
    try:
        jsonschema_rs.meta.validate(dict(schema))
    except (ValueError, RecursionError) as error:
        yield refusal("schema_invalid", where, name=name, value=str(error).split("\n", 1)[0])


def _schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Give every object inside a schema, itself included."""
    pending = [schema]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield item
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def _is_closed(schema: Mapping[str, Any]) -> bool:
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        return True
    required = schema.get("required")
    everything = _is_texts(required) and set(required or ()) == set(schema["properties"])
    return schema.get("additionalProperties") is False and everything


def _resolve(schema: Any, reference: str) -> Any:
    if not reference.startswith("#"):
        return None
    for step in reference.lstrip("#/").split("/"):
        if step:
            schema = schema.get(step) if isinstance(schema, dict) else None
    return schema


def example(schema: Any, root: Any = None, depth: int = 0) -> Any:
    """Make a value that a schema takes: its own example, or the smallest of its type."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return "text"
    if isinstance(schema.get("$ref"), str):
        return example(_resolve(root, schema["$ref"]), root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return example(schema[key][0], root, depth + 1)
    return _example_of_type(schema, root, depth)


def _example_of_type(schema: Mapping[str, Any], root: Any, depth: int) -> Any:
    kind = schema.get("type", "string")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            properties = schema.get("properties")
            known = properties if isinstance(properties, dict) else {}
            required = schema.get("required")
            names: list[str] = list(required or ()) if _is_texts(required) else []
            return {name: example(known.get(name), root, depth + 1) for name in names}
        case "array":
            item = example(schema.get("items"), root, depth + 1)
            return [item] * _bounded(schema.get("minItems"), 10)
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "text".ljust(_bounded(schema.get("minLength"), 1000), "x")


def _bounded(value: Any, most: int) -> int:
    return min(value, most) if type(value) is int else 0


# ---------------------------------------------------------------- tool_choice


def choice_kind(choice: Any) -> str | None:
    """Tell which of the four forms a tool_choice has; None: none of them."""
    match choice:
        case "auto" | "none" | "required":
            return str(choice)
        case {"type": "function", "function": {"name": str()}}:
            return "named"
        case _:
            return None


def _check_choice(body: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    if "tool_choice" not in body:
        return
    choice, names = body["tool_choice"], {tool["name"] for tool in tools_of(body)}
    kind = choice_kind(choice)
    if kind is None:
        yield refusal("choice_form", "tool_choice", value=choice)
        return
    if "tools" not in body:
        yield refusal("choice_without_tools", "tool_choice")
    if kind not in profile.choices:
        yield refusal("choice_refused", "tool_choice", value=kind)
    if kind == "named" and choice["function"]["name"] not in names:
        yield refusal("choice_name", "tool_choice", name=choice["function"]["name"])


def _check_parallel(body: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    if "parallel_tool_calls" not in body:
        return
    if not isinstance(body["parallel_tool_calls"], bool):
        yield refusal("parallel_form", "parallel_tool_calls")
    if "tools" not in body:
        yield refusal("parallel_without_tools", "parallel_tool_calls")
    if not profile.parallel:
        yield refusal("parallel_refused", "parallel_tool_calls")


# ---------------------------------------------------------------- settings and keys


def _check_settings(body: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    limits = profile.limits_for(str(body.get("model", "")))
    for name in TOKEN_LIMITS:
        if name not in body:
            continue
        if name not in limits.token_limits:
            yield refusal("token_limit_name", name, name=name, other=limits.token_limits[0])
        if type(body[name]) is not int or body[name] < 1:
            yield refusal("token_limit_value", name, name=name)
    for name in sorted(SETTINGS & body.keys()):
        if name not in limits.settings:
            yield refusal("setting_refused", name, name=name, value=body[name])
    for name, (low, high) in {**RANGES, "temperature": limits.temperature}.items():
        if name in body:
            yield from _check_range(name, body[name], low, high)
    if body.get("n", 1) != 1:
        yield refusal("choices_count", "n")


def _check_range(name: str, value: Any, low: float, high: float) -> Iterator[Refusal]:
    if type(value) not in {int, float}:
        yield refusal("setting_form", name, name=name)
    elif not low <= value <= high:
        yield refusal("setting_range", name, name=name, low=low, high=high)


def _check_stop(body: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    stop = body.get("stop")
    if stop is None:
        return
    words = [stop] if isinstance(stop, str) else stop
    most = profile.limits_for(str(body.get("model", ""))).stop
    if most == 0:
        yield refusal("stop_refused", "stop")
    if not _is_texts(words) or not words or not all(words):
        yield refusal("stop_form", "stop")
    elif most and len(words) > most:
        yield refusal("stop_count", "stop", count=most)


def _check_stream(body: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    if not isinstance(body.get("stream", False), bool):
        yield refusal("stream_form", "stream")
    if "stream_options" in body:
        if not profile.stream_options:
            yield refusal("stream_options_refused", "stream_options")
        if body.get("stream") is not True:
            yield refusal("stream_options_alone", "stream_options")


def _check_keys(body: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    known = KNOWN_KEYS | profile.server.keys | profile.always.keys()
    for name in body:
        if name not in known:
            yield refusal("unknown_key", name, name=name)
    taken = MESSAGE_KEYS | set(REASONING_FIELDS)
    for at, message in messages_of(body):
        for name in message:
            if name not in taken:
                yield refusal("unknown_message_key", f"messages[{at}].{name}", name=name)


CHECKS: tuple[Callable[[Mapping[str, Any], Profile], Iterator[Refusal]], ...] = (
    _check_roles,
    _check_content,
    _check_calls,
    _check_pairing,
    _check_last_role,
    _check_reasoning,
    _check_signature,
    _check_tools,
    _check_choice,
    _check_parallel,
    _check_settings,
    _check_stop,
    _check_stream,
    _check_keys,
)
"""The checks in the order in which their refusals count."""
