"""Tasks of Ray in fresh processes: each node has an actor, which starts a process for every call.

    @regrow.ray.remote_fresh(preload=["pandas"])
    def function(argument): ...

    ray.get(function.remote(1))

A call is sent to the nodes in turn. Arguments that are `ObjectRef`s are values in the process, as with `ray.remote`; the result
is an object of the node that has made it.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Optional

import ray
from ray import cloudpickle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import regrow

__all__ = ["Fresh", "remote_fresh"]

#: How many calls an actor holds at a time, those included that wait for a process.
_MOST_CALLS = 1000


class _Starter:
    """The actor of a node."""

    def __init__(self, preload: Sequence[str], max_workers: Optional[int]) -> None:
        self._executor = regrow.Executor(max_workers, preload=["ray.cloudpickle", *preload])
        self._creations: Counter[Optional[str]] = Counter()

    async def call(self, function: bytes, *args: Any, **kwargs: Any) -> Any:
        """Carries out a call in a process of its own."""
        future: Any = self._executor.submit(_call, cloudpickle.dumps((function, args, kwargs)))
        try:
            return cloudpickle.loads(await asyncio.wrap_future(future))
        finally:
            self._creations[future.creation] += 1

    async def creations(self) -> dict[Optional[str], int]:
        """How often processes were made in which way."""
        return dict(self._creations)


def _call(order: bytes) -> bytes:
    """In the process: carries out a call."""
    function, args, kwargs = cloudpickle.loads(order)
    value: bytes = cloudpickle.dumps(cloudpickle.loads(function)(*args, **kwargs))
    return value


class Fresh:
    """A function whose calls run in fresh processes of the cluster; see `remote_fresh`."""

    def __init__(self, function: Callable[..., Any], preload: Sequence[str], max_workers: Optional[int]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = tuple(preload), max_workers
        self._turns = itertools.count()
        #: The actors, by their nodes.
        self._starters: dict[str, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"a function of the cluster is not called directly: use {self._function.__name__}.remote()")

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Starts a call on one of the nodes."""
        nodes = sorted(node["NodeID"] for node in ray.nodes() if node["Alive"])
        node = nodes[next(self._turns) % len(nodes)]
        return self._starter_of(node).call.remote(cloudpickle.dumps(self._function), *args, **kwargs)

    def creations(self) -> dict[Optional[str], int]:
        """How often processes were made in which way, on all nodes."""
        counts: Counter[Optional[str]] = Counter()
        for one in ray.get([starter.creations.remote() for starter in self._starters.values()]):
            counts.update(one)
        return dict(counts)

    def _starter_of(self, node: str) -> Any:
        if node not in self._starters:
            actor: Any = ray.remote(_Starter)
            where = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
            options = {"num_cpus": 0, "max_concurrency": _MOST_CALLS, "scheduling_strategy": where}
            self._starters[node] = actor.options(**options).remote(*self._options)
        return self._starters[node]


def remote_fresh(
    function: Optional[Callable[..., Any]] = None, *, preload: Sequence[str] = (), max_workers: Optional[int] = None
) -> Any:
    """A decorator: calls of the function by `.remote()` run in fresh processes of the cluster.

    `preload` names modules that every process has imported. On each node `max_workers` run at a time, by default one for
    each processor. The function and its arguments are pickled as Ray pickles them."""
    if function is None:
        return functools.partial(remote_fresh, preload=preload, max_workers=max_workers)
    return Fresh(function, preload, max_workers)
