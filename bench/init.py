"""Write a small working example into a new folder: tools, tasks, descriptions, options.

What it holds is a start for somebody's own; its replies are written by hand, and say so.
"""

from pathlib import Path

from bench.types import WorkbenchError

_TEMPLATES = Path(__file__).parent / "templates" / "init"
FILES = ("bench.toml", "tools.py", "tasks.csv", "variants.json", "script.jsonl")
"""The files that are written, each as it stands among the templates."""


def init(folder: Path) -> list[str]:
    """Write the example into a folder that is empty or not there yet; say what to do next.

    Raises WorkbenchError where anything would be overwritten.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise WorkbenchError(f"{folder}: is there already; name a new or an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            text = (_TEMPLATES / name).read_text(encoding="utf-8")
            with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as problem:
        raise WorkbenchError(
            f"{folder}: can't be written ({problem.strerror}); name another folder"
        ) from None
    return [
        *(str(folder / name) for name in FILES),
        f"next: cd {folder}, then",
        "  python -m bench                run it offline; its replies are scripted, no model's",
        "  python -m bench tasks          check the tasks",
        "  python -m bench --model NAME   ask a model (--base-url URL; LLM_API_KEY holds the key)",
    ]
