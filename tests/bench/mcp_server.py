"""A small MCP server for the tests, by the `mcp` package's own server: over stdio, or a port."""

import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

server = MCPServer("till", version="1.2")


class Item(BaseModel):
    """What is bought."""

    name: str = Field(description="What it is called.")
    count: int = 1


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two whole numbers, exactly."""
    return a + b


@server.tool(name="shop.buy", annotations=ToolAnnotations(read_only_hint=False))
def buy(item: Item) -> dict[str, object]:
    """Buy something."""
    return {"bought": item.name, "count": item.count}


@server.tool()
def refuse(why: str) -> str:
    """Fail, whatever is asked."""
    raise ValueError(why)


@server.tool()
def leave_a_note(path: str) -> str:
    """Write a file, so that a test sees whether this ran."""
    Path(path).write_text("ran", encoding="utf-8")
    return "done"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
