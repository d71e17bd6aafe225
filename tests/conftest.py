"""What every test shares: no network but 127.0.0.1, and one switch for what is optional."""

import os
import shutil
import socket

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
