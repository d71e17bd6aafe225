"""The notebooks: each runs as it stands, and is committed with what it shows.

`python tests/test_notebooks.py` (`make notebooks`) executes them in place and keeps the outputs.
"""

import ast
import json
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LONGEST_FUNCTION = 5
SECONDS = 600
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""The same whoever executes them: no version, no name of a kernel of one machine."""
PATHS = re.compile(
    r"(?<![\w.:/<])/(?:home|root|tmp|work|var|usr|opt|mnt|Users|private)/|\b[A-Z]:\\\\?\w|site-packages"
)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def read(path):
    return nbformat.read(path, as_version=4)


def execute(notebook, folder):
    """Run every cell in a kernel of this Python, working in notebooks/; a cell's error is raised."""
    kernel = folder / "kernels" / "workbench"
    kernel.mkdir(parents=True)
    words = [sys.executable, "-m", "ipykernel_launcher", "--log-level=ERROR"]
    words += ["-f", "{connection_file}"]
    env = {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(folder)}
    spec = {"argv": words, "display_name": "Python 3", "language": "python", "env": env}
    (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    os.environ["JUPYTER_PATH"] = str(folder)
    NotebookClient(
        notebook,
        kernel_name="workbench",
        resources={"metadata": {"path": str(FOLDER)}},
        timeout=SECONDS,
        startup_timeout=SECONDS,
        record_timing=False,
        coalesce_streams=True,
    ).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    return notebook


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell):
    """Return what a cell shows: a stream's name, or the forms of a value."""
    return [
        output.get("name") or sorted(output.get("data", ())) or output.output_type
        for output in cell.outputs
    ]


def texts(notebook):
    """Yield every text of a notebook; a picture's bytes are none."""
    for cell in notebook.cells:
        yield cell.source
        for output in cell.get("outputs", ()):
            yield output.get("text", "")
            forms = output.get("data", {})
            yield from (text for form, text in forms.items() if not form.startswith("image/"))


def functions(notebook):
    for cell in code_cells(notebook):
        tree = ast.parse(cell.source)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_is_committed(path, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", "")  # put back behind the test
    committed = read(path)
    long = {name: lines for name, lines in functions(committed) if lines > LONGEST_FUNCTION}
    assert not long, f"longer than {LONGEST_FUNCTION} lines: {long}"
    for text in texts(committed):
        found = PATHS.search(text) or CONTROL.search(text)
        assert found is None, f"a path of a machine, or a control character: {text[:300]!r}"
    fresh = execute(read(path), tmp_path)
    assert any(kinds(cell) for cell in code_cells(fresh))
    for before, after in zip(code_cells(committed), code_cells(fresh), strict=True):
        assert "stderr" not in kinds(after), after.outputs
        told = "the committed outputs are not what it shows; make notebooks"
        assert kinds(before) == kinds(after), f"{before.source[:80]!r}: {told}"


def test_there_are_notebooks():
    assert NOTEBOOKS


def _execute_in_place(paths):
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(execute(read(path), Path(folder)), path)


if __name__ == "__main__":
    _execute_in_place([Path(name) for name in sys.argv[1:]] or NOTEBOOKS)
