"""Imports one module in this interpreter, and tells what that has left in the process; `regrow._preload` starts it.

The answer is a JSON object, written to a descriptor: the module may print what it likes. Nothing that is not needed is
imported ahead of the module, so that what it imports itself is counted.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Optional

#: Of the functions that are registered to be called at a fork.
_HOOKS = ("before", "after_in_child", "after_in_parent")


def main(name: str, answer_fd: int) -> None:
    """Imports a module, answers, and ends the process without a further step of the module's."""
    hooks: list[str] = []
    _count_hooks(hooks)
    before = _state()
    start = time.perf_counter()
    error: Optional[BaseException] = None
    try:
        __import__(name)
    except BaseException as raised:  # a module may raise anything, the end of the program too
        error = raised
    answer: dict[str, Any] = {"import_ms": (time.perf_counter() - start) * 1000.0}
    after = _state()
    answer["error"] = None if error is None else _described(name, error)
    answer["memory_mib"] = (after["memory_kib"] - before["memory_kib"]) / 1024.0
    answer["modules"] = len(set(sys.modules) - before["modules"])
    answer["threads"] = _thread_names(before["threads"])
    answer["descriptors"] = [text for number, text in after["descriptors"].items() if number not in before["descriptors"]]
    answer["children"] = [text for number, text in after["children"].items() if number not in before["children"]]
    answer["cuda"] = _has_cuda(answer["descriptors"])
    answer["fork_hooks"] = len(hooks)
    _write(answer, answer_fd)
    os._exit(0)


def _count_hooks(hooks: list[str]) -> None:
    """Has every function be counted that is registered to be called at a fork."""
    register = os.register_at_fork

    def counted(**functions: Any) -> None:
        register(**functions)
        hooks.extend(name for name in _HOOKS if functions.get(name) is not None)

    os.register_at_fork = counted


def _state() -> dict[str, Any]:
    return {
        "memory_kib": _private_kib(),
        "modules": set(sys.modules),
        "threads": set(os.listdir("/proc/self/task")),
        "descriptors": _descriptors(),
        "children": _children(),
    }


def _private_kib() -> int:
    """The memory that the process has written to and has for itself."""
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty:"))


def _descriptors() -> dict[str, str]:
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            # That of the listing.
            continue
        found[number] = target
    return found


def _children() -> dict[str, str]:
    """The words of the command line of each child."""
    found = {}
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/children") as file:
            for number in file.read().split():
                found[number] = _words_of(number)
    return found


def _words_of(number: str) -> str:
    """The command line of a process, which has none for a moment while it becomes another program."""
    for _ in range(100):
        with open(f"/proc/{number}/cmdline", "rb") as file:
            words = file.read().replace(b"\0", b" ").strip()
        if words:
            return os.fsdecode(words)
        time.sleep(0.01)
    with open(f"/proc/{number}/comm") as file:
        return file.read().strip()


def _thread_names(before: set[str]) -> list[dict[str, Any]]:
    """The threads that are there beside those of before: their names, and whether Python started them."""
    threading = sys.modules.get("threading")
    ours = {} if threading is None else {str(one.native_id): one.name for one in threading.enumerate()}
    found = []
    for number in sorted(set(os.listdir("/proc/self/task")) - before, key=int):
        with open(f"/proc/self/task/{number}/comm") as file:
            found.append({"name": ours.get(number, file.read().strip()), "python": number in ours})
    return found


def _has_cuda(descriptors: list[str]) -> bool:
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return True
    return any(text.startswith("/dev/nvidia") for text in descriptors)


def _described(name: str, error: BaseException) -> dict[str, Any]:
    """What the import raised, and whether that is because there is no such module."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    is_missing = missing is not None and (name == missing or name.startswith(f"{missing}."))
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return {"text": " ".join(text.split()), "is_missing": is_missing}


def _write(answer: dict[str, Any], fd: int) -> None:
    import json

    data = memoryview(json.dumps(answer).encode())
    while data:
        data = data[os.write(fd, data) :]
