"""What of the package is not Python (`src/`)."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import ModuleType
from typing import Any, Optional, final

@final
class Image:
    """An interpreter, its options, and what it prepares: for calls the words of the front end after `SKIP`, for command
    lines the modules that are imported. `variables` are names of variables that it reads beside those that it is seen to
    read (`*`: all), `directory` where it may read relative paths: the caller's. `unfollowed` has the image depend on none of
    the files that it reads, for a caller who drops the image himself: `variables` are all that it reads then."""

    def __new__(
        cls,
        program: str,
        options: list[str],
        preparation: list[str],
        *,
        preload: Sequence[str] = (),
        variables: Sequence[str] = (),
        directory: Optional[str] = None,
        unfollowed: bool = False,
    ) -> Image: ...

@final
class Pool:
    """What is kept between runs. A forked copy of the process makes one of its own."""

    def __new__(
        cls,
        max_bodies: int,
        *,
        recycle: bool = True,
        single_use: bool = False,
        warm_only: bool = False,
        timed: bool = False,
        trusts_runs: bool = False,
    ) -> Pool: ...
    def prepare(self, image: Image, words: list[str], *, call: Optional[bytes] = None) -> tuple[Optional[str], str]:
        """Makes the image ahead: where it stands, or None and why its processes will be started by exec."""

    def start(
        self,
        image: Image,
        words: list[str],
        *,
        call: Optional[bytes] = None,
        environment: Optional[list[tuple[str, str]]] = None,
        directory: Optional[str] = None,
        input: Optional[bytes] = None,
        outputs: list[int] = ...,
        answer: Optional[int] = None,
        fds: list[tuple[int, int]] = ...,
        memory_limit: Optional[int] = None,
        place: Optional[str] = None,
    ) -> Process:
        """Starts a process of the image."""

    def reset_pages(self) -> Optional[tuple[int, int, int, int]]:
        """What putting the body of the last process back took, in pages: compared, copied, zeroed, given back."""

    def reset_seconds(self) -> Optional[float]:
        """How long it took to put the body of the last process back, where the pool is timed and that was recycled."""

    def clear(self) -> None:
        """Drops everything that is kept."""

    def set_user(self, number: int, name: str, loaded: str, workers: int, *, waiting: int = 0, failed: int = 0) -> None:
        """Says for whom the pool starts processes, in the list that `regrow status` and `regrow top` show."""

    def drop_user(self, number: int) -> None:
        """Takes a user off that list."""

    def unlist(self) -> None:
        """Takes the pool off that list for good."""

    def keepers(self) -> list[int]:
        """The processes that keep images and bodies."""

@final
class Process:
    """A process that was started."""

    @property
    def pid(self) -> int: ...
    @property
    def creation(self) -> str: ...
    @property
    def returncode(self) -> Optional[int]: ...
    def pidfd(self) -> int: ...
    def readable(self) -> list[int]: ...
    def writable(self) -> Optional[int]: ...
    def wait(self, timeout: Optional[float] = None, *, outputs: bool = False) -> bool: ...
    def output(self, number: int) -> bytes: ...
    def answer(self, most: Optional[int] = None) -> bytes:
        """What a process that has ended has written to the file of its answer, or as much of it."""

    def map_answer(self, address: int, size: int, offset: int) -> None:
        """Puts that part of the answer's file in the place of pages of the caller's own memory, private to the caller."""

    def close(self) -> None:
        """Closes the descriptors of a process that has ended, and drops what was read of its outputs."""

    def send_signal(self, signal: int) -> None: ...
    def kill(self) -> None: ...

def pickled_call(function: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, list[memoryview]]:
    """The pickle of a call, and its large buffers, which are not in it."""

def with_key(pickle: bytes) -> bytes:
    """The order of a call whose pickle this is."""
@final
class Call:
    """A call of an executor."""

    @property
    def creation(self) -> Optional[str]:
        """How its process was made, in words; None while it has none."""

    @property
    def returncode(self) -> Optional[int]: ...
    def answer(self, most: Optional[int] = None) -> bytes:
        """As that of its `Process`."""

    def map_answer(self, address: int, size: int, offset: int) -> None:
        """As that of its `Process`."""

@final
class Calls:
    """The calls of one executor: so many run at a time, none longer than so many seconds, each with so much memory."""

    def __new__(cls, slots: int, timeout: Optional[float] = None, memory_limit: Optional[int] = None) -> Calls: ...
    def start_from(self, pool: Pool, image: Image) -> None:
        """Has the next calls start from this image."""

    def submit(
        self,
        future: Future[Any],
        words: list[str],
        order: bytes,
        place: str,
        fds: list[tuple[int, int]] = ...,
        shared: Optional[object] = None,
    ) -> None:
        """Starts a call, or has it wait for a slot. The future is told of it."""

    def attend(self, future: Future[Any], call: Call) -> None:
        """Has the polling thread serve a call that nobody serves: somebody looks at its future."""

    def serve(self, future: Future[Any], call: Call, patience: Optional[float] = None) -> None:
        """Serves a call until its end, or for this many seconds, unless another thread does so."""

    def poll(self) -> int:
        """One round of the polling thread. Returns what is next: 0, the next round; 1, the list of pools; 2, its end."""

    def cancel(self, call: Call) -> bool:
        """Cancels a call that waits for its slot. False when it does not."""

    def kill(self, call: Call) -> None:
        """Kills the process of a call, which may be about to start."""

    def end_running(self, signal: int) -> None:
        """Sends a signal to the processes of all calls."""

    def resize(self, slots: int) -> None:
        """Has another number of calls run at a time."""

    def close(self) -> bool:
        """Takes no further calls. True when the polling thread is needed for those that there are."""

    def waiting(self) -> list[Future[Any]]:
        """The futures of calls that wait for a slot."""

    def count_waiting(self) -> int:
        """How many calls wait for a slot."""

    def is_served_here(self) -> bool:
        """Whether the caller's thread polls, or is setting a future."""

@final
class Runner:
    """The quick way through the process of a call."""

    def __new__(cls, worker: ModuleType) -> Runner: ...
    @property
    def exchange(self) -> int:
        """The address of the word that says where the exchange of a run is."""

    def __call__(
        self,
        number: int,
        skip: int,
        streams: list[object],
        flush_c: Callable[[None], object],
        leave: Callable[[], object],
    ) -> Optional[bytes]:
        """Carries out the order in the exchange or in a descriptor and ends the process. Where it does not know such an order
        it returns what it has taken of the exchange."""

    def make_immortal(self) -> int:
        """Has the interpreter count no references to what all runs have. Returns to how many objects."""

@final
class TaskRunner:
    """The quick way into the process of a Celery task; see `Runner`."""

    def __new__(cls, worker: ModuleType, child: ModuleType) -> TaskRunner: ...
    @property
    def exchange(self) -> int:
        """As that of a `Runner`."""

    def __call__(
        self,
        number: int,
        skip: int,
        streams: list[object],
        flush_c: Callable[[None], object],
        leave: Callable[[], object],
    ) -> Optional[bytes]: ...
    def make_immortal(self) -> int:
        """As that of a `Runner`."""
