"""`python -m regrow check-preload`: what modules do when they are imported, and whether Regrow can keep them.

module ──> import in a fresh interpreter (regrow._probe) ──> time, memory, threads, descriptors, children, …
       ──> an image with it ──> kept, or why not
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import Any, NamedTuple, Optional

from regrow import _core
from regrow._errors import how_it_ended
from regrow._starter import checked_preload

_PROBE = "import sys; sys.path[:] = {path!r}; from regrow._probe import main; main({name!r}, {fd})"
#: What an image is asked for that is never run.
_CALL = b"regrow._call.worker:call\n"
_HEAD = ("module", "import", "memory", "modules", "threads", "files", "children", "CUDA", "fork hooks", "kept")


class Finding(NamedTuple):
    """What is known of one module. `import_ms` and what follows it is 0 or empty where `error` says why nothing is known."""

    module: str
    #: Why it cannot be imported.
    error: Optional[str] = None
    import_ms: float = 0.0
    #: Memory that the process has written to and has for itself, beyond that of the bare interpreter.
    memory_mib: float = 0.0
    #: How many modules it has imported.
    modules: int = 0
    #: What it has started and left running: `name` and, as `python`, whether `threading` knows the thread.
    threads: tuple[dict[str, Any], ...] = ()
    #: What it has left open.
    descriptors: tuple[str, ...] = ()
    #: The command lines of the processes that it has started and left running.
    children: tuple[str, ...] = ()
    cuda: bool = False
    #: How many functions it has registered with `os.register_at_fork`.
    fork_hooks: int = 0
    kept: bool = False
    #: Why Regrow cannot keep it.
    reason: Optional[str] = None


def run(options: Any) -> int:
    """Checks the modules of a command line; the exit status."""
    try:
        checked_preload(options.modules)
    except ValueError as error:
        print(f"python -m regrow: {error}", file=sys.stderr)
        return 2
    findings = [check(name, options.timeout) for name in options.modules]
    if options.json:
        print(json.dumps({"modules": [finding._asdict() for finding in findings]}, indent=2))
    else:
        print(shown(findings))
    return 0 if all(finding.kept for finding in findings) else 1


def check(name: str, timeout: float) -> Finding:
    """Imports a module in a fresh interpreter, and has an image made with it."""
    answer = _probed(name, timeout)
    error = answer.pop("error")
    if error is not None:
        return Finding(name, error=error)
    for key in ("threads", "descriptors", "children"):
        answer[key] = tuple(answer[key])
    kept, reason = _kept(name)
    return Finding(name, **answer, kept=kept, reason=reason)


def _probed(name: str, timeout: float) -> dict[str, Any]:
    """The answer of the probe, or an `error` alone."""
    reader, writer = os.pipe()
    with open(reader, "rb") as answer:
        try:
            code = _PROBE.format(path=_path(), name=name, fd=writer)
            # Whatever the module starts is in the session, and ends with it.
            process = subprocess.Popen(
                [sys.executable, *_options(), "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[writer],
                start_new_session=True,
            )
        finally:
            os.close(writer)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            return {"error": f"its import takes longer than {timeout:g} s"}
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        data = answer.read()
    if not data:
        return {"error": f"the process that imports it {how_it_ended(process.returncode)}"}
    found: dict[str, Any] = json.loads(data)
    raised = found["error"]
    if raised is not None:
        found["error"] = "there is no such module" if raised["is_missing"] else f"its import raises {raised['text']}"
    return found


def _kept(name: str) -> tuple[bool, Optional[str]]:
    """Whether an image with the module can be kept, and why not."""
    words = ["--preload", name]
    for directory in _path():
        words += ["--path", directory]
    image = _core.Image(sys.executable, _options(), words, preload=(name,))
    point, reason = _core.Pool(1, warm_only=True).prepare(image, ["regrow"], call=_CALL)
    if point is not None:
        return True, None
    # What is open is a finding already.
    return False, reason.rpartition(" is not recycled: ")[2].partition("; open are ")[0]


def _path() -> list[str]:
    """Where modules are looked for, as in this process."""
    return [os.path.abspath(entry) for entry in sys.path]


def _options() -> list[str]:
    options: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return options


# The table.


def shown(findings: list[Finding]) -> str:
    """What was found, for people: a table, and below it what a cell has no room for."""
    rows = [_HEAD, *(_row(finding) for finding in findings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(_aligned(cell, width, column) for column, (cell, width) in enumerate(zip(row, widths))) for row in rows]
    notes = [f"{finding.module}: {note}" for finding in findings for note in _notes(finding)]
    return "\n".join([*(line.rstrip() for line in lines), *([""] if notes else []), *notes])


def _aligned(cell: str, width: int, column: int) -> str:
    """Numbers stand to the right."""
    return cell.ljust(width) if column in (0, len(_HEAD) - 1) else cell.rjust(width)


def _row(finding: Finding) -> tuple[str, ...]:
    if finding.error is not None:
        return (finding.module, *["-"] * (len(_HEAD) - 2), "no")
    return (
        finding.module,
        f"{finding.import_ms:.0f} ms",
        f"{finding.memory_mib:.1f} MiB",
        str(finding.modules),
        str(len(finding.threads)),
        str(len(finding.descriptors)),
        str(len(finding.children)),
        "yes" if finding.cuda else "no",
        str(finding.fork_hooks),
        "yes" if finding.kept else "no",
    )


def _notes(finding: Finding) -> list[str]:
    if finding.error is not None:
        return [finding.error]
    notes = []
    if finding.threads:
        notes.append(f"it starts threads: {', '.join(sorted(thread['name'] for thread in finding.threads))}")
    if any(thread["python"] for thread in finding.threads) and finding.kept:
        notes.append("threads of Python's do not run in the processes that are made from an image")
    if finding.descriptors:
        notes.append(f"it leaves open: {', '.join(finding.descriptors)}")
    if finding.children:
        notes.append(f"it starts processes: {', '.join(finding.children)}")
    if finding.reason is not None:
        notes.append(f"Regrow cannot keep it: {finding.reason}")
    return notes
