"""How each parser is asked: a table from a name to a function that makes a reader for some tools.

A reader takes a request (`text`, and for arguments alone `tool`) and gives `{"calls": [[name,
arguments or text], …], "final": text or None}`, or raises as its parser does. Run by the parsers'
own Pythons, so nothing is imported before it is needed. It may not mend what a parser gives.
"""

import ast
import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

Read = Callable[[dict[str, Any]], dict[str, Any]]
Tools = list[dict[str, Any]]


def _call(name: Any, arguments: Any) -> dict[str, Any]:
    return {"calls": [[name, arguments]], "final": None}


def _final(text: Any) -> dict[str, Any]:
    return {"calls": [], "final": text}


# Ours: the same functions that everybody imports.


def _react(level: str, tools: Tools) -> Read:
    parse = import_module("parsers.react").parse_react
    offered = _offered(tools)
    return lambda request: _reading(
        parse(
            request["text"],
            offered,
            level=level,
            dialect=request.get("dialect", "json"),
            finish_reason=request.get("finish_reason"),
        )
    )


def _native(level: str, tools: Tools) -> Read:
    parse = import_module("parsers.wire").parse_response
    offered = _offered(tools)
    return lambda request: _reading(
        parse(request["wire"], offered, level=level, **request.get("options", {}))
    )


def _message(level: str, tools: Tools) -> Read:
    """Take the text as the content of a native message, or as a call's arguments (`tool`)."""
    parse = import_module("parsers.native").parse_native
    offered = _offered(tools)

    def read(request: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": request["text"]}
        if "tool" in request:
            function = {"name": request["tool"], "arguments": request["text"]}
            message = {"role": "assistant", "content": None}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        return _reading(parse(message, offered, level=level))

    return read


def _stream(level: str, tools: Tools) -> Read:
    """Feed the text by pieces of a few characters, as it comes from a model."""
    make = import_module("parsers.stream").ReactStream
    offered = _offered(tools)

    def read(request: dict[str, Any]) -> dict[str, Any]:
        stream, text, size = make(offered, level=level), request["text"], request["piece"]
        for start in range(0, len(text), size):
            stream.feed(text[start : start + size])
        return _reading(stream.finish())

    return read


def _arguments(level: str, tools: Tools) -> Read:
    read = import_module("parsers.arguments").read_arguments
    by_name = {tool.name: tool for tool in _offered(tools)}

    def read_one(request: dict[str, Any]) -> dict[str, Any]:
        tool = by_name[request["tool"]]
        found = read(
            request["text"],
            tool,
            level=level,
            text_forms=request.get("text_forms", False),
            finish_reason=request.get("finish_reason"),
            offered=tuple(by_name),
        )
        if found.failure is not None:
            return {"refused": found.failure.message, "kind": found.failure.kind}
        return _call(tool.name, found.arguments)

    return read_one


def _offered(tools: Tools) -> Any:
    return import_module("parsers.types").as_tools(tools)


def _reading(reading: Any) -> dict[str, Any]:
    if reading.failure is not None:
        return {"refused": reading.failure.message, "kind": reading.failure.kind}
    good = reading.good_calls
    calls = [[call.name, call.arguments] for call in good]
    return {"calls": calls, "final": reading.final, "raw": [call.raw for call in good]}


# The peers.


def _langchain(module: str, name: str, _: Tools) -> Read:
    parser = getattr(import_module(f"langchain_classic.agents.{module}"), name)()

    def read(request: dict[str, Any]) -> dict[str, Any]:
        step = parser.parse(request["text"])
        if hasattr(step, "return_values"):
            return _final(step.return_values["output"])
        return _call(step.tool, step.tool_input)

    return read


def _llamaindex(_: Tools) -> Read:
    parser = import_module("llama_index.core.agent.react.output_parser").ReActOutputParser()

    def read(request: dict[str, Any]) -> dict[str, Any]:
        step = parser.parse(request["text"], is_streaming=False)
        if hasattr(step, "response"):
            return _final(step.response)
        return _call(step.action, step.action_input)

    return read


def _crewai(_: Tools) -> Read:
    """Read the step, then the input as CrewAI's own tool use validates it."""
    parser = import_module("crewai.agents.parser")
    usage = import_module("crewai.tools.tool_usage").ToolUsage
    validator = usage.__new__(usage)  # the method asks nothing of an instance but what is set here
    validator.action = validator.agent = validator.task = None
    validator._emit_validate_input_error = lambda _: None  # noqa: SLF001 (its event bus is not timed)
    validate = validator._validate_tool_input  # noqa: SLF001 (what runs behind the parser)

    def read(request: dict[str, Any]) -> dict[str, Any]:
        step = parser.parse(request["text"])
        if isinstance(step, parser.AgentFinish):
            return _final(step.output)
        return _call(step.tool, validate(step.tool_input))

    return read


def _agent_tool_parser(tuned: bool, tools: Tools) -> Read:
    """Give it the tools' names and take its aliases away, where tuned."""
    package = import_module("agent_tool_parser")
    names = {tool["function"]["name"] for tool in tools}
    by_name = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    options: dict[str, Any] = {}
    if tuned:
        source = import_module("agent_tool_parser.parser")
        options["allowed_tools"] = names
        for option, table in (("tool", "_DEFAULT_ALIASES"), ("param", "_DEFAULT_PARAM_ALIASES")):
            options[f"{option}_aliases"] = {alias: alias for alias in getattr(source, table)}
    parser = package.ToolParser(**options)

    def read(request: dict[str, Any]) -> dict[str, Any]:
        calls = [(call.name, call.args) for call in parser.parse_all(request["text"])]
        if tuned:
            calls = [(name, _placed(args, by_name.get(name, {}))) for name, args in calls]
        return {"calls": [list(call) for call in calls], "final": None}

    return read


def _placed(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Name the arguments that it calls by their position."""
    order = list(schema.get("properties", {}))
    places = {f"arg{number}": name for number, name in enumerate(order)}
    if len(order) == 1:
        places["input"] = order[0]
    return {places.get(key, key): value for key, value in arguments.items()}


def _json_repair(_: Tools) -> Read:
    repair = import_module("json_repair").loads
    return lambda request: _call(request["tool"], repair(request["text"]))


def _baml(tools: Tools) -> Read:
    """Give each tool's schema as a BAML class; what is optional and was not said is left out."""
    context = import_module("baml_lib").PyBamlContext
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    made: dict[str, Any] = {}

    def read(request: dict[str, Any]) -> dict[str, Any]:
        name, text = request["tool"], request["text"]
        if name not in made:
            made[name] = context(_baml_class(schemas[name]), "Arguments")
        found = json.loads(made[name].validate_result(text, False))
        kept = {key: value for key, value in found.items() if value is not None or key in text}
        return _call(name, kept)

    return read


def _baml_class(schema: dict[str, Any]) -> str:
    lines = []
    for number, (name, part) in enumerate(schema.get("properties", {}).items()):
        kind = _baml_type(part)
        if name not in schema.get("required", []) or "null" in part.get("type", ""):
            kind += "?"
        lines.append(f"  p{number} {kind} @alias({json.dumps(name, ensure_ascii=False)})")
    return "\n".join(["class Arguments {", *lines, "}"])


def _baml_type(part: dict[str, Any]) -> str:
    kinds = part.get("type", "string")
    if isinstance(kinds, list):
        named = [_baml_type({**part, "type": kind}) for kind in kinds if kind != "null"]
        return named[0] if len(named) == 1 else f"({' | '.join(named)})"
    if kinds == "array":
        return f"{_baml_type(part.get('items', {}))}[]"
    return {"integer": "int", "number": "float", "boolean": "bool"}.get(kinds, "string")


def _literal(_: Tools) -> Read:
    """Read JSON, or else a Python literal: what everybody starts with."""

    def read(request: dict[str, Any]) -> dict[str, Any]:
        try:
            return _call(request["tool"], json.loads(request["text"]))
        except ValueError:
            return _call(request["tool"], ast.literal_eval(request["text"].strip()))

    return read


READERS: dict[str, Callable[[Tools], Read]] = {
    **{f"react-{level}": partial(_react, level) for level in ("strict", "hardened", "rescue")},
    **{f"native-{level}": partial(_native, level) for level in ("strict", "hardened", "rescue")},
    **{f"arguments-{level}": partial(_arguments, level) for level in ("strict", "hardened")},
    "message-rescue": partial(_message, "rescue"),
    "stream-hardened": partial(_stream, "hardened"),
    "langchain-react": partial(
        _langchain, "output_parsers.react_single_input", "ReActSingleInputOutputParser"
    ),
    "langchain-mrkl": partial(_langchain, "mrkl.output_parser", "MRKLOutputParser"),
    "langchain-json": partial(
        _langchain, "output_parsers.react_json_single_input", "ReActJsonSingleInputOutputParser"
    ),
    "llamaindex": _llamaindex,
    "crewai": _crewai,
    "agent-tool-parser": partial(_agent_tool_parser, False),
    "agent-tool-parser-tuned": partial(_agent_tool_parser, True),
    "json-repair": _json_repair,
    "baml": _baml,
    "json-or-literal": _literal,
}
