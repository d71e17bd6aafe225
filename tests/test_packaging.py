"""The wheel: what it holds, and that it runs outside the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*words, cwd, **environment):
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run("hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return a folder that holds nothing but the installed wheel."""
    folder = tmp_path_factory.mktemp("site")
    run("pip", "install", "-q", "--no-deps", "--target", str(folder), str(wheel), cwd=folder)
    return folder


def test_a_wheel_holds_two_packages_and_the_data(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"bench", "parsers"}
    assert "bench/_datasets/tasks/single.jsonl" in names
    assert "bench/prompts/zh.toml" in names
    assert any(name.startswith("bench/_datasets/recordings/") for name in names)
    assert "bench/py.typed" in names
    assert not [name for name in names if "__pycache__" in name]


def test_an_installed_wheel_compares_outside_the_checkout(installed, tmp_path):
    told = run("bench", "--limit", "2", cwd=tmp_path, PYTHONPATH=str(installed))

    (report,) = (tmp_path / "results").glob("*/report.md")
    assert report.name in told
    assert "ReAct" in report.read_text(encoding="utf-8")


def test_an_installed_wheel_is_the_one_that_runs(installed, tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", "import bench, parsers; print(bench.__file__, parsers.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert told.count(str(installed)) == 2
