"""Tools of MCP servers, by the official `mcp` package: listed, called, and closed again.

`mcp:COMMAND …` starts a server and talks over its standard input and output; `mcp:http://…` talks to
one that runs. Every call needs leave: what a server says of its tools is shown, not trusted. A
server that is started gets no variable of the environment but where programs and homes are.
"""

import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from bench import secret
from bench.show import printable
from bench.tools.data import make_error
from bench.tools.schema import Function
from bench.types import WorkbenchError

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

PREFIX = "mcp:"
CONNECT = 30.0
"""Seconds that a server may take for each answer until its tools are listed."""
MAX_TOOLS = 1000
_MAX_PAGES = 100
_MAX_NODES = 10_000
_NOT_WIRE = re.compile(r"[^A-Za-z0-9_-]")


def is_mcp(target: str) -> bool:
    """Tell whether a target names an MCP server."""
    return target.startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server that is connected; it is asked from any thread."""

    target: str
    name: str
    """What it calls itself, with its version."""
    entries: tuple[Mapping[str, Any], ...]
    """Its tools in MCP's form, under names that every endpoint takes."""
    own_names: Mapping[str, str] = field(repr=False)
    """What the server calls each of them."""
    portal: "BlockingPortal" = field(repr=False)
    client: Any = field(repr=False)

    def caller(self, name: str, seconds: float) -> Function:
        """Return a function that calls a tool and gives the text for the model."""
        ask = partial(self.client.call_tool, self.own_names[name])

        def call(**values: Any) -> Any:
            return read_result(self.portal.call(partial(ask, values, read_timeout_seconds=seconds)))

        return call

    def tell(self) -> str:
        """Say in a line what the server offers, with what it says of itself."""
        told = ", ".join(f"{e['name']}{_hint(e.get('annotations'))}" for e in self.entries)
        text = (
            f"{self.target}: {self.name}, {len(self.entries)} tools: {told}. Each call needs leave "
            "(--allow NAME, or a yes at the terminal), whatever the server says of its tools."
        )
        return printable(secret.hide(text))[:4000]


def _hint(annotations: Any) -> str:
    match annotations:
        case {"readOnlyHint": True}:
            return " (says that it only reads)"
        case {"readOnlyHint": False, "destructiveHint": True}:
            return " (says that it may destroy something)"
        case {"readOnlyHint": False}:
            return " (says that it changes something)"
    return ""


def read_result(result: Any) -> Any:
    """Return what a model is shown of a call's result: its texts, else its structured content."""
    texts = [_text_of(block) for block in result.content]
    if result.is_error:
        told = secret.hide_keys(" ".join(texts))[:2000]
        return make_error(f"the tool failed: {told or 'no reason given'}")
    if not texts and result.structured_content is not None:
        return result.structured_content
    return "\n".join(texts)


def _text_of(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    kind = getattr(block, "mime_type", None) or block.type
    return f"[{kind}, which can't be shown here]"


# ---------------------------------------------------------------- connecting


@contextmanager
def connect(target: str) -> Iterator[McpServer]:
    """Connect to a server for as long as the block lasts; a started one is ended with it.

    Raises WorkbenchError where it can't be reached, or doesn't answer as a server does.
    """
    start_portal, make_client = _load(target)
    with ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))
        try:
            portal = stack.enter_context(start_portal())
            client = make_client(target, log)
            client = stack.enter_context(portal.wrap_async_context_manager(client))
            found = portal.call(_list_tools, client)
        except WorkbenchError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever a stranger's server does is told in a line)
            raise WorkbenchError(_explain(target, error, log)) from None
        yield _make_server(target, client, portal, found)


def _load(target: str) -> Any:
    """Return what starts a loop in a thread of its own, and what makes a client of a target."""
    try:
        from anyio.from_thread import start_blocking_portal  # noqa: PLC0415 (an extra)
        from mcp import Client, StdioServerParameters, stdio_client  # noqa: PLC0415 (an extra)
    except ImportError:
        raise WorkbenchError(
            f"--tools {target}: needs the mcp package: pip install 'toolcall-workbench[mcp]'"
        ) from None

    def make_client(target: str, log: IO[str]) -> Any:
        words = _words_of(target)
        if isinstance(words, str):
            return Client(words, read_timeout_seconds=CONNECT)
        server = StdioServerParameters(command=words[0], args=words[1:])
        return Client(stdio_client(server, errlog=log), read_timeout_seconds=CONNECT)  # type: ignore[arg-type]

    return start_blocking_portal, make_client


def _words_of(target: str) -> str | list[str]:
    """Return the address of a running server, or the words of a command that starts one."""
    rest = target.removeprefix(PREFIX).strip()
    if re.match(r"https?://", rest):
        if next(secret.in_address(rest), None) is not None:
            raise WorkbenchError("--tools mcp:…: leave keys out of a server's address")
        return rest
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise WorkbenchError(f"--tools {target}: can't be split into words ({error})") from None
    if not words:
        raise WorkbenchError(
            '--tools mcp: name a command, as "mcp:python server.py", or an address'
        )
    return words


async def _list_tools(client: Any) -> list[Any]:
    """List a server's tools, page by page, within bounds."""
    tools: list[Any] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None or len(tools) > MAX_TOOLS:
            break
    return tools


def _make_server(target: str, client: Any, portal: Any, found: list[Any]) -> McpServer:
    if not found or len(found) > MAX_TOOLS:
        raise WorkbenchError(f"{target}: lists {len(found)} tools; 1 to {MAX_TOOLS} can be offered")
    entries = [tool.model_dump(by_alias=True, exclude_none=True) for tool in found]
    own_names = {_wire_name(entry["name"]): entry["name"] for entry in entries}
    if len(own_names) < len(entries):
        raise WorkbenchError(f"{target}: two of its tools have the same name for an endpoint")
    info = client.server_info
    return McpServer(
        target=target,
        name=f"{info.name} {info.version}".strip() if info else "a server without a name",
        entries=tuple(map(_as_offered, entries)),
        own_names=own_names,
        portal=portal,
        client=client,
    )


def _wire_name(name: str) -> str:
    """Return a tool's name in the letters that endpoints take."""
    return _NOT_WIRE.sub("_", name)[:64]


def _as_offered(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = inline(entry.get("inputSchema") or {"type": "object", "properties": {}})
    return {**entry, "name": _wire_name(entry["name"]), "inputSchema": schema}


def _explain(target: str, error: BaseException, log: IO[str]) -> str:
    """Say in one line why a server can't be used, with the last line that it wrote."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    log.seek(0)
    lines = [line.strip() for line in log.read(1_000_000).splitlines() if line.strip()]
    last = f"; it wrote: {secret.hide(lines[-1])[:200]}" if lines else ""
    said = secret.hide(" ".join(str(error).split()))[:200] or type(error).__name__
    return f"--tools {target}: no MCP server answers there ({said}{last})"


# ---------------------------------------------------------------- schemas


def inline(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with what its `$ref`s point at put in: a ReAct prompt shows no definitions.

    One that holds itself, or grows without end, is left as it is.
    """
    budget = [_MAX_NODES]
    try:
        plain = _inlined(schema, schema.get("$defs", {}), (), budget)
    except RecursionError:
        return schema
    return {k: v for k, v in plain.items() if k != "$defs"} if budget[0] > 0 else schema


def _inlined(part: Any, defs: Mapping[str, Any], inside: tuple[str, ...], budget: list[int]) -> Any:
    budget[0] -= 1
    if budget[0] <= 0:
        return part
    if isinstance(part, list):
        return [_inlined(item, defs, inside, budget) for item in part]
    if not isinstance(part, Mapping):
        return part
    name = str(part.get("$ref", "")).removeprefix("#/$defs/")
    if "$ref" in part:
        if name not in defs or name in inside:
            budget[0] = 0
            return part
        part = {**defs[name], **{key: value for key, value in part.items() if key != "$ref"}}
        return _inlined(part, defs, (*inside, name), budget)
    return {k: v if k == "$defs" else _inlined(v, defs, inside, budget) for k, v in part.items()}


# ---------------------------------------------------------------- for a whole command


_open: dict[str, tuple[ExitStack, McpServer]] = {}


def open_server(target: str) -> McpServer:
    """Return a server that stays connected until `close_servers`; each target once."""
    if target not in _open:
        stack = ExitStack()
        server = stack.enter_context(connect(target))
        _open[target] = (stack, server)
        sys.stderr.write(f"{server.tell()}\n")
    return _open[target][1]


def close_servers() -> None:
    """Give back every connection, and end the servers that were started."""
    while _open:
        _, (stack, _) = _open.popitem()
        stack.close()
