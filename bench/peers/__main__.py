"""Make the peers' virtual environments: one each, since their requirements clash.

Installs from the package index with each environment's own pip, and touches nothing else. Then runs
the examples of parsers/README.md, each in its peer's environment.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.peers.workers import (
    Parser,
    Peer,
    default_environments,
    find_python,
    load_examples,
    load_peers,
)
from bench.status import FOUND, MISTAKE, OK
from bench.types import WorkbenchError

EXAMPLE = 300.0
"""Seconds that an example may take, its imports included."""


def main(argv: Sequence[str] | None = None) -> int:
    """Install the named peers, or all; return 1 if one of them does not install."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PEER", help="only these (default: all)")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="where (default: .peers)")
    options = parser.parse_args(argv)
    try:
        chosen = choose(options.names)
    except WorkbenchError as error:
        sys.stderr.write(f"bench.peers: {error}\n")
        return MISTAKE
    folder = options.peers or default_environments()
    installed = install_all(chosen, folder, lambda line: _say(f"{line}\n"))
    run = run_examples(chosen, folder, lambda line: _say(f"{line}\n"))
    return max(installed, run)


def _say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def choose(names: Sequence[str]) -> tuple[Peer, ...]:
    """Return the named peers, or all."""
    known = {peer.name: peer for peer in load_peers()}
    for name in names:
        if name not in known:
            raise WorkbenchError(f"no peer is called {name}; there are: {', '.join(known)}")
    return tuple(known[name] for name in names or known)


def install_all(peers: Sequence[Peer], folder: Path, tell: Callable[[str], None]) -> int:
    """Install one after the other; a peer that doesn't install doesn't stop the rest."""
    failed = 0
    for peer in peers:
        tell(f"{peer.name}: installing {', '.join(needs(peer))}")
        problem = install(peer, folder)
        tell(f"{peer.name}: {problem or 'ready'}")
        failed += bool(problem)
    return FOUND if failed else OK


def needs(peer: Peer) -> tuple[str, ...]:
    """Return what is installed for a peer: with an example, also what our reader needs."""
    examples, reader = load_examples()
    return (*peer.requires, *(reader if peer.name in examples.values() else ()))


def install(peer: Peer, folder: Path) -> str:
    """Make a peer's environment; return "" or the last line of what went wrong."""
    python = find_python(Parser(peer.name, "", "react", "", peer), folder)
    if not python.exists():
        venv.create(folder / peer.name, with_pip=True)
    words = [
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        *needs(peer),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    lines = done.stderr.strip().splitlines() or ["pip failed and said nothing"]
    return "" if done.returncode == 0 else f"not installed: {lines[-1][:200]}"


def run_examples(peers: Sequence[Peer], folder: Path, tell: Callable[[str], None]) -> int:
    """Run the examples of some peers; one that fails doesn't stop the rest."""
    failed = 0
    for example, name in load_examples()[0].items():
        peer = next((peer for peer in peers if peer.name == name), None)
        if peer is not None:
            problem = run_example(example, peer, folder)
            tell(f"{example.name}: {problem or 'runs'}")
            failed += bool(problem)
    return FOUND if failed else OK


def run_example(example: Path, peer: Peer, folder: Path) -> str:
    """Run an example with its peer's Python; return "" or the last line of what went wrong.

    It gets no variable of the user's but where programs are: it is scripted and needs no key.
    """
    python = find_python(Parser(peer.name, "", "react", "", peer), folder)
    if not python.exists():
        return "not run: its peer is not installed"
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    with tempfile.TemporaryDirectory() as home:
        # our reader is imported from this checkout, as whoever copies an example would install it
        own = {"PYTHONPATH": str(example.parents[3]), "HOME": home, "PYTHONUTF8": "1"}
        try:
            done = subprocess.run(
                [str(python), str(example)],
                capture_output=True,
                text=True,
                check=False,
                timeout=EXAMPLE,
                cwd=home,
                env={**kept, **own},
            )
        except subprocess.TimeoutExpired:
            return f"no end within {EXAMPLE:g} s"
    lines = done.stderr.strip().splitlines() or ["it failed and said nothing"]
    return "" if done.returncode == 0 else f"failed: {lines[-1][:200]}"


if __name__ == "__main__":
    sys.exit(main())
