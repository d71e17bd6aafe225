"""What every test shares: no network but 127.0.0.1, and one switch for what is optional."""

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest

REQUIRED = frozenset(filter(None, os.environ.get("REQUIRE", "").split(",")))
LOCAL = ("127.0.0.1", "localhost", "::1")


def need(name: str, *, present: bool, reason: str) -> None:
    """Skip where something optional is missing, fail where REQUIRE names it."""
    if present:
        return
    if name in REQUIRED:
        pytest.fail(f"REQUIRE={name}, but {reason}")
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _local_network_only(monkeypatch):
    connect = socket.socket.connect

    def guarded(self, address):
        if isinstance(address, tuple) and address[0] not in LOCAL:
            raise AssertionError(f"a test reached for the network: {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True)
def _no_keys_of_the_machine(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("LLM_", "OPENAI_")):
            monkeypatch.delenv(name)


@pytest.fixture
def chromium():
    """Return the path of a headless browser."""
    path = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    need("chromium", present=path is not None, reason="no chromium is installed")
    return path


@pytest.fixture
def inspect_ai():
    """Return the folder of the peers' environments, where inspect_ai is in its own."""
    from bench.peers.workers import default_environments, find_python
    from bench.perf.harness import load_peer, parser_of

    folder = default_environments()
    there = find_python(parser_of(load_peer()), folder).exists()
    reason = "inspect_ai is not installed; python -m bench.perf inspect installs it"
    need("inspect_ai", present=there, reason=reason)
    return folder


@pytest.fixture
def browser(chromium, tmp_path):
    """Give a page of a headless browser, driven by its DevTools."""
    found = Browser(chromium, tmp_path / "browser")
    yield found
    found.close()


class Browser:
    """One page: it goes to files, runs scripts, presses keys, and keeps what went wrong."""

    def __init__(self, chromium, folder):
        import websocket

        self.folder, self.errors, self._number = folder, [], 0
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        words += ["--disable-background-networking", "--remote-debugging-port=0"]
        words += [f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen([chromium, *words], stderr=subprocess.DEVNULL)
        try:
            self.socket = websocket.create_connection(
                self._address(), timeout=180, suppress_origin=True
            )
            for domain in ("Page", "Runtime", "Log"):
                self.ask(f"{domain}.enable")
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def _address(self):
        file, end = self.folder / "DevToolsActivePort", time.monotonic() + 180
        while not (file.exists() and "\n" in file.read_text()):
            assert self.process.poll() is None, "the browser has gone"
            assert time.monotonic() < end, "the browser does not answer"
            time.sleep(0.05)
        port = file.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=180) as answer:
            pages = [one for one in json.load(answer) if one["type"] == "page"]
        return pages[0]["webSocketDebuggerUrl"]

    def _next(self):
        message = json.loads(self.socket.recv())
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(message["params"]["exceptionDetails"])
        if message.get("method") == "Log.entryAdded":
            self.errors.append(message["params"]["entry"])
        return message

    def ask(self, method, **values):
        """Send one command and wait for its answer."""
        self._number += 1
        number = self._number
        self.socket.send(json.dumps({"id": number, "method": method, "params": values}))
        while (message := self._next()).get("id") != number:
            pass
        assert "error" not in message, message
        return message["result"]

    def look(self, width=1280, height=900, colours="light", media=""):
        """Set the size of the window, the preferred colours, and print instead of screen."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": colours}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)

    def open(self, address):
        """Go to a page, and wait until its script has run."""
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=address)
        self.wait("document.documentElement?.classList.contains('ready')")

    def run(self, script):
        """Return the value of an expression."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script):
        """Wait until an expression is true."""
        end = time.monotonic() + 180
        while not self.run(f"!!({script})"):
            assert time.monotonic() < end, f"never true: {script}; {self.errors}"
            time.sleep(0.02)

    def press(self, key, code):
        """Press a key where the focus is."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            values = {"key": key, "windowsVirtualKeyCode": code, **text}
            self.ask("Input.dispatchKeyEvent", type=kind, **values)

    def shoot(self):
        """Return a picture of what is seen, PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot")["data"])

    def close(self):
        """End the browser."""
        self.socket.close()
        self.process.terminate()
        self.process.wait(timeout=180)
