"""Renews what two runs must not have in common: secrets, generators, pids."""

from __future__ import annotations

import _ctypes
import gc
import posix
import sys
from collections.abc import Callable
from typing import Any

from .ground import ITSELF, Address, Function, Object, Text


def fork_hooks() -> list[Any] | None:
    """Finds what the interpreter calls in the child of a fork; `None` where that cannot be found."""
    last = type("Last", (), {})
    posix.register_at_fork(after_in_child=last)
    lists = [thing for thing in gc.get_referrers(last) if type(thing) is list]
    if len(lists) != 1 or lists[0].pop() is not last:
        return None
    return lists[0]


def is_quiet(hooks: list[Any] | None) -> bool:
    """Whether a process can run all hooks of a fork before it has its order."""
    # Packages whose hooks need nothing but the memory: no descriptor, no directory, no variable.
    quiet = frozenset(
        ("_thread", "asyncio", "concurrent", "logging", "multiprocessing", "random", "regrow", "threading")
    )
    if hooks is None:
        return False
    homes = [getattr(hook, "__module__", None) or type(getattr(hook, "__self__", None)).__module__ for hook in hooks]
    return quiet.issuperset([home.partition(".")[0] for home in homes])


def is_done_once(hooks: list[Any] | None) -> bool:
    """Whether the hooks of a fork find nothing to do in a process where they have run, and that has no other thread."""
    # They make locks anew, and forget threads. That of `random` is one of the renewals.
    known = frozenset(
        (
            "asyncio.events:on_fork",
            "logging:_after_at_fork_child_reinit_locks",
            "regrow._call.worker:_forget",
            "regrow._starter:_leave_to_parent",
            "threading:_after_fork",
        )
    )
    generator = getattr(sys.modules.get("random"), "_inst", None)

    def is_known(hook: Any) -> bool:
        owner = getattr(hook, "__self__", None)
        if type(owner).__module__ == "_thread":
            return bool(hook.__name__ == "_at_fork_reinit")
        if owner is not None:
            return owner is generator and bool(hook.__name__ == "seed")
        return f"{getattr(hook, '__module__', None)}:{getattr(hook, '__qualname__', None)}" in known

    return hooks is not None and all(map(is_known, hooks))


def renewals(pids: list[int]) -> list[Callable[[], object]]:
    """Lists what each run calls to have secrets and pids of its own, beside what the hooks of a fork do.

    `pids` are those of the processes that prepare.
    """
    loaded = sys.modules.get
    found: list[Callable[[], object]] = []
    ssl: Any = loaded("_ssl")
    if ssl is not None:
        found.append(renewal_of_openssl(ssl, pids))
    generator: Any = getattr(loaded("random"), "_inst", None)
    if generator is not None:
        # As many bits as those of secrets. The generator's own choice, 20,000 bits, takes ten times as long.
        found.append(lambda: generator.seed(int.from_bytes(posix.urandom(32), "little")))
    numpy: Any = loaded("numpy.random.mtrand")
    if numpy is not None and numpy._rand.get_state(False)["bit_generator"] == "MT19937":
        found.append(renewal_of_numpy(numpy._rand, sys.modules["numpy"].frombuffer))
    threading: Any = loaded("threading")
    if threading is not None:
        found.append(threading.main_thread()._set_native_id)
    processes: Any = loaded("multiprocessing.process")
    if processes is not None:
        settings, key = processes._current_process._config, processes.AuthenticationString
        found.append(lambda: settings.__setitem__("authkey", key(posix.urandom(32))))
    return found


class Character(_ctypes._SimpleCData):  # type: ignore[type-arg]
    """A byte in memory."""

    _type_ = "c"


class Words(_ctypes.Array):  # type: ignore[type-arg]
    """The 624 words that the Mersenne twister has."""

    _type_ = Character
    _length_ = 624 * 4


class Position(_ctypes._SimpleCData):  # type: ignore[type-arg]
    """How many of these have been used, behind them."""

    _type_ = "i"


def renewal_of_numpy(generator: Any, words: Any) -> Callable[[], object]:
    """Gives what has the generator of numpy's functions begin anew: new words, where they are found in memory."""
    # Half of a pair of normal deviates may be kept for the next one that is asked for.
    generator.seed(words(posix.urandom(32), "u4"))
    pointer: Any = Function(_ctypes.dlsym(ITSELF, "PyCapsule_GetPointer"))
    pointer.restype = Address
    pointer.argtypes = (Object, Text)
    # The first of what a generator tells to others is where its state lies.
    state: Any = Address.from_address(pointer(generator._bit_generator.capsule, b"BitGenerator")).value
    found: Any = Words.from_address(state)
    position = Position.from_address(state + 624 * 4)
    told = generator.get_state()
    if found.raw != told[1].astype("u4").tobytes() or position.value != told[2]:
        # Without an argument it takes ten times as long, for half as many bits.
        return lambda: generator.seed(words(posix.urandom(32), "u4"))

    def renew() -> None:
        found.raw = posix.urandom(624 * 4)
        position.value = 624

    return renew


def renewal_of_openssl(ssl: Any, pids: list[int]) -> Callable[[], object]:
    """Gives what has the generator of OpenSSL begin anew in a run.

    From 1.1.1 on it does so itself in a process with another pid than that it was last used in, which is one of
    `pids`. A run that has such a pid too (the process has ended since, or this is another namespace) adds secrets of
    its own, which takes long.
    """
    notices = ssl.OPENSSL_VERSION.startswith("OpenSSL ") and ssl.OPENSSL_VERSION_INFO[:3] >= (1, 1, 1)

    def renew() -> None:
        if not notices or posix.getpid() in pids:
            ssl.RAND_add(posix.urandom(32), 32.0)

    return renew


def forget_names() -> None:
    """Has modules forget what no two runs may have in common and what they make when they need it."""
    tempfile: Any = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = None
    uuid: Any = sys.modules.get("uuid")
    if uuid is not None:
        # The last times and counters, and a node that may be a random number.
        vars(uuid).update({name: None for name in vars(uuid) if name == "_node" or name.startswith("_last_timestamp")})
