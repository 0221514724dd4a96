"""Fresh processes of Python in microseconds, out of kept interpreters.

The names of the package are loaded when they are first used: a process that only answers a call needs none of them.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regrow import aio
    from regrow._context import Context, get_context
    from regrow._errors import BrokenProcess, RemoteError, RemoteTraceback
    from regrow._executor import Executor
    from regrow._process_pool import ProcessPoolExecutor
    from regrow._reusable import ReusableExecutor, get_reusable_executor
    from regrow._run import Completed, run

if "t" in sys.abiflags:
    raise ImportError(
        "regrow is not for free-threaded builds of CPython: its extension is built for the stable interface (abi3), which "
        f"these do not have. Use the build of CPython {sys.version_info[0]}.{sys.version_info[1]} that has the global "
        "interpreter lock"
    )

__all__ = [
    "BrokenProcess",
    "Completed",
    "Context",
    "Executor",
    "ProcessPoolExecutor",
    "RemoteError",
    "RemoteTraceback",
    "ReusableExecutor",
    "aio",
    "get_context",
    "get_reusable_executor",
    "run",
]

_HOME = {
    "BrokenProcess": "_errors",
    "Completed": "_run",
    "Context": "_context",
    "Executor": "_executor",
    "ProcessPoolExecutor": "_process_pool",
    "RemoteError": "_errors",
    "RemoteTraceback": "_errors",
    "ReusableExecutor": "_reusable",
    "get_context": "_context",
    "get_reusable_executor": "_reusable",
    "run": "_run",
}


def __getattr__(name: str) -> object:
    if name == "aio":
        return importlib.import_module("regrow.aio")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"regrow.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
