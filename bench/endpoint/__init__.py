"""The strict endpoint: a real HTTP server on this machine that refuses what real ones refuse.

For tests, notebooks and people who test their own agents. It is no model: its answers are
scripted, and say so. Needs the extra `endpoint` (Starlette and uvicorn).
"""

from bench.endpoint.script import Scripted, StreamStyle, load_script
from bench.endpoint.server import Recorded, StrictEndpoint, run_endpoint

__all__ = [
    "Recorded",
    "Scripted",
    "StreamStyle",
    "StrictEndpoint",
    "load_script",
    "run_endpoint",
]
