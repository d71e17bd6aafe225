"""What each endpoint takes and gives, as data, and what a client does to a request because of it.

The facts stand in `profiles.json`; the code has no branch for any one endpoint. Nothing here uses
the network, and nothing weakens a request: a tool_choice that an endpoint refuses is sent as it
is, because the refusal is the finding.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, get_args
from urllib.parse import urlsplit

from bench.types import Message, Request, Usage, WorkbenchError

Reasoning = Literal["must", "must_not", "may"]
ContentForm = Literal["null", "empty", "either"]
NameRule = Literal["required", "may", "refused"]
ChoiceKind = Literal["auto", "none", "required", "named"]
Pairing = Literal["id", "name", "order"]
UsagePlace = Literal["last_chunk", "finish_chunk", "choice", "none"]
ErrorStyle = Literal["openai", "flat", "gemini", "llamacpp", "openrouter", "text", "list", "detail"]

Sent = tuple[Sequence[Message], Mapping[str, Any]]
"""What goes out: messages and options."""

SETTINGS: frozenset[str] = frozenset(
    [
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "seed",
        "random_seed",
        "logit_bias",
        "logprobs",
        "top_logprobs",
    ]
)
"""The sampling settings: options that a model family may not take."""
TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
"""The names under which endpoints give a turn's reasoning."""

FILE = Path(__file__).with_name("profiles.json")
MAX_FILE = 10_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What one family of models takes beside messages and tools."""

    token_limits: tuple[str, ...] = ("max_tokens",)
    """Names of the token limit that are taken; the first is the one to send."""
    settings: frozenset[str] = SETTINGS - {"random_seed"}
    """Sampling settings that have an effect."""
    stop: int = 4
    """The number of stop words taken; 0: none."""
    temperature: tuple[float, float] = (0.0, 2.0)
    """The lowest and the highest temperature taken."""


@dataclass(frozen=True, slots=True)
class Family:
    """The limits of the models whose name (after the last slash) `models` is found in."""

    models: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class Server:
    """How the strict endpoint plays this endpoint; a client has no use for it."""

    errors: ErrorStyle = "openai"
    """The form of an error's body."""
    code: str | None = None
    """The code of every refusal that has none of its own."""
    pairing: Literal["ids", "count", "silent"] = "ids"
    """How calls and results are compared: by id, by number, or not at all."""
    ignores: frozenset[str] = frozenset()
    """Checks, or groups of checks, that this endpoint does not make."""
    says: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For each check the status, type, code, message or form of body that differ."""
    keys: frozenset[str] = frozenset()
    """Keys of a request that are known here beside OpenAI's."""
    stream: Mapping[str, Any] = field(default_factory=dict)
    """How its streams differ, in the names of `bench.endpoint.script.StreamStyle`."""
    signature: bool = False
    """Each first call carries a thought_signature that must come back."""
    local: bool = False
    """No key is asked for."""
    window: int = 131_072
    """The context, in tokens."""
    overflow: Literal["refuse", "cut"] = "refuse"
    """What happens to a longer prompt: a 400, or its front is cut without a word."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a client has to know of one endpoint."""

    name: str
    about: str = ""
    """One sentence for people."""
    base_url: str | None = None
    """Where it usually is; `--base-url NAME` stands for it."""
    hosts: tuple[str, ...] = ()
    """Host names (`.azure.com`: any host below; `127.0.0.1:1234`: that port) that choose it."""
    models: str = ""
    """A pattern of model names: of two profiles of one host, the one that it fits is chosen."""
    reasoning: Reasoning = "may"
    """Whether the reasoning of earlier assistant turns goes back in the history."""
    reasoning_field: str = "reasoning_content"
    """The name that reasoning has in a message."""
    content: ContentForm = "either"
    """What stands for no text beside calls: null, "", or either."""
    list_content: bool = True
    """Content may be a list of text parts."""
    tool_name: NameRule = "may"
    """Whether a tool message carries the tool's `name`."""
    id_form: str = ".+"
    """The pattern that a whole call id fits."""
    id_make: str = "call_{hash24}"
    """How to make one: {hash9} and {hash24} are hexadecimal, {name} the tool, {index} its place."""
    id_words: str = "any text"
    """`id_form` in words."""
    choices: frozenset[ChoiceKind] = frozenset({"auto", "none", "required", "named"})
    """The forms of tool_choice that are honoured."""
    parallel: bool = True
    """`parallel_tool_calls` is honoured."""
    pairing: Pairing = "id"
    """By what the endpoint ties a result to its call."""
    usage: UsagePlace = "last_chunk"
    """Where a stream gives its usage."""
    stream_options: bool = True
    """`stream_options` is taken, and needed for a stream's usage."""
    usage_names: Mapping[str, str] = field(default_factory=dict)
    """Dotted paths in `usage` of the cached and the reasoning tokens, where not OpenAI's."""
    option_names: Mapping[str, str] = field(default_factory=dict)
    """Options that have another name here."""
    always: Mapping[str, Any] = field(default_factory=dict)
    """Options that are sent unless the request has them."""
    limits: Limits = Limits()
    families: tuple[Family, ...] = ()
    server: Server = Server()

    def limits_for(self, model: str) -> Limits:
        """Give what this model's family takes."""
        return next((f.limits for f in self.families if _fits(f.models, model)), self.limits)


def _fits(pattern: str, model: str) -> bool:
    return re.search(pattern, model.rsplit("/", 1)[-1], re.IGNORECASE) is not None


# ---------------------------------------------------------------- reading the file

_Raw = Mapping[str, Any]
_Read = Callable[[Any], Any]


class _BadFieldError(Exception):
    """A field and what it should be."""

    def __init__(self, name: str, wanted: str) -> None:
        super().__init__(f"{name!r} must be {wanted}")
        self.name = name


def _kind(wanted: str, *types: type) -> _Read:
    def read(value: Any) -> Any:
        if type(value) not in types:
            raise ValueError(wanted)
        return value

    return read


def _one_of(*values: str) -> _Read:
    def read(value: Any) -> Any:
        if value not in values:
            raise ValueError("one of " + ", ".join(values))
        return value

    return read


def _texts(make: Callable[[Iterable[str]], Any], *values: str) -> _Read:
    wanted = "a list of " + (", ".join(values) or "texts")

    def read(value: Any) -> Any:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueError(wanted)
        if values and not set(value) <= set(values):
            raise ValueError(wanted)
        return make(value)

    return read


def _pattern(value: Any) -> str:
    try:
        return str(re.compile(value).pattern)
    except (TypeError, re.error) as error:
        raise ValueError(f"a regular expression ({error})") from None


def _range(value: Any) -> tuple[float, float]:
    match value:
        case [int() | float() as low, int() | float() as high] if low <= high:
            return float(low), float(high)
    raise ValueError("a list of the lowest and the highest number")


def _families(value: Any) -> Any:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("a list of objects with 'models'")
    return tuple(value)


_TEXT, _BOOL, _OBJECT = _kind("a text", str), _kind("true or false", bool), _kind("an object", dict)
_COUNT = _kind("a whole number", int)
_LIMIT_FIELDS: Mapping[str, _Read] = {
    "token_limits": _texts(tuple, *TOKEN_LIMITS),
    "settings": _texts(frozenset, *sorted(SETTINGS)),
    "stop": _COUNT,
    "temperature": _range,
}
_SERVER_FIELDS: Mapping[str, _Read] = {
    "errors": _one_of(*get_args(ErrorStyle)),
    "code": _TEXT,
    "pairing": _one_of("ids", "count", "silent"),
    "ignores": _texts(frozenset),
    "says": _OBJECT,
    "keys": _texts(frozenset),
    "stream": _OBJECT,
    "signature": _BOOL,
    "local": _BOOL,
    "window": _COUNT,
    "overflow": _one_of("refuse", "cut"),
}
_PROFILE_FIELDS: Mapping[str, _Read] = {
    "name": _TEXT,
    "about": _TEXT,
    "base_url": _TEXT,
    "hosts": _texts(tuple),
    "models": _pattern,
    "reasoning": _one_of(*get_args(Reasoning)),
    "reasoning_field": _TEXT,
    "content": _one_of(*get_args(ContentForm)),
    "list_content": _BOOL,
    "tool_name": _one_of(*get_args(NameRule)),
    "id_form": _pattern,
    "id_make": _TEXT,
    "id_words": _TEXT,
    "choices": _texts(frozenset, *get_args(ChoiceKind)),
    "parallel": _BOOL,
    "pairing": _one_of(*get_args(Pairing)),
    "usage": _one_of(*get_args(UsagePlace)),
    "stream_options": _BOOL,
    "usage_names": _OBJECT,
    "option_names": _OBJECT,
    "always": _OBJECT,
    "limits": _OBJECT,
    "families": _families,
    "server": _OBJECT,
}
_OWN = frozenset({"name", "about", "base_url", "hosts", "models", "like"})
"""What a profile never takes over from the one that it is `like`."""


def _read_fields(raw: _Raw, table: Mapping[str, _Read]) -> dict[str, Any]:
    read = {}
    for name, value in raw.items():
        if name not in table:
            raise _BadFieldError(name, "left out; known are " + ", ".join(table))
        try:
            read[name] = table[name](value)
        except ValueError as error:
            raise _BadFieldError(name, str(error)) from None
    return read


def _read_family(raw: _Raw, base: Limits) -> Family:
    rest = {name: value for name, value in raw.items() if name != "models"}
    try:
        models = _pattern(raw.get("models"))
    except ValueError as error:
        raise _BadFieldError("models", str(error)) from None
    return Family(models, replace(base, **_read_fields(rest, _LIMIT_FIELDS)))


def _read_profile(name: str, raw: _Raw) -> Profile:
    read = _read_fields({**raw, "name": name}, _PROFILE_FIELDS)
    limits = Limits(**_read_fields(read.pop("limits", {}), _LIMIT_FIELDS))
    families = tuple(_read_family(item, limits) for item in read.pop("families", ()))
    server = Server(**_read_fields(read.pop("server", {}), _SERVER_FIELDS))
    profile = Profile(**read, limits=limits, families=families, server=server)
    if not re.fullmatch(profile.id_form, make_id(profile, "seed", "tool", 0)):
        raise _BadFieldError("id_make", "a template whose ids fit 'id_form'")
    return profile


def _inherit(raw: _Raw, base: _Raw) -> dict[str, Any]:
    """Take over what the profile does not say itself; `server` one level deep."""
    merged = {key: value for key, value in base.items() if key not in _OWN}
    merged.update((key, value) for key, value in raw.items() if key != "like")
    if isinstance(raw.get("server", {}), dict):
        merged["server"] = {**base.get("server", {}), **raw.get("server", {})}
    return merged


def _line_of(text: str, *names: str) -> int:
    """Find the line of a field: the place of its name after the names around it."""
    at = 0
    for name in names:
        found = text.find(json.dumps(name, ensure_ascii=False), at)
        at = at if found < 0 else found
    return text.count("\n", 0, at) + 1


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE:
            raise WorkbenchError(
                f"{path}: is larger than {MAX_FILE // 10**6} MB; give a profile's file"
            )
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WorkbenchError(f"{path}: cannot be read ({error}); give a profile's file") from None


def _decode(path: Path, text: str) -> _Raw:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise WorkbenchError(f"{path}:{line}: not JSON ({error}); mend the file") from None
    if not isinstance(raw, dict):
        raise WorkbenchError(f"{path}:1: a profile is a JSON object; mend the file")
    return raw


def _build(path: Path, text: str, name: str, raw: Any, known: Mapping[str, _Raw]) -> Profile:
    if not isinstance(raw, dict):
        line = _line_of(text, name)
        raise WorkbenchError(f"{path}:{line}: profile {name!r} must be an object")
    like = raw.get("like", "generic")
    if like not in known:
        line = _line_of(text, name, "like")
        names = ", ".join(known)
        raise WorkbenchError(f"{path}:{line}: 'like' must be one of {names}, not {like!r}")
    try:
        return _read_profile(name, _inherit(raw, known[like]))
    except _BadFieldError as error:
        line = _line_of(text, name, error.name)
        raise WorkbenchError(f"{path}:{line}: profile {name!r}: {error}") from None


@cache
def load_profiles(path: Path = FILE) -> Mapping[str, Profile]:
    """Load every profile of a file by name.

    Raises `WorkbenchError` with file, line, field and what it must be.
    """
    text = _read_text(path)
    raw = _decode(path, text)
    return {name: _build(path, text, name, item, raw) for name, item in raw.items()}


def load_profile(path: Path) -> Profile:
    """Load a user's file: one profile, `like` a known one; named `name` or as the file."""
    text = _read_text(path)
    raw = _decode(path, text)
    name = raw.get("name", path.stem)
    if not isinstance(name, str):
        raise WorkbenchError(f"{path}:{_line_of(text, 'name')}: 'name' must be a text")
    return _build(path, text, name, raw, _decode(FILE, _read_text(FILE)))


# ---------------------------------------------------------------- choosing one


def resolve_base_url(base_url: str) -> str:
    """Turn a profile's name (`ollama`, `lmstudio` …) into its usual address; leave addresses."""
    profile = load_profiles().get(base_url.strip().lower())
    if profile is not None and profile.base_url is not None:
        return profile.base_url
    if "://" not in base_url:
        names = ", ".join(p.name for p in load_profiles().values() if p.base_url)
        raise WorkbenchError(
            f"--base-url {base_url}: not an address; give http://HOST:PORT/v1 or one of {names}"
        )
    return base_url


def profile_for(
    base_url: str | None, name: str | None = None, *, model: str | None = None
) -> Profile:
    """Choose a profile: by name, by a `.json` file, or by the address's host; else `generic`.

    `model` decides between two profiles of one host. Raises `WorkbenchError` for an unknown name.
    """
    profiles = load_profiles()
    if name is None:
        return _by_host(base_url or "", model or "")
    if name in profiles:
        return profiles[name]
    if name.endswith(".json"):
        return load_profile(Path(name))
    raise WorkbenchError(
        f"--profile {name}: no such profile; give a .json file or one of {', '.join(profiles)}"
    )


def _by_host(base_url: str, model: str) -> Profile:
    profiles = load_profiles()
    if base_url in profiles:
        return profiles[base_url]
    parts = urlsplit(base_url)
    places = (parts.hostname or "", parts.netloc.rsplit("@", 1)[-1].lower())
    found = [p for p in profiles.values() if any(_is_host(h, places) for h in p.hosts)]
    fitting = [p for p in found if p.models and model and _fits(p.models, model)]
    general = [p for p in found if not p.models]
    return (fitting or general or [profiles["generic"]])[0]


def _is_host(host: str, places: tuple[str, ...]) -> bool:
    return host in places or (host.startswith(".") and places[0].endswith(host))


def profile_record(profile: Profile) -> dict[str, Any]:
    """Give the client's side of a profile as JSON, for the manifest."""
    return {
        item.name: _plain(getattr(profile, item.name))
        for item in fields(profile)
        if item.name not in {"server", "hosts"}
    }


def _plain(value: Any) -> Any:
    match value:
        case Family() | Limits():
            return _plain(asdict(value))
        case frozenset():
            return sorted(value)
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case tuple() | list():
            return [_plain(item) for item in value]
        case _:
            return value


# ---------------------------------------------------------------- the request


def adapt(request: Request, profile: Profile, model: str) -> Request:
    """Give the request in the form that the endpoint takes, with the same meaning.

    What the family of `model` does not take is left out; `left_out` names it for the record. A
    tool_choice that is refused stays.
    """
    return replace(
        request,
        messages=adapt_history(request.messages, profile),
        options=adapt_options(request.options, profile, model),
    )


def shape_for(profile: Profile, model: str) -> Callable[[Request], Sent]:
    """Give the function that a client applies to a request right before it is sent."""

    def shape(request: Request) -> Sent:
        adapted = adapt(request, profile, model)
        return adapted.messages, adapted.options

    return shape


def adapt_history(messages: Sequence[Message], profile: Profile) -> tuple[Message, ...]:
    """Give the history with this profile's reasoning, content, names and ids.

    Ids that do not fit the endpoint's form are renamed in the call and in its results alike;
    ids that fit are those that it gave itself, and stay.
    """
    ids = _Ids(profile)
    names: dict[str, str] = {}
    return tuple(_adapt_message(message, profile, ids, names) for message in messages)


def _adapt_message(
    message: Message, profile: Profile, ids: "_Ids", names: dict[str, str]
) -> Message:
    adapted = dict(message)
    if not profile.list_content:
        adapted["content"] = _join_parts(message.get("content"))
    match message.get("role"):
        case "assistant":
            _adapt_assistant(adapted, profile, ids, names)
        case "tool":
            _adapt_result(adapted, profile, ids, names)
    return adapted


def _join_parts(content: Any) -> Any:
    """Join a list of text parts; a list with another part is the endpoint's to refuse."""
    if not isinstance(content, list):
        return content
    parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(str(part.get("text", "")) for part in parts) if parts == content else content


def _adapt_assistant(
    adapted: dict[str, Any], profile: Profile, ids: "_Ids", names: dict[str, str]
) -> None:
    calls = adapted.get("tool_calls")
    if isinstance(calls, list) and calls:
        adapted["tool_calls"] = [_adapt_call(call, ids, names) for call in calls]
    else:
        adapted.pop("tool_calls", None)
    adapted["content"] = _content(adapted, profile)
    _adapt_reasoning(adapted, profile)


def _content(message: Mapping[str, Any], profile: Profile) -> Any:
    content = message.get("content")
    if content is not None and content != "":
        return content
    if not message.get("tool_calls"):
        return ""
    match profile.content:
        case "null":
            return None
        case "empty":
            return ""
        case "either":
            return content


def _adapt_reasoning(adapted: dict[str, Any], profile: Profile) -> None:
    if profile.reasoning == "may":
        return
    given = {name: adapted.pop(name) for name in REASONING_FIELDS if name in adapted}
    if profile.reasoning == "must" and given:
        first = given.get(profile.reasoning_field, next(iter(given.values())))
        adapted[profile.reasoning_field] = first if first is not None else ""


def _adapt_call(call: Any, ids: "_Ids", names: dict[str, str]) -> Any:
    if not isinstance(call, Mapping):
        return call
    function = call.get("function")
    name = str(function.get("name", "")) if isinstance(function, Mapping) else ""
    identity = ids.fit_call(call.get("id"), name)
    if isinstance(identity, str):
        names[identity] = name
    return {**call, "id": identity} if "id" in call else dict(call)


def _adapt_result(
    adapted: dict[str, Any], profile: Profile, ids: "_Ids", names: dict[str, str]
) -> None:
    if "tool_call_id" in adapted:
        adapted["tool_call_id"] = ids.fit(adapted["tool_call_id"], str(adapted.get("name", "")))
    match profile.tool_name:
        case "refused":
            adapted.pop("name", None)
        case "required" if not adapted.get("name"):
            adapted["name"] = names.get(str(adapted.get("tool_call_id")), "unknown")
        case _:
            pass


class _Ids:
    """The ids of one history: those renamed so far, and how many calls there were."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._form = re.compile(profile.id_form, re.DOTALL)
        self._renamed: dict[str, str] = {}
        self._calls = 0

    def fit_call(self, identity: Any, name: str) -> Any:
        """Give a call's own id if it fits, else the one that stands for it from here on."""
        fitted = self.fit(identity, name)
        self._calls += 1
        return fitted

    def fit(self, identity: Any, name: str) -> Any:
        """Give the id itself if it fits, else the one that stands for it."""
        if not isinstance(identity, str) or self._form.fullmatch(identity):
            return identity
        if identity not in self._renamed:
            made = make_id(self._profile, identity, name or "unknown", self._calls)
            self._renamed[identity] = made
        return self._renamed[identity]


def make_id(profile: Profile, seed: str, name: str, index: int) -> str:
    """Make a call id in the profile's form; the same seed gives the same id."""
    digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()
    words = {"{hash9}": digest[:9], "{hash24}": digest[:24], "{index}": str(index), "{name}": name}
    made = profile.id_make
    for field_name, value in words.items():
        made = made.replace(field_name, value)
    return made


def adapt_options(options: Mapping[str, Any], profile: Profile, model: str) -> dict[str, Any]:
    """Give the options with this family's names, without what it does not take.

    tool_choice is always sent with tools, since some servers drop the tools without it; without
    tools neither it nor an empty list is sent.
    """
    limits = profile.limits_for(model)
    dropped = set(left_out(options, profile, model))
    adapted = {
        _option_name(name, profile, limits): value
        for name, value in {**profile.always, **options}.items()
        if name not in dropped
    }
    _adapt_tools(adapted, profile)
    _adapt_stop(adapted, limits)
    _adapt_stream(adapted, profile)
    return adapted


def _option_name(name: str, profile: Profile, limits: Limits) -> str:
    if name in TOKEN_LIMITS:
        return limits.token_limits[0]
    return profile.option_names.get(name, name)


def _adapt_tools(adapted: dict[str, Any], profile: Profile) -> None:
    if adapted.get("tools"):
        adapted.setdefault("tool_choice", "auto")
        if not profile.parallel and adapted.get("parallel_tool_calls") is True:
            del adapted["parallel_tool_calls"]
        return
    for name in ("tools", "tool_choice", "parallel_tool_calls"):
        adapted.pop(name, None)


def _adapt_stop(adapted: dict[str, Any], limits: Limits) -> None:
    stop = adapted.get("stop")
    if isinstance(stop, Sequence) and not isinstance(stop, str):
        adapted["stop"] = list(stop[: limits.stop])
    if "stop" in adapted and not adapted["stop"]:
        del adapted["stop"]


def _adapt_stream(adapted: dict[str, Any], profile: Profile) -> None:
    if adapted.get("stream") and profile.stream_options:
        given = adapted.get("stream_options") or {}
        adapted["stream_options"] = {"include_usage": True, **given}
    else:
        adapted.pop("stream_options", None)


def left_out(options: Mapping[str, Any], profile: Profile, model: str) -> tuple[str, ...]:
    """Name the options that `adapt` leaves out for this model; the record tells them.

    These are sampling settings and stop words only. Of too many stop words the first are sent,
    and `stop` is not named.
    """
    limits = profile.limits_for(model)
    return tuple(name for name in options if not _is_taken(name, profile, limits))


def _is_taken(name: str, profile: Profile, limits: Limits) -> bool:
    if name == "stop":
        return limits.stop > 0
    here = profile.option_names.get(name, name)
    return not {name, here} & SETTINGS or here in limits.settings


# ---------------------------------------------------------------- usage

_USAGE_PATHS = {
    "prompt": "prompt_tokens",
    "completion": "completion_tokens",
    "cached": "prompt_tokens_details.cached_tokens",
    "reasoning": "completion_tokens_details.reasoning_tokens",
}


def find_usage(payload: Mapping[str, Any], profile: Profile) -> Usage | None:
    """Read the usage of a body or of one chunk, at its top or in its first choice.

    None where it has none. Counts in a stream are cumulative: take the last, never the sum.
    """
    usage = payload.get("usage")
    choices = payload.get("choices")
    if not isinstance(usage, Mapping) and isinstance(choices, list) and choices:
        usage = choices[0].get("usage") if isinstance(choices[0], Mapping) else None
    if not isinstance(usage, Mapping):
        return None
    counts = {name: _count_at(usage, name, path, profile) for name, path in _USAGE_PATHS.items()}
    return Usage(**counts)


def _count_at(usage: Mapping[str, Any], name: str, path: str, profile: Profile) -> int | None:
    value: Any = usage
    for step in str(profile.usage_names.get(name, path)).split("."):
        value = cast("Mapping[str, Any]", value).get(step) if isinstance(value, Mapping) else None
    counts = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return cast("int", value) if counts else None
