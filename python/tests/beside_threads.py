"""A program of which eight threads hold locks while it makes many calls; `test_beside_threads.py` runs it.

    threads    the locks of OpenSSL, of the importer, of malloc and of logging, each held again and again
    calls      use the same locks, in their own processes: none of them may find one locked
    forks      of the same program: the child finds the lock of a module that a thread imports, and a lock of the program's,
               locked for ever

The last line is a JSON object: how many calls have ended, how their processes were made, and which forks hang.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import ctypes
import hashlib
import importlib
import json
import logging
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import regrow

#: How long a fork that does not hang may take, and a call, in seconds.
FORK_LIMIT = 3.0
CALL_LIMIT = 120.0

#: A lock as libraries have them, to guard a cache or a pool of connections.
STATE_LOCK = threading.Lock()

_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = [ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]

# A module of which the import takes as long as a thread holds it, and no time elsewhere.
SLOW_MODULE = "import builtins\nif hasattr(builtins, 'is_held'):\n    builtins.is_held.set()\n    builtins.may_go_on.wait()\n"


def use_openssl() -> None:
    ssl.RAND_bytes(64)
    # Long enough to be computed without the lock of the interpreter.
    hashlib.sha256(b"x" * 8192).hexdigest()
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def use_importer(module: str = "colorsys") -> None:
    sys.modules.pop(module, None)
    importlib.import_module(module)
    with contextlib.suppress(ImportError):
        importlib.import_module("this_module_is_nowhere")


def use_malloc() -> None:
    # Small and large ones: of an arena, and of a mapping of their own. ctypes calls them without the interpreter's lock.
    blocks = [_libc.malloc(size) for size in (24, 4000, 200_000, 1 << 20)]
    for block in blocks:
        _libc.free(block)


def use_logging() -> None:
    logging.getLogger("beside").warning("a line")


USES: tuple[Callable[[], None], ...] = (use_openssl, use_importer, use_malloc, use_logging)
#: What the other four threads do: no two of them take the same module out of the table of modules.
OTHERS: tuple[Callable[[], None], ...] = (use_openssl, lambda: use_importer("sched"), use_malloc, use_logging)


def log_to_nowhere() -> None:
    logger = logging.getLogger("beside")
    logger.propagate = False
    logger.addHandler(logging.FileHandler(os.devnull))


def call(number: int) -> int:
    """What each call does: it takes all of these locks."""
    log_to_nowhere()
    for use in USES:
        use()
    with STATE_LOCK:
        importlib.import_module("slow_module")
    return number


def repeat(use: Callable[[], None], end: threading.Event, counts: list[int], index: int) -> None:
    while not end.is_set():
        use()
        counts[index] += 1
        # The others have their turn.
        time.sleep(0.0002)


def hold_state_lock(end: threading.Event, held: threading.Event) -> None:
    with STATE_LOCK:
        held.set()
        end.wait()


def fork_hangs(use: Callable[[], object]) -> bool:
    """Whether a forked copy of this program does not come to the end of a function."""
    child = os.fork()
    if child == 0:
        use()
        os._exit(0)
    end = time.monotonic() + FORK_LIMIT
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main(count: int, folder: str) -> None:
    Path(folder, "slow_module.py").write_text(SLOW_MODULE)
    sys.path.insert(0, folder)
    log_to_nowhere()
    end, held = threading.Event(), threading.Event()
    counts = [0] * 8
    threads = [threading.Thread(target=repeat, args=(use, end, counts, index)) for index, use in enumerate(USES + OTHERS)]
    builtins.is_held, builtins.may_go_on = threading.Event(), end  # type: ignore[attr-defined]
    threads.append(threading.Thread(target=importlib.import_module, args=("slow_module",)))
    threads.append(threading.Thread(target=hold_state_lock, args=(end, held)))
    for thread in threads:
        thread.start()
    builtins.is_held.wait()  # type: ignore[attr-defined]
    held.wait()
    creations: collections.Counter[str] = collections.Counter()
    ended = 0
    try:
        with regrow.Executor(2, timeout=CALL_LIMIT) as executor:
            for first in range(0, count, 100):
                futures = [executor.submit(call, number) for number in range(first, min(first + 100, count))]
                ended += sum(future.result() == number for number, future in enumerate(futures, first))
                creations.update(str(future.creation).rpartition(" at ")[2] for future in futures)
        hangs = {
            "nothing": fork_hangs(lambda: None),
            "import": fork_hangs(lambda: importlib.import_module("slow_module")),
            "lock": fork_hangs(STATE_LOCK.acquire),
        }
    finally:
        end.set()
        for thread in threads:
            thread.join()
    print(json.dumps({"ended": ended, "creations": creations, "hangs": hangs, "least": min(counts)}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
