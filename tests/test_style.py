"""The style and the types are checked with the tests, so that one command tells all."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHECKS = {
    "ruff finds nothing": ["ruff", "check", "."],
    "ruff would format nothing": ["ruff", "format", "--check", "."],
    "the types hold, strictly": ["mypy"],
}


@pytest.mark.parametrize("words", CHECKS.values(), ids=CHECKS)
def test_style(words):
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
