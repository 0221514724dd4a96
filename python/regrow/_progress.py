"""One line for a person who waits for modules to be imported; nothing where standard error is no terminal."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

#: How long nobody minds waiting, and how often the line changes, in seconds.
PATIENCE = 0.25
PERIOD = 0.1


@contextlib.contextmanager
def progress(what: str) -> Iterator[None]:
    """Shows `what` and the seconds since, as long as the block takes."""
    stream = sys.stderr
    try:
        shown = stream is not None and stream.isatty()
    except ValueError:
        shown = False
    if not shown:
        yield
        return
    over = threading.Event()
    painter = threading.Thread(target=_paint, args=(what, over), name="regrow-progress", daemon=True)
    painter.start()
    try:
        yield
    finally:
        over.set()
        painter.join()


def _paint(what: str, over: threading.Event) -> None:
    start = time.monotonic()
    if over.wait(PATIENCE):
        return
    with contextlib.suppress(OSError, ValueError):
        while True:
            sys.stderr.write(f"\r\x1b[Kregrow: {what} … {time.monotonic() - start:.1f} s")
            sys.stderr.flush()
            if over.wait(PERIOD):
                break
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
