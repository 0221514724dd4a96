"""Renews what two runs must not have in common: secrets, generators, pids."""

from __future__ import annotations

import gc
import posix
import sys
from collections.abc import Callable
from typing import Any


def is_quiet() -> bool:
    """Whether a process can run all hooks of a fork before it has its order."""
    # Packages whose hooks need nothing but the memory: no descriptor, no directory, no variable.
    quiet = frozenset(
        ("_thread", "asyncio", "concurrent", "logging", "multiprocessing", "random", "regrow", "threading")
    )
    last = type("Last", (), {})
    posix.register_at_fork(after_in_child=last)
    lists = [thing for thing in gc.get_referrers(last) if type(thing) is list]
    if len(lists) != 1 or lists[0].pop() is not last:
        return False
    homes = [getattr(hook, "__module__", None) or type(getattr(hook, "__self__", None)).__module__ for hook in lists[0]]
    return quiet.issuperset([home.partition(".")[0] for home in homes])


def renewals() -> list[Callable[[], object]]:
    """Lists what each run calls to have secrets and pids of its own, beside the interpreter's fork hooks."""
    loaded = sys.modules.get
    found: list[Callable[[], object]] = []
    ssl: Any = loaded("_ssl")
    if ssl is not None:
        found.append(lambda: ssl.RAND_add(posix.urandom(32), 32.0))
    numpy: Any = loaded("numpy.random.mtrand")
    if numpy is not None and numpy._rand.get_state(False)["bit_generator"] == "MT19937":
        seed, words = numpy._rand.seed, sys.modules["numpy"].frombuffer
        # Without an argument it takes ten times as long, for half as many bits.
        found.append(lambda: seed(words(posix.urandom(32), "u4")))
    threading: Any = loaded("threading")
    if threading is not None:
        found.append(threading.main_thread()._set_native_id)
    tempfile: Any = loaded("tempfile")
    if tempfile is not None:
        found.append(lambda: setattr(tempfile, "_name_sequence", None))
    processes: Any = loaded("multiprocessing.process")
    if processes is not None:
        settings, key = processes._current_process._config, processes.AuthenticationString
        found.append(lambda: settings.__setitem__("authkey", key(posix.urandom(32))))
    uuid: Any = loaded("uuid")
    if uuid is not None:
        # The last times and counters, and a node that may be a random number.
        cached = {name: None for name in vars(uuid) if name == "_node" or name.startswith("_last_timestamp")}
        found.append(lambda: vars(uuid).update(cached))
    return found
