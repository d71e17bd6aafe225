"""What the linter is given and what it says: a tool as it stands in its source, and a finding.

No checks here. Texts of a source are a stranger's: a finding's line is bounded and shows control
characters as escapes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parsers import Tool

WHOLE = "-"
"""Stands for the parameter where a finding is about the whole tool, for the tool where it is about all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to change: where, what is wrong, and what to write."""

    source: str
    tool: str
    parameter: str
    rule: str
    """A short name of the check, for filters."""
    says: str
    write: str

    def line(self) -> str:
        """Return `source:tool:parameter: finding → what to write`, on one printable line."""
        where = ":".join(_clip(part) for part in (self.source, self.tool, self.parameter))
        return f"{where}: {_clip(self.says, 400)} → {_clip(self.write, 400)}"


def _clip(text: str, longest: int = 120) -> str:
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text[:longest])
    return shown + ("…" if len(text) > longest else "")


@dataclass(frozen=True, slots=True)
class Subject:
    """A tool as its source gives it, unrepaired."""

    name: str
    description: str
    parameters: Any
    """The schema, None where there is none; it may be anything at all."""
    strict: bool = False

    @classmethod
    def from_tool(cls, tool: Tool | Mapping[str, Any]) -> "Subject":
        """Take a tool, or an entry in OpenAI's, Anthropic's or MCP's form."""
        if isinstance(tool, Tool):
            return cls(tool.name, tool.description, tool.parameters)
        inner = tool.get("function")
        entry: Mapping[str, Any] = inner if isinstance(inner, Mapping) else tool
        keys = ("parameters", "inputSchema", "input_schema")
        return cls(
            name=_text(entry.get("name")),
            description=_text(entry.get("description")),
            parameters=next((entry[key] for key in keys if key in entry), None),
            strict=entry.get("strict") is True,
        )

    @property
    def properties(self) -> dict[str, Any]:
        """The top-level parameters by name; empty where the schema is unusable."""
        return properties_of(self.parameters)


def properties_of(schema: Any) -> dict[str, Any]:
    """Return a schema's properties, empty where it has none that can be read."""
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}


def kind_of(schema: Mapping[str, Any]) -> str:
    """Return a schema's one type, empty where it has none or several."""
    return _text(schema.get("type"))


def required_of(schema: Any) -> list[str]:
    """Return the names that a schema requires, those that are texts."""
    found = schema.get("required") if isinstance(schema, Mapping) else None
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
