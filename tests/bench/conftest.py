"""A question, two tools, both ways of asking, and an endpoint that does what it is told."""

import html
import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bench.drivers import NativeDriver, ReactDriver
from bench.report import escape_markdown
from bench.tools import toolbox_from
from bench.types import Gold, Task


def get_weather(city: str) -> dict[str, object]:
    """Tell the weather in a city.

    Args:
        city: The city's name.
    """
    if city == "Atlantis":
        return {"error": "unknown city: Atlantis"}
    return {"city": city, "celsius": 25}


def add(a: int, b: int) -> dict[str, int]:
    """Add two whole numbers.

    Args:
        a: The first.
        b: The second.
    """
    return {"sum": a + b}


@pytest.fixture
def toolbox():
    return toolbox_from([get_weather, add])


@pytest.fixture
def task():
    return make_task()


def make_task(name="t1", lang="en"):
    return Task(
        id=f"{name}-{lang}",
        pair=name,
        lang=lang,
        category="single",
        toolset="weather",
        question="How warm is it in Beijing?",
        gold=Gold(),
    )


@dataclass(frozen=True)
class React:
    """How a model that was asked for text says things."""

    driver: object = ReactDriver()

    def calls(self, *wanted):
        steps = [f"Action: {name}\nAction Input: {json.dumps(args)}" for name, args in wanted]
        return "Thought: I look.\n" + "\n".join(steps)

    def answer(self, text):
        return f"Thought: I know.\nFinal Answer: {text}"

    def unreadable(self):
        return "Thought: I look.\nAction: add\nAction Input: one and two"

    def unknown_tool(self):
        return self.calls(("get_wether", {"city": "Beijing"}))


@dataclass(frozen=True)
class Native:
    """How a model that was offered tools says things."""

    driver: object = NativeDriver()

    def calls(self, *wanted):
        return self._message([(name, json.dumps(args)) for name, args in wanted])

    def _message(self, wanted):
        entries = [
            {
                "id": f"c{n}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for n, (name, arguments) in enumerate(wanted)
        ]
        return {"role": "assistant", "content": None, "tool_calls": entries}

    def answer(self, text):
        return {"role": "assistant", "content": text}

    def unreadable(self):
        return self._message([("add", "one and two")])

    def unknown_tool(self):
        return self.calls(("get_wether", {"city": "Beijing"}))


@pytest.fixture(params=[React(), Native()], ids=["react", "native"])
def way(request):
    return request.param


# ------------------------------------------------------------ a report in Chinese

SENTENCE = re.compile(r"[A-Za-z][A-Za-z'’-]*(?: [A-Za-z'’-]+){3,}")
"""Four words in a row: names, kinds and methods are shorter."""
FENCED = re.compile(r"^(`{3,})text\n.*?\n\1$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def english_left():
    """Give what finds the English sentences that a report in Chinese holds, as Markdown.

    Passed over are fenced texts, the manifest's section, and every text in what is `quoted`: that
    of a dataset or a model, which may stand in a table.
    """

    def find(text, *quoted):
        said = FENCED.sub("", text.split("\n## 清单")[0])
        for each in sorted({escape_markdown(q) for q in texts_in(quoted)}, key=len, reverse=True):
            said = said.replace(each, "")
        return SENTENCE.findall(html.unescape(said))

    return find


def texts_in(value):
    """Yield the texts of several words in nested values, but not what the workbench says in them."""
    match value:
        case str():
            yield from [value] if " " in value else []
        case dict():
            for name, inner in value.items():
                own = name == "says" or (name == "notes" and isinstance(inner, list))
                yield from () if own else texts_in(inner)
        case list() | tuple():
            for inner in value:
                yield from texts_in(inner)


# ------------------------------------------------------------ an endpoint


Answer = Callable[["Handler"], None]


@dataclass
class Endpoint:
    """A real HTTP server on 127.0.0.1; each request takes the next answer, the last one stays."""

    answers: list[Answer] = field(default_factory=list)
    requests: list[dict] = field(default_factory=list)
    headers: list[dict] = field(default_factory=list)
    base_url: str = ""
    models: Answer = lambda _: time.sleep(1.0)
    """What GET, which asks for the models, is answered with."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_answer(self):
        with self.lock:
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        endpoint = self.server.endpoint
        endpoint.requests.append(json.loads(self.rfile.read(length)))
        endpoint.headers.append({k.lower(): v for k, v in self.headers.items()})
        with suppress(ConnectionError):
            endpoint.next_answer()(self)

    def do_GET(self):
        with suppress(ConnectionError):
            self.server.endpoint.models(self)

    def send(self, status, body, kind="application/json", **headers):
        data = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def send_open(self, body, kind="text/event-stream", pause=0.0):
        """Send without a length, to the end of the connection."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in body:
            self.wfile.write(piece)
            self.wfile.flush()
            time.sleep(pause)
        self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    """Serve on a free port for as long as a module's tests run."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.endpoint = Endpoint(base_url=f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def endpoint(server):
    """Give the server with nothing asked and nothing to answer."""
    server.endpoint = Endpoint(base_url=server.endpoint.base_url)
    return server.endpoint
