"""Where the workbench finds its data and puts its results. Creates nothing and reads nothing."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def find_datasets() -> Path:
    """Return the folder of bundled data: of the checkout, else the one inside the wheel."""
    shipped = _PACKAGE / "_datasets"
    return shipped if shipped.is_dir() else _PACKAGE.parent / "datasets"


def is_checkout() -> bool:
    """Say whether the code runs from a checkout rather than from an installed wheel."""
    return (_PACKAGE.parent / "pyproject.toml").is_file()


def default_results() -> Path:
    """Return where run folders go unless told: `results/` of a checkout, else `./results`."""
    return _PACKAGE.parent / "results" if is_checkout() else Path("results")
