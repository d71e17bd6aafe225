"""The examples of parsers/README.md: what it quotes is what runs, and the bare loop runs here."""

import re
import sys
from pathlib import Path

import pytest

from bench.peers.__main__ import needs, run_example, run_examples
from bench.peers.workers import Peer, load_examples, load_peers

ROOT = Path(__file__).parents[2]
README = (ROOT / "parsers" / "README.md").read_text(encoding="utf-8")
EXAMPLES, READER = load_examples()
QUOTED = re.compile(r"# \[quoted from here\]\n(.*?)# \[to here\]\n", re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_page_quotes_what_runs(example):
    (quoted,) = QUOTED.findall(example.read_text(encoding="utf-8"))

    assert f"```python\n{quoted.strip()}\n```" in README
    assert f"(../{example.relative_to(ROOT).as_posix()})" in README


def test_every_example_is_listed_and_has_a_peer():
    assert set(EXAMPLES) == set((ROOT / "bench/peers/examples").glob("*.py"))
    assert set(EXAMPLES.values()) <= {peer.name for peer in load_peers()}


def test_what_our_reader_needs_is_installed_beside_an_example():
    needed = {peer.name: needs(peer) for peer in load_peers()}

    assert all(set(READER) <= set(needed[name]) for name in EXAMPLES.values())
    assert not set(READER) & set(needed["crewai"])


@pytest.fixture
def folder(tmp_path):
    """Give a folder of environments in which the peer `bare` has this Python."""
    (tmp_path / "bare" / "bin").mkdir(parents=True)
    (tmp_path / "bare" / "bin" / "python").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8"
    )
    (tmp_path / "bare" / "bin" / "python").chmod(0o755)
    return tmp_path


def test_the_bare_loop_runs(folder):
    told = []

    assert run_examples(load_peers(), folder, told.append) == 1  # the other peers are not there
    assert told[0] == "bare_loop.py: runs"
    assert set(told[1:]) == {
        f"{path.name}: not run: its peer is not installed"
        for path, name in EXAMPLES.items()
        if name != "bare"
    }


def test_an_example_that_fails_says_why(folder):
    broken = folder / "a" / "b" / "c" / "broken.py"
    broken.parent.mkdir(parents=True)
    broken.write_text("raise SystemExit('no good')\n", encoding="utf-8")

    assert run_example(broken, Peer("bare", "", ()), folder) == "failed: no good"
