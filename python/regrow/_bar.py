"""How far a map is: a bar in a notebook, a line on a terminal, lines now and then elsewhere.

    map ──submits by──> Submitter ──each future──> Tally <──looked at── painter, a thread ──> surface
                                                                                         widget, line, or lines

A future is counted when it is over, in whatever order results are asked for, and is then let go of. What looks at futures
leaves the threads alone that serve them: it asks without a lock, and has a call that has run for a while be attended.

The painter ends with the iterator of the map. It ends by itself when all calls are over, because nobody need ask for results.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import shutil
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, Optional, TextIO, TypeVar, Union

from regrow._call.future import Future

T = TypeVar("T")

#: What a caller may say of progress.
Progress = Union[bool, Literal["text"]]

#: How often a terminal, a notebook and a file are written to, in seconds.
_TERMINAL_PERIOD = 0.1
_NOTEBOOK_PERIOD = 0.5
_FILE_PERIOD = 10.0
#: How many cells of a line are the bar: at most, and at least where there is one.
_BAR_CELLS = 24
_LEAST_CELLS = 4


class Tally:
    """What has become of the calls of a map. One thread looks at a time."""

    def __init__(self, total: Optional[int]) -> None:
        #: How many calls there will be, where that is known.
        self.total = total
        self.done = 0
        self.recycled = 0
        self.failed = 0
        self.cancelled = 0
        self.submitted = 0
        self._start = time.monotonic()
        self._added: deque[Future[Any]] = deque()
        self._pending: list[Future[Any]] = []

    def add(self, future: Future[Any]) -> None:
        """Takes a call in. Any thread may do so, while another looks."""
        self.submitted += 1
        self._added.append(future)

    def look(self) -> None:
        """Counts the calls that are over."""
        while self._added:
            self._pending.append(self._added.popleft())
        pending = []
        for future in self._pending:
            if future.is_over():
                self._count(future)
            else:
                pending.append(future)
                if future.call is not None:
                    # It has run for a while. Whoever asks so has it attended, if nobody waits for it.
                    future.done()
        self._pending = pending

    def _count(self, future: Future[Any]) -> None:
        self.done += 1
        self.cancelled += future.was_cancelled()
        self.failed += future.has_failed()
        self.recycled += (future.creation or "").startswith("recycled")

    def is_idle(self) -> bool:
        """Whether no call is under way, as of the last look."""
        return not (self._pending or self._added)

    def words(self) -> str:
        """How fast it goes and what became of the calls, in words."""
        seconds = time.monotonic() - self._start
        rate = self.done / seconds if seconds > 0 else 0.0
        parts = [f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s", f"{self.recycled} recycled"]
        parts += [f"{count} {what}" for count, what in ((self.failed, "failed"), (self.cancelled, "cancelled")) if count]
        if self.total is None or self.done >= self.total:
            parts.append(_duration(seconds))
        elif self.done:
            parts.append(f"{_duration(seconds * (self.total - self.done) / self.done)} left")
        return ", ".join(parts)

    def line(self, what: str, columns: Optional[int] = None) -> str:
        """All of it in one line of so many columns, with a bar where the end is known and there is room."""
        count = f"{what}: {self.done}{'' if self.total is None else f'/{self.total}'}"
        words = self.words()
        # A line that is as long as the terminal is wide would be two on some.
        room = _BAR_CELLS if columns is None else min(_BAR_CELLS, columns - 1 - len(f"{count} [] {words}"))
        if self.total and room >= _LEAST_CELLS:
            filled = room * self.done // self.total
            count += f" [{'#' * filled}{'-' * (room - filled)}]"
        text = f"{count} {words}"
        return text if columns is None else text[: max(columns - 1, 0)]


def _duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}" if minutes else f"{rest} s"


class Line:
    """One line that is written again and again: on a terminal, or in the output of a cell."""

    def __init__(self, stream: TextIO, is_terminal: bool) -> None:
        self.period = _TERMINAL_PERIOD if is_terminal else _NOTEBOOK_PERIOD
        self._stream = stream
        self._is_terminal = is_terminal
        self._shown = ""

    def show(self, tally: Tally, what: str, is_last: bool) -> None:
        """Shows how far the map is."""
        text = tally.line(what, shutil.get_terminal_size().columns if self._is_terminal else None)
        if text == self._shown and not is_last:
            return
        # A notebook knows how to go back to the start of a line, and not each how to erase one.
        padded = f"\r\x1b[K{text}" if self._is_terminal else "\r" + text.ljust(len(self._shown))
        self._shown = text
        self._stream.write(padded + ("\n" if is_last else ""))
        self._stream.flush()


class Lines:
    """A line now and then, and one at the end: in a file, or for another program."""

    period = _FILE_PERIOD

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next = time.monotonic() + _FILE_PERIOD

    def show(self, tally: Tally, what: str, is_last: bool) -> None:
        """Shows how far the map is."""
        if is_last or time.monotonic() >= self._next:
            self._next = time.monotonic() + _FILE_PERIOD
            self._stream.write(tally.line(what) + "\n")
            self._stream.flush()


class Widget:
    """A bar of ipywidgets, below the cell that runs."""

    period = _NOTEBOOK_PERIOD

    def __init__(self, what: str) -> None:
        """Any exception: there is no bar here."""
        widgets = importlib.import_module("ipywidgets")
        display = importlib.import_module("IPython.display").display
        self._bar = widgets.IntProgress(value=0, min=0, max=1, description=what)
        self._words = widgets.Label(value="")
        display(widgets.HBox([self._bar, self._words]))

    def show(self, tally: Tally, what: str, is_last: bool) -> None:
        """Shows how far the map is."""
        # Where the end is not known it is what was submitted.
        self._bar.max = max(tally.submitted if tally.total is None else tally.total, 1)
        self._bar.value = tally.done
        if is_last:
            self._bar.bar_style = "danger" if tally.failed or tally.cancelled else "success"
        self._words.value = f"{tally.done}{'' if tally.total is None else f'/{tally.total}'}, {tally.words()}"


Surface = Union[Line, Lines, Widget]


def _surface(progress: Progress, what: str) -> Optional[Surface]:
    """Where to show it; None where there is nothing to write to."""
    in_notebook = _is_notebook()
    if in_notebook and progress != "text":
        # Not there, of another kind than this one knows, or without a notebook at the other end.
        with contextlib.suppress(Exception):
            return Widget(what)
    stream = sys.stderr
    if stream is None or stream.closed:
        return None
    is_terminal = stream.isatty()
    return Line(stream, is_terminal) if is_terminal or in_notebook else Lines(stream)


def _is_notebook() -> bool:
    """Whether this process is a kernel of Jupyter."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class Bar:
    """Shows a tally until the map is over."""

    def __init__(self, tally: Tally, what: str, surface: Surface) -> None:
        self._tally = tally
        self._what = what
        self._surface = surface
        self._over = threading.Event()
        #: Whether the map submits no further calls: it has submitted all, or nobody can ask for more.
        self.is_submitted = False
        self._painter = threading.Thread(target=self._paint, name="regrow-bar", daemon=True)
        self._painter.start()
        _bars.add(self)

    def end(self) -> None:
        """Shows how it ended, and returns when that is done."""
        self._over.set()
        self._painter.join()

    def end_with_interpreter(self) -> None:
        """Ends the bar when all calls are over: the interpreter waits for them anyway. Where there may be further ones, now."""
        if not self.is_submitted:
            self._over.set()
        self._painter.join()

    def submits_no_more(self) -> None:
        """The bar ends by itself, when all calls are over."""
        self.is_submitted = True

    def _paint(self) -> None:
        # What cannot be written to ends the bar, and nothing else.
        with contextlib.suppress(Exception):
            while not self._over.wait(min(self._surface.period, 1.0)):
                self._tally.look()
                if self.is_submitted and self._tally.is_idle():
                    break
                self._surface.show(self._tally, self._what, False)
            self._tally.look()
            self._surface.show(self._tally, self._what, True)


_bars: weakref.WeakSet[Bar] = weakref.WeakSet()


def _end_all() -> None:
    """At the end of the interpreter: no thread may be writing when the streams are closed."""
    for bar in list(_bars):
        bar.end_with_interpreter()


# The interpreter calls what was registered last first: bars end, and then calls are waited for.
threading._register_atexit(_end_all)  # type: ignore[attr-defined]


class Submitter(concurrent.futures.Executor):
    """Submits the calls of a map to an executor, and has them counted."""

    def __init__(self, submit: Callable[..., Future[Any]], tally: Tally) -> None:
        self._submit = submit
        self._tally = tally

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submits a call."""
        future = self._submit(fn, *args, **kwargs)
        self._tally.add(future)
        return future


def map_with_bar(
    submit: Callable[..., Future[Any]],
    progress: Progress,
    fn: Callable[..., T],
    iterables: tuple[Iterable[Any], ...],
    more: dict[str, Any],
) -> Iterator[T]:
    """As `concurrent.futures.Executor.map`, and a bar shows how far it is."""
    if progress not in (True, "text"):
        raise ValueError(f"progress is True, False or 'text', not {progress!r}")
    tally = Tally(_length(iterables))
    submitter = Submitter(submit, tally)
    what = getattr(fn, "__name__", type(fn).__name__)
    surface = _surface(progress, what)
    if surface is None:
        return submitter.map(fn, *iterables, **more)
    bar = Bar(tally, what, surface)
    try:
        results = submitter.map(fn, *iterables, **more)
    except BaseException:
        bar.end()
        raise
    if more.get("buffersize") is None:
        # It has taken all elements.
        tally.total = tally.submitted
        bar.submits_no_more()
    shown = _with_bar(results, bar, submitter)
    weakref.finalize(shown, bar.submits_no_more).atexit = False
    return shown


def _with_bar(results: Iterator[T], bar: Bar, submitter: Submitter) -> Iterator[T]:
    """The results, and the end of the bar with them. The submitter is needed as long as there are some."""
    try:
        yield from results
    finally:
        bar.end()


def _length(iterables: tuple[Iterable[Any], ...]) -> Optional[int]:
    """How many calls there will be, as far as the iterables tell; None if none of them does."""
    lengths = []
    for iterable in iterables:
        # A generator has none.
        with contextlib.suppress(Exception):
            lengths.append(len(iterable))  # type: ignore[arg-type]
    return min(lengths, default=None)
