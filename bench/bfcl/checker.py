"""BFCL's own checker behind the runner of `bench.peers`: a line in, a verdict out.

Run as a file by a Python of its own, with `BFCL_PACKAGE` naming the wheel or folder that holds
`bfcl_eval`. Only the checker is imported: its list of models, which would import every vendor's
SDK, is replaced by the one fact that the checker asks for. Standard library only.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

MODEL = "openai"
"""A name without `_`; it stands for models whose function names have `_` instead of dots."""

Read = Callable[[dict[str, Any]], dict[str, Any]]


def _make(_: list[dict[str, Any]]) -> Read:
    models = ModuleType("bfcl_eval.constants.model_config")
    vars(models)["MODEL_CONFIG_MAPPING"] = {MODEL: SimpleNamespace(underscore_to_dot=True)}
    sys.modules[models.__name__] = models
    sys.path.insert(0, os.environ["BFCL_PACKAGE"])
    check = import_module("bfcl_eval.eval_checker.ast_eval.ast_checker").ast_checker
    python = import_module("bfcl_eval.constants.enums").Language.PYTHON

    def read(request: dict[str, Any]) -> dict[str, Any]:
        calls = [{name: arguments} for name, arguments in request["calls"]]
        category = request["category"]
        found = check(request["functions"], calls, request["truth"], python, category, MODEL)
        return {"valid": found["valid"] is True, "why": str(found.get("error_type") or "")}

    return read


READERS = {"ast": _make}
