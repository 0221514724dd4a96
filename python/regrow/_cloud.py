"""Pickles by value what pickle cannot bring into another process: lambdas, closures, functions of the main module.

That is cloudpickle's work, where it is installed or joblib has brought its copy along. While it pickles, the pickler notes
which modules functions and classes come from: an image that has imported them spares each call the import.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import io
import pickle
import sys
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Optional

from regrow._spawning import refuse_forked

#: What reduces the instances of a type, as in `copyreg.dispatch_table`.
Reducers = Mapping[type, Callable[[Any], Any]]

#: The module that an image imports to have what makes pickles.
WARM = "regrow._cloud_warm"
#: What is found in a module by its name.
_OF_MODULES = (type, FunctionType, BuiltinFunctionType, ModuleType)
_COPY = "joblib.externals.cloudpickle"


def cloudpickle_name() -> Optional[str]:
    """The module that is cloudpickle, or None where there is none."""
    if "cloudpickle" in sys.modules or _is_installed():
        return "cloudpickle"
    return _COPY if _COPY in sys.modules else None


@functools.lru_cache(maxsize=1)
def _is_installed() -> bool:
    return importlib.util.find_spec("cloudpickle") is not None


def dumps(value: Any, reducers: Optional[Reducers] = None, modules: Optional[set[str]] = None) -> bytes:
    """A pickle of a value, by cloudpickle where there is one. Names of modules that it needs are added to `modules`."""
    file = io.BytesIO()
    pickler = _pickler_class(cloudpickle_name())(file, pickle.HIGHEST_PROTOCOL)
    pickler.modules = modules
    pickler.reducers = reducers or {}
    pickler.dump(value)
    return file.getvalue()


class Dumps:
    """`dumps` with reducers, in a form that can be pickled."""

    def __init__(self, reducers: Optional[Reducers]) -> None:
        self._reducers = dict(reducers or {})

    def __call__(self, value: object) -> bytes:
        return dumps(value, self._reducers)


@functools.lru_cache(maxsize=4)
def _pickler_class(cloudpickle: Optional[str]) -> Any:
    base: Any = pickle.Pickler if cloudpickle is None else importlib.import_module(cloudpickle).Pickler
    by_value: Optional[Callable[[Any, Any], Any]] = getattr(base, "reducer_override", None)

    class Pickler(base):  # type: ignore[misc]
        """Notes modules, and asks reducers first."""

        modules: Optional[set[str]]
        reducers: Reducers

        def reducer_override(self, obj: Any) -> Any:
            reduce = self.reducers.get(type(obj))
            if reduce is not None:
                return reduce(obj)
            if self.modules is not None and isinstance(obj, _OF_MODULES):
                _note(obj, self.modules)
            refuse_forked(obj)
            return NotImplemented if by_value is None else by_value(self, obj)

    return Pickler


def _note(obj: Any, modules: set[str]) -> None:
    """Notes the module that something is found in, if another interpreter can import it by that name."""
    name = obj.__name__ if isinstance(obj, ModuleType) else obj.__module__
    spec = getattr(sys.modules.get(name), "__spec__", None) if isinstance(name, str) else None
    if spec is not None and spec.name == name and all(part.isidentifier() for part in name.split(".")):
        modules.add(name)
