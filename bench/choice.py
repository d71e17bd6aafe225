"""What a user chose to run: options, endpoints, tasks. From flags, the environment and a manifest.

Asks no model and writes nothing. A choice is a value that a manifest holds, so that a run can be
taken up again with nothing but its name.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bench import secret
from bench.drivers import NativeDriver, ReactDriver, make_driver
from bench.recordings import Recording
from bench.types import Budget, WorkbenchError

if TYPE_CHECKING:
    from bench.profiles import Profile

OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class Choice:
    """Every option of a comparison, with its default; all of it stands in the manifest."""

    drivers: tuple[str, ...] = ("react", "native")
    category: tuple[str, ...] = ()
    lang: tuple[str, ...] = ()
    task: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """Where own tools are: files, modules, functions."""
    tool_timeout: float | None = None
    """Time limit of a call of an own tool, in seconds; None: 30."""
    tasks: str | None = None
    """A file of own tasks, or `bfcl:` and BFCL's categories."""
    bfcl: str | None = None
    """Where BFCL's data are: a wheel, a checkout, a folder; None: where bfcl-eval is installed."""
    variants: str | None = None
    """A file of own description variants."""
    script: str | None = None
    """A file of replies written by hand, played where no model is asked."""
    config: str | None = None
    """The file of options that was read."""
    secret: tuple[str, ...] = ()
    """Patterns of what is hidden wherever it stands."""
    toolset: str | None = None
    limit: int | None = None
    dialect: str = "json"
    level: str = "hardened"
    variant: tuple[str, ...] = ("full",)
    trials: int | None = None
    endpoint: tuple[str, ...] = ()
    replay: tuple[str, ...] = ()
    base_url: str | None = None
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    extra_body: str | None = None
    """Further fields of every request, as a JSON object."""
    profile: str | None = None
    timeout: float = 300.0
    steps: int = 8
    corrections: int = 2
    example: bool = True
    stream: bool = False
    stop_early: bool = False
    """Hang up where nothing that may still come can change a ReAct reading; not to compare with."""
    allow: tuple[str, ...] = ()
    concurrency: int | None = None
    rpm: int | None = None
    """Requests a minute, of each endpoint."""
    tpm: int | None = None
    """Tokens a minute, of each endpoint."""
    budget_tokens: int | None = None
    budget_money: float | None = None
    """In the currency of `price`."""
    price: tuple[float, ...] | None = None
    """Of a million prompt tokens, and of a million completion tokens."""
    time_limit: float | None = None
    """Of the run, in seconds from each start of it."""

    def make_drivers(self) -> list[ReactDriver | NativeDriver]:
        """Make the drivers; each name once."""
        made = [
            make_driver(
                name,
                dialect=self.dialect,
                level=self.level,
                example=self.example,
                stop_early=self.stop_early,
            )
            for name in self.drivers
        ]
        return list(dict.fromkeys(made))

    def budget(self) -> Budget:
        """Give what an episode may use."""
        return Budget(steps=self.steps, corrections=self.corrections)

    def settings(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """Give what every request carries beside its messages: what is named here, over a base."""
        names = ("temperature", "max_tokens", "seed", "reasoning_effort")
        named = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        merged = {**base, **named, **_extra(self.extra_body)}
        return {name: _plain(value) for name, value in merged.items()}


def _extra(text: str | None) -> Mapping[str, Any]:
    try:
        extra = json.loads(text or "{}")
    except ValueError as error:
        raise WorkbenchError(f"--extra-body {text}: not JSON ({error})") from None
    if not isinstance(extra, dict) or {"messages", "tools", "model", "stream"} & set(extra):
        raise WorkbenchError(
            f"--extra-body {text}: a JSON object without model, messages, tools and stream is needed"
        )
    return extra


def _plain(value: Any) -> Any:
    """Write 0.0 as 0: a recorded request is found by what it says, not by how it was typed."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def choice_from(values: Mapping[str, Any]) -> Choice:
    """Make a choice of what was said; what is None or not an option of a comparison is passed over."""
    names = {item.name for item in fields(Choice)}
    said: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
        if name in names and value is not None
    }
    return Choice(**said)


LIMITS = (
    *("concurrency", "timeout", "rpm", "tpm"),
    *("budget_tokens", "budget_money", "price", "time_limit"),
)
"""What changes nothing in what is asked: said otherwise when a run goes on, it holds from then on."""
_FREE = (*LIMITS, "stream", "model", "base_url")
"""What may be said otherwise when a run goes on; the model and its address are looked up."""


def resumed(stored: Mapping[str, Any], values: Mapping[str, Any], run: str) -> Choice:
    """Take the choice of a run that goes on; refuse what was said otherwise this time."""
    before, now_said = choice_from(stored), choice_from(values)
    for name, value in asdict(now_said).items():
        old, told = getattr(before, name), secret.mask_option(name, value)
        if values.get(name) is not None and name not in _FREE and told != old:
            raise _otherwise(run, name, old, told)
    before = replace(before, **_said_again(before, now_said, values, run))
    secret.know((), before.secret)
    for name in ("model", "base_url"):
        value = values.get(name)
        if value is not None and not any(value in re.split("[=,]", e) for e in before.endpoint):
            raise _otherwise(run, name, ", ".join(before.endpoint), value)
    said = {name: getattr(now_said, name) for name in LIMITS if values.get(name) is not None}
    return replace(before, **said)


def _said_again(
    before: Choice, now_said: Choice, values: Mapping[str, Any], run: str
) -> dict[str, Any]:
    """Return the options that were kept without the secrets in them; they must be said anew."""
    lost = [item.name for item in fields(Choice) if secret.is_masked(getattr(before, item.name))]
    for name in lost:
        if values.get(name) is None:
            flag = "--" + name.replace("_", "-")
            raise WorkbenchError(
                f"{run}: {flag} held something secret, which is not kept; say {flag} again"
            )
    return {name: getattr(now_said, name) for name in lost}


def _otherwise(run: str, name: str, old: Any, value: Any) -> WorkbenchError:
    flag = "--" + name.replace("_", "-")
    return WorkbenchError(
        f"{run}: was begun with {flag} {old!r}, not {value!r}; leave {flag} out, "
        "or start a new run without --resume"
    )


def to_manifest(choice: Choice, endpoints: Sequence["Endpoint"]) -> dict[str, Any]:
    """Give a choice as JSON that `choice_from` takes back, whatever the environment then says."""
    if endpoints:
        named = tuple(f"{e.name}={e.base_url},{e.model}" for e in endpoints)
        choice = replace(choice, endpoint=named, model=None, base_url=None)
    values: dict[str, Any] = json.loads(json.dumps(asdict(choice)))
    return {name: secret.mask_option(name, value) for name, value in values.items()}


# ------------------------------------------------------------ endpoints


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model behind one address, under a name that is unique in a run."""

    name: str
    base_url: str
    model: str
    api_key: str = field(repr=False)

    @property
    def host(self) -> str:
        """The address without path, user and password."""
        return urlsplit(self.base_url).netloc.rsplit("@", 1)[-1]


def find_endpoints(
    choice: Choice, environ: Mapping[str, str], api_key: str | None = None
) -> tuple[Endpoint, ...]:
    """Return the endpoints to ask; none: the run is a recorded one, whatever keys the shell holds."""
    if choice.replay or choice.script:
        _refuse_two_sources(choice)
        return ()
    live = [text for text in choice.endpoint if "=" in text]
    model = choice.model or (None if live else environ.get("LLM_MODEL"))
    if not live and not model:
        _refuse_half_named(choice, environ, api_key)
        return ()
    found = [_named_endpoint(text, environ, api_key) for text in live]
    if model:
        found.append(_one_endpoint(model, choice, environ, api_key))
    names = [endpoint.name for endpoint in found]
    if len(set(names)) != len(names):
        raise WorkbenchError(f"--endpoint: two of the same name ({', '.join(names)}); rename one")
    return tuple(found)


def _refuse_two_sources(choice: Choice) -> None:
    """Refuse replies from two places: a model, a recording, a script."""
    said = {"--model": choice.model, "--endpoint": choice.endpoint, "--replay": choice.replay}
    others = [flag for flag, value in said.items() if value and choice.script]
    if others:
        raise WorkbenchError(f"--script and {others[0]}: replies come from one place; drop one")


def _refuse_half_named(choice: Choice, environ: Mapping[str, str], api_key: str | None) -> None:
    """Refuse an endpoint without a model; a bare OPENAI_API_KEY in a shell means nothing."""
    said = {"--base-url": choice.base_url, "--api-key": api_key}
    said |= {name: environ.get(name) for name in ("LLM_BASE_URL", "LLM_API_KEY")}
    for name, value in said.items():
        if value:
            raise WorkbenchError(
                f"{name} is given, but no model; add --model NAME, or the line: export LLM_MODEL=NAME"
            )


def _one_endpoint(
    model: str, choice: Choice, environ: Mapping[str, str], api_key: str | None
) -> Endpoint:
    address = choice.base_url or environ.get("LLM_BASE_URL") or environ.get("OPENAI_BASE_URL")
    url = _address(address or OPENAI, "--base-url")
    return Endpoint(model, url, model, _find_key(model, url, environ, api_key))


def _named_endpoint(text: str, environ: Mapping[str, str], api_key: str | None) -> Endpoint:
    words = re.fullmatch(r"([^=]+)=([^,]+),(.+)", text)
    if words is None:
        raise WorkbenchError(f"--endpoint {text}: write it NAME=BASE_URL,MODEL")
    name, url, model = (word.strip() for word in words.groups())
    url = _address(url, f"--endpoint {name}")
    return Endpoint(name, url, model, _find_key(name, url, environ, api_key))


def _address(text: str, flag: str) -> str:
    from bench.profiles import resolve_base_url  # noqa: PLC0415 (only live runs need it)

    url = resolve_base_url(text)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WorkbenchError(f"{flag}: {text} is no address; write it http://HOST:PORT/v1")
    if next(secret.in_address(url), None) is not None:
        raise WorkbenchError(f"{flag}: leave keys out of the address; give them with LLM_API_KEY")
    return url


def _find_key(name: str, url: str, environ: Mapping[str, str], api_key: str | None) -> str:
    """Find a key: of the endpoint's own name, of the flag, of the environment; `none` if it may."""
    own = "LLM_API_KEY_" + re.sub(r"\W", "_", name).upper()
    said = (environ.get(own), api_key, environ.get("LLM_API_KEY"), environ.get("OPENAI_API_KEY"))
    key = next(filter(None, said), None)
    if key is None and url == OPENAI:
        raise WorkbenchError(
            f"no key for {url}: set LLM_API_KEY, or name another endpoint with --base-url"
        )
    return key or "none"


def profile_of(endpoint: Endpoint, choice: Choice) -> "Profile":
    """Return what an endpoint takes: the profile named, else that of its host."""
    from bench.profiles import profile_for  # noqa: PLC0415 (only live runs need it)

    return profile_for(endpoint.base_url, choice.profile, model=endpoint.model)


# ------------------------------------------------------------ recordings


def find_recordings(
    folder: Path, names: Sequence[str] = (), experiment: str = "compare"
) -> list[Recording]:
    """Read the recordings of an experiment: the default ones, or those of the endpoints named."""
    index = folder / "index.json"
    try:
        entries = json.loads(index.read_text(encoding="utf-8"))["recordings"]
    except OSError:
        entries = []
    except (ValueError, KeyError, TypeError) as error:
        raise WorkbenchError(f"{index}: not a list of recordings ({error})") from None
    fitting = [entry for entry in entries if entry["experiment"] == experiment]
    chosen = [e for e in fitting if (e["endpoint"] in names if names else e.get("default"))]
    known = [str(entry["endpoint"]) for entry in fitting]
    for name in names:
        if name not in known:
            raise WorkbenchError(
                f"--endpoint {name}: no recording of that name; recorded: {', '.join(known) or 'none'}; "
                "a live endpoint is written NAME=BASE_URL,MODEL"
            )
    if not chosen:
        raise WorkbenchError(_nothing_recorded(experiment))
    return [Recording.read(folder / entry["file"]) for entry in chosen]


def _nothing_recorded(experiment: str) -> str:
    command = {"ask": "lint TOOLS --ask"}.get(experiment, experiment)
    return (
        f"no recording of {command} comes with the workbench: ask a model with --model NAME "
        "--base-url URL (--record FILE keeps its replies), or name a recording with --replay FILE"
    )
