"""Import what a user names: a module or a file of Python, and in it a function or a list.

Importing a module runs it: that is what its owner asks for. Nothing else is run.
"""

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from bench import secret
from bench.types import WorkbenchError

Function = Callable[..., Any]

_MODULE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::([A-Za-z_]\w*))?")
_FILE = re.compile(r"(.+\.py)(?::([A-Za-z_]\w*))?")


def split_target(target: str) -> tuple[str, str] | None:
    """Return a module's name or file and the name wanted in it (or ""); None: it is neither."""
    found = _FILE.fullmatch(target) or _MODULE.fullmatch(target)
    return None if found is None else (found[1], found[2] or "")


def is_file(place: str) -> bool:
    """Say whether a place is a Python file rather than a module's name."""
    return place.endswith(".py")


def load_module(place: str, missing: str) -> ModuleType:
    """Import a module by its name or its file; `missing` is what is said where there is none."""
    path = Path(place) if is_file(place) else None
    if path is not None and not path.is_file():
        raise WorkbenchError(missing)
    folder = Path.cwd() if path is None else path.resolve().parent
    try:
        with _first_on_path(folder):
            return importlib.import_module(place) if path is None else _run_file(path)
    except ModuleNotFoundError as problem:
        named = problem.name or ""
        if path is None and named and (place == named or place.startswith(f"{named}.")):
            raise WorkbenchError(missing) from None
        raise _fails(place, problem) from None
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a stranger's module may raise anything
        raise _fails(place, problem) from None


def _run_file(path: Path) -> ModuleType:
    """Run a file as a module under a name that no other module has."""
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"own_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101 (its name ends in .py)
    assert spec.loader is not None  # noqa: S101 (the same)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _fails(place: str, problem: BaseException) -> WorkbenchError:
    told = secret.hide((str(problem).splitlines() or [""])[0])
    kind, said = type(problem).__name__, told[:200]
    where = _where(place, problem)
    return WorkbenchError(f"{where}its import fails: {kind}: {said}; mend it, or name another")


def _where(place: str, problem: BaseException) -> str:
    """Return `FILE:LINE: ` of the user's line that failed, as far as it can be told."""
    if isinstance(problem, SyntaxError) and problem.filename:
        return f"{_shown(problem.filename)}:{problem.lineno or 1}: "
    for frame in reversed(traceback.extract_tb(problem.__traceback__)):
        if "importlib" not in frame.filename and frame.filename != __file__:
            return f"{_shown(frame.filename)}:{frame.lineno or 1}: "
    return f"{place}: "


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    """Let modules beside the user's be found, as `python -m` does.

    Afterwards the folder stays, but last: what a tool imports when it is called is found, and no
    file of the user's hides a module that we load later.
    """
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
        if entry not in sys.path and "" not in sys.path:
            sys.path.append(entry)


def list_functions(module: ModuleType) -> list[Function]:
    """Return the functions of a module's `__all__`, else the public ones that it defines itself."""
    names = getattr(module, "__all__", None)
    if isinstance(names, list | tuple):
        values = [getattr(module, name, None) for name in names if isinstance(name, str)]
        return [value for value in values if inspect.isfunction(value)]
    return [
        value
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]


def place_of(module: ModuleType, name: str, place: str) -> str:
    """Return `FILE:LINE` of a name that a module sets, as far as it can be told."""
    try:
        text = inspect.getsource(module)
    except (OSError, TypeError):
        return place
    lines = enumerate(text.split("\n"), 1)
    line = next((at for at, line in lines if re.match(rf"{name}\s*[:=]", line)), 1)
    return f"{_shown(module.__file__ or place)}:{line}"


def files_of(module: ModuleType) -> tuple[Path, ...]:
    """Return the module's file and those of the modules loaded so far from its package or folder.

    Installed packages are not followed beyond a package of the module's own.
    """
    file = _file(module)
    if file is None:
        return ()
    top = sys.modules.get(module.__name__.partition(".")[0], module)
    package = getattr(top, "__path__", None) is not None
    root = (_file(top) or file).parent if package else file.parent
    if not package and "site-packages" in file.parts:
        return (file,)
    beside = (_file(other) for other in list(sys.modules.values()))
    kept = {path for path in beside if path is not None and _is_near(path, root)}
    return tuple(sorted({file, *kept}))


_OURS = Path(__file__).resolve().parents[2]
_SKIPPED = ("site-packages", "dist-packages")


def _is_near(path: Path, root: Path) -> bool:
    if not path.is_relative_to(root):
        return False
    rest = path.relative_to(root).parts
    ours = any(path.is_relative_to(_OURS / name) for name in ("bench", "parsers", "tests"))
    return not ours and not any(name in rest for name in _SKIPPED)


def _file(module: Any) -> Path | None:
    name = getattr(module, "__file__", None)
    return Path(os.path.realpath(name)) if isinstance(name, str) and name.endswith(".py") else None
