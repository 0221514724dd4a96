"""The front end for Python: an interpreter that has imported modules stops itself, and every run continues from there.

The interpreter is given this file by `-c`. What a front end is told and what it tells is the page `docs/warm.md`.

    prepare: imports, setup -- report -- SIGSTOP -- renew: secrets -- gate -- order: environment, streams -- program
                               every run begins here ^                ^ and waits here for its order

Without `REGROW_WARM`, but with `REGROW_ORDER`, nothing stops: the order is there from the start, and what a stop makes
stale (secrets, environment, streams) is the process's own.

What the program must not notice:

- `sys.modules` is that of an interpreter with the same preloads: what this file alone needs is taken out again.
- `__main__` is a module of its own, without this file's names.
- A program that cannot be read or compiled, and descriptors that the interpreter does not start with, are left to the
  interpreter itself: the process executes it.
- At the end what the run has made is dropped, so that finalizers run and files are written; what was prepared stays.
  Where that is not enough (threads that go on, a stream that cannot be written to, warnings of files left open) the
  interpreter finalizes as ever, as with `REGROW_PYTHON_FINALIZE`.
"""

from __future__ import annotations

import sys

# What the line above and `-c` have imported, if it was they that did.
LINECACHE = None
if next(reversed(sys.modules)) == "__future__":
    del sys.modules["__future__"]
if next(reversed(sys.modules)) == "linecache":
    LINECACHE = sys.modules.pop("linecache")
# What a plain interpreter has imported at this point.
PLAIN_MODULES = frozenset(sys.modules)

import _ctypes
import _frozen_importlib_external as external
import _imp
import _io
import _signal  # type: ignore[import-not-found]
import _thread
import _warnings
import _weakref
import binascii
import gc
import marshal
import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType, ModuleType, TracebackType
    from typing import Any, NoReturn, Optional

    Step = tuple[Callable[..., object], tuple[object, ...]]
    Change = tuple[bytes, Optional[bytes]]
    Kind = Optional[tuple[int, int, int]]

for _name in frozenset(sys.modules) - PLAIN_MODULES:
    del sys.modules[_name]

ENCODING = sys.getfilesystemencoding()
ERRORS = sys.getfilesystemencodeerrors()
EXECUTABLE = posix.readlink("/proc/self/exe")
VERSION = sys.version_info[:2]
# Whether `sys.path` is given no entry for the program.
SAFE_PATH = bool(sys.flags.isolated or getattr(sys.flags, "safe_path", False))
# Whether warnings are shown that are hidden by default: those of an end stand in no line of a program.
SHOWS_WARNINGS = sys.flags.dev_mode or any(option[:1] != "i" for option in sys.warnoptions)
# What no run frees, so that pages stay as they are: what fills the free blocks (see `holes`), what a run has anew.
HELD: list[object] = []
# The exit status that stands for an end by SIGINT.
INTERRUPTED = -1
# What the interpreter gives a module `__main__` of its own.
BORN = {name: globals()[name] for name in ("__name__", "__package__", "__loader__", "__spec__", "__builtins__")}


def decode(text: bytes) -> str:
    """Decodes an argument, a variable or a path as the interpreter does."""
    return text.decode(ENCODING, ERRORS)


def encode(text: str) -> bytes:
    """The inverse of `decode`."""
    return text.encode(ENCODING, ERRORS)


# The C library and the interpreter's own functions. The package `ctypes` would bring modules along; its core does not.


class Address(_ctypes._SimpleCData):  # type: ignore[type-arg]
    """A pointer in memory, read as a number."""

    _type_ = "P"


class Text(_ctypes._SimpleCData):  # type: ignore[type-arg]
    """A pointer in memory to a text that ends with a NUL, read as that text."""

    _type_ = "z"


class Function(_ctypes.CFuncPtr):
    """A function in C, called with the interpreter's lock held. It has no result unless its `restype` is set."""

    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_PYTHONAPI
    _restype_ = None


ITSELF = _ctypes.dlopen(None, 2)  # type: ignore[arg-type]
BEFORE_FORK = Function(_ctypes.dlsym(ITSELF, "PyOS_BeforeFork"))
AFTER_FORK = Function(_ctypes.dlsym(ITSELF, "PyOS_AfterFork_Child"))
FLUSH_C_STREAMS = Function(_ctypes.dlsym(ITSELF, "fflush"))
REAL_PATH = Function(_ctypes.dlsym(ITSELF, "realpath"))
REAL_PATH.restype = Text
# By this the agent is called that waits for the order: the address of its function, and its argument.
GATE: Any = (Address * 2)()
C_ENVIRON = Address.from_address(_ctypes.dlsym(ITSELF, "environ"))


def texts_at(address: int | None) -> Iterator[bytes]:
    """The texts that an array of pointers in memory points to."""
    while address and (text := Text.from_address(address).value) is not None:
        yield text
        address += 8


def content_of(path: str) -> bytes:
    """Reads a whole file."""
    with _io.FileIO(path) as file:
        return file.readall()


def read_all(number: int) -> bytes:
    """Reads a descriptor to its end."""
    pieces = [posix.read(number, 16384)]
    while pieces[-1]:
        pieces.append(posix.read(number, 1 << 20))
    return b"".join(pieces) if len(pieces) > 2 else pieces[0]


def variables_of(entries: Iterable[bytes]) -> dict[bytes, bytes]:
    """What the interpreter makes of an environment: the first entry of a name counts, and one without `=` does not."""
    variables: dict[bytes, bytes] = {}
    for name, equals, value in (entry.partition(b"=") for entry in entries):
        if equals:
            variables.setdefault(name, value)
    return variables


def initial_environment() -> int | None:
    """Where the kernel has put the array of the environment; `None` where the stack is not as the kernel lays it."""
    stack = int(content_of("/proc/self/stat").rpartition(b")")[2].split()[25])
    count = content_of("/proc/self/cmdline").count(b"\0")
    return stack + 8 * (count + 2) if Address.from_address(stack).value == count else None


def changes(before: dict[bytes, bytes], after: dict[bytes, bytes]) -> list[Change]:
    """What turns one environment into another: names with their values, or with `None` where they are gone."""
    gone: list[Change] = [(name, None) for name in before if name not in after]
    return gone + [(name, value) for name, value in after.items() if before.get(name) != value]


class Environment:
    """The environment while this process prepares itself: who reads it is noted, and what modules change in it."""

    def __init__(self) -> None:
        self.names: set[str | bytes] = set()
        self.given = variables_of(content_of("/proc/self/environ").split(b"\0"))
        self.given.pop(b"REGROW_WARM", None)
        self.array = initial_environment()
        self.had_os = "os" in sys.modules
        self.put_back: Callable[[], None] = lambda: None
        if self.had_os:
            self.put_back = record_reads(sys.modules["os"], self.names)

    def finish(self) -> tuple[list[Change], list[Change]]:
        """Ends the noting; gives what each run has to change again: in the C library, and in `os.environ`."""
        self.put_back()
        if "os" in sys.modules and not self.had_os:
            self.names.add("*")
        own = changes(self.given, posix.environ)
        if C_ENVIRON.value == self.array:
            # Nothing was added, but a variable that was there may have another value.
            return changes(self.given, variables_of(texts_at(self.array))), own
        if self.array is None:
            raise RuntimeError("the C library's environment has moved, and cannot be put back")
        in_c = changes(self.given, variables_of(texts_at(C_ENVIRON.value)))
        C_ENVIRON.value = self.array
        return in_c, own


def record_reads(os: Any, names: set[str | bytes]) -> Callable[[], None]:
    """Has `os.environ` and `os.environb` note what is asked of them; gives the function that puts them back."""
    plain = type(os.environ)

    class Recorder(plain):  # type: ignore[misc,valid-type]
        """Notes the names that are read, and `*` where all are."""

        def __getitem__(self, key: str | bytes) -> object:
            names.add(key)
            return super().__getitem__(key)

        def __iter__(self) -> object:
            names.add("*")
            return super().__iter__()

        def __len__(self) -> int:
            names.add("*")
            return len(self._data)

        def __repr__(self) -> str:
            names.add("*")
            return str(super().__repr__())

    mappings = (os.environ, os.environb)
    for mapping in mappings:
        mapping.__class__ = Recorder

    def put_back() -> None:
        for mapping in mappings:
            mapping.__class__ = plain

    return put_back


class Missing:
    """Stands last among the finders, and notes the modules that none of them found."""

    def __init__(self) -> None:
        self.names: list[tuple[str, list[str] | None]] = []

    def find_spec(self, name: str, path: Iterable[str] | None = None, _target: object = None) -> None:
        """Notes a module that is not there."""
        self.names.append((name, None if path is None else list(path)))


def places(directories: Iterable[str], name: str) -> Iterator[str]:
    """The paths at which a module of this name would be found in these directories."""
    ends = ["", ".py", ".pyc", *_imp.extension_suffixes()]
    for directory in directories:
        yield from [f"{directory}/{name}{end}" for end in ends] if posix.access(directory, posix.F_OK) else [directory]


def shadows() -> Iterator[str]:
    """The paths at which a file would be taken for a module that was imported from further behind in `sys.path`."""
    for name, module in list(sys.modules.items()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        if "." in name or not isinstance(origin, str) or "/" not in origin:
            continue
        home = origin.rsplit("/", 2 if hasattr(module, "__path__") else 1)[0]
        if home in sys.path:
            yield from places(sys.path[: sys.path.index(home)], name)


def site_files() -> Iterator[str]:
    """What `site` would read if it were there."""
    site: Any = sys.modules.get("site")
    if site is None:
        return
    for directory in [*site.getsitepackages(), *([site.USER_SITE] if site.ENABLE_USER_SITE else [])]:
        yield f"{directory}/*.pth" if posix.access(directory, posix.F_OK) else directory


def absent_paths(missing: Missing) -> set[str]:
    """The paths at which a file that appears would have changed what was imported."""
    paths = {*shadows(), *site_files()}
    for name, directories in missing.names:
        paths.update(places(sys.path if directories is None else directories, name.rpartition(".")[2]))
    return {path for path in paths if path.startswith("/") and not posix.access(path, posix.F_OK)}


def write_report(number: int, kind: str, texts: Iterable[str | bytes]) -> None:
    """Writes records of one kind."""
    values = [text if isinstance(text, bytes) else encode(text) for text in texts]
    data = b"".join(encode(kind) + (b" " + value if value else b"") + b"\0" for value in values)
    while data:
        data = data[posix.write(number, data) :]


# What two runs must not have in common.

# Packages whose hooks after a fork need nothing but the memory: no descriptor, no directory, no variable.
QUIET = frozenset(("_thread", "asyncio", "concurrent", "logging", "multiprocessing", "random", "regrow", "threading"))


def is_quiet() -> bool:
    """Whether all that is done after a fork can be done before a process has its order."""
    last = type("Last", (), {})
    posix.register_at_fork(after_in_child=last)
    lists = [thing for thing in gc.get_referrers(last) if type(thing) is list]
    if len(lists) != 1 or lists[0].pop() is not last:
        return False
    homes = [getattr(hook, "__module__", None) or type(getattr(hook, "__self__", None)).__module__ for hook in lists[0]]
    return QUIET.issuperset([home.partition(".")[0] for home in homes])


def renewals() -> list[Callable[[], object]]:
    """What each run calls to have secrets and pids of its own, beside what the interpreter's fork hooks do."""
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
        # The last times and counters, and a node that may have been drawn by lot.
        cached = {name: None for name in vars(uuid) if name == "_node" or name.startswith("_last_timestamp")}
        found.append(lambda: vars(uuid).update(cached))
    return found


# The standard streams.


class Stream:
    """One of `sys.stdin`, `sys.stdout`, `sys.stderr`: each run makes it afresh, in the object that modules may hold."""

    def __init__(self, number: int, encoding: str, errors: str, unbuffered: bool) -> None:
        name = ("stdin", "stdout", "stderr")[number]
        self.number = number
        self.angled = f"<{name}>"
        self.mode = "w" if number else "r"
        original: Any = getattr(sys, f"__{name}__")
        # A module may have put an object of its own into `sys`, which stays there.
        self.names = [f"__{name}__", *([name] if getattr(sys, name) is original else [])]
        self.text: Any = _io.TextIOWrapper.__new__(_io.TextIOWrapper) if original is None else original
        self.replaced: object = None
        self.unbuffered = unbuffered
        self.buffered: Any = None if unbuffered and number else _io.BufferedWriter if number else _io.BufferedReader
        self.encoding = getattr(original, "encoding", encoding)
        self.errors = getattr(original, "errors", errors)
        # What it was opened ahead for.
        self.kind: Kind = None

    def open_ahead(self) -> None:
        """Opens it for what most runs have, nothing to read and a pipe to write to: one that has the same need not."""
        kept = posix.dup(self.number)
        ends = posix.pipe() if self.number else (posix.open("/dev/null", posix.O_RDONLY),)
        posix.dup2(ends[-1], self.number)
        self.kind, self.replaced = kind_of(self.number), self.open()
        posix.dup2(kept, self.number)
        for number in (kept, *ends):
            posix.close(number)

    def open(self) -> object:
        """Makes the stream as the interpreter does at its start, `None` for a closed descriptor; gives its buffer."""
        text = self.text
        try:
            raw: Any = _io.FileIO(self.number, self.mode + "b", False)
        except OSError as error:
            if error.errno != 9:
                raise
            text = buffer = None
        else:
            buffer = raw if self.buffered is None else self.buffered(raw, buffer_size(raw._blksize))
            raw.name = self.angled
            by_line = not self.unbuffered and (self.number == 2 or raw.isatty())
            text.__init__(buffer, self.encoding, self.errors, "\n", by_line, self.unbuffered)
            text.mode = self.mode
        for name in self.names:
            setattr(sys, name, text)
        return buffer


def kind_of(number: int) -> Kind:
    """What the interpreter looks at when it makes a stream of a descriptor; `None` for one that is closed."""
    try:
        state = posix.fstat(number)
    except OSError:
        return None
    return state.st_mode & 0o170000, state.st_rdev, state.st_blksize


def buffer_size(block: int) -> int:
    """How much the interpreter buffers, by the size of a file's blocks."""
    least = _io.DEFAULT_BUFFER_SIZE
    return max(min(block, 1 << 23), least) if VERSION >= (3, 14) else block if block > 1 else least


def standard_streams() -> list[Stream]:
    """The three streams, with the encoding that the interpreter has chosen for them."""
    known = [stream for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__) if stream is not None]
    if not known:
        raise RuntimeError("the standard descriptors are all closed while the image is prepared")
    encoding = known[0].encoding
    strict = [stream.errors or "strict" for stream in (sys.__stdin__, sys.__stdout__) if stream is not None]
    errors = (*(2 * (strict[:1] or ["strict"])), "backslashreplace")
    unbuffered = bool(getattr(known[0], "write_through", False))
    return [Stream(number, encoding, errors[number], unbuffered) for number in range(3)]


def flush_streams() -> bool:
    """Flushes `sys.stdout` and `sys.stderr`; says whether all could be written."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except BaseException:  # the interpreter asks no further either
            return False
    return True


class Options:
    """The arguments of the front end."""

    def __init__(self, words: Sequence[str]) -> None:
        rest = list(words)
        self.skip = int(rest.pop(0))
        given: dict[str, list[str]] = {"--preload": [], "--setup": [], "--path": [], "--module": []}
        while rest:
            word = rest.pop(0)
            if word not in given:
                raise ValueError(f"the front end does not know the option {word!r}")
            given[word].append("" if word == "--module" else rest.pop(0))
        self.preload = [name for names in given["--preload"] for name in names.split(",") if name]
        self.setup = "".join(given["--setup"][-1:])
        self.module = bool(given["--module"])
        self.paths = given["--path"]


def import_by_name(name: str) -> Any:
    """Imports a module, and gives that module, not the package that it is in."""
    __import__(name)
    return sys.modules[name]


def function_by_name(name: str) -> Callable[..., object]:
    """The function that `MODULE:FUNCTION` names."""
    module, _, path = name.partition(":")
    found = import_by_name(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def load(options: Options) -> None:
    """Imports what is to be there at the start of each run, and calls the function that sets it up."""
    if not SAFE_PATH:
        # The entry of `-c`, which is this file and not the run's program.
        del sys.path[0]
    sys.path[:0] = options.paths
    sys.modules["__main__"] = fresh_main()
    for name in ["runpy"] * options.module + options.preload:
        __import__(name)
    if options.setup:
        module, function, *data = options.setup.split(":", 2)
        argument = binascii.a2b_base64(data[0]) if data else b""
        function_by_name(f"{module}:{function}")(argument)


def fresh_main() -> ModuleType:
    """A module `__main__` as the interpreter has it before it runs a program."""
    main = type(sys)("__main__")
    names = vars(main)
    names.update(BORN)
    if VERSION < (3, 14):
        names["__annotations__"] = {}
    names["__builtins__"] = names.pop("__builtins__")
    return main


class Prepared:
    """What the runs need that can be had before the stop."""

    def __init__(self, in_c: list[Change], own: list[Change]) -> None:
        self.in_c = in_c
        self.own = own
        self.streams = standard_streams()
        # What is called behind the stop may write to the streams, unless it is known not to.
        self.ahead = [stream for stream in self.streams if is_quiet() and kind_of(stream.number) is not None]
        self.renewals = renewals()


def prepare(options: Options, report: int) -> Prepared:
    """Imports, and reports what the image depends on. What cannot be kept ends the process."""
    environment = Environment()
    missing = Missing()
    sys.meta_path.append(missing)
    try:
        load(options)
        sys.meta_path.remove(missing)
        in_c, own = environment.finish()
        prepared = Prepared(in_c, own)
        flush_streams()
        rehearse(prepared)
    except BaseException as error:  # whatever it is, there is no image
        write_report(report, "refuse", [" ".join(f"{type(error).__name__}: {error}".split())])
        posix._exit(1)
    names = [name if isinstance(name, bytes) else encode(name) for name in environment.names]
    write_report(report, "env", sorted(name for name in names if name and b"=" not in name and b"\0" not in name))
    write_report(report, "absent", sorted(absent_paths(missing)))
    write_report(report, "gate", [str(_ctypes.addressof(GATE))] if is_quiet() else [])
    return prepared


def rehearse(prepared: Prepared) -> None:
    """Does a few times what each run begins with: its code is specialised then, and what it needs once is made."""
    entries = [name + b"=" + value for name, value in posix.environ.items()]
    text = b"regrow 1 2 %d 0\n-c\0pass\0%b\0" % (len(entries), b"\0".join(entries))
    for _ in range(20):
        number = posix.memfd_create("order", 0)
        posix.write(number, text)
        posix.lseek(number, 0, 0)
        order = Order(number)
        order.variables()
        decode(order.argv[0])
        compile(order.argv[1], "<string>", "exec", 0, True)
        for renew in prepared.renewals:
            renew()
        for stream in prepared.streams:
            # A run that replaces the buffer need not close it too.
            stream.replaced = stream.open()


def holes() -> Iterator[object]:
    """Takes the free blocks of each size, until some follow each other: what a run makes lies side by side then."""
    for size in range(512, 0, -16):
        last = in_row = 0
        for _ in range((1 << 18) // size):
            thing: object = bytes(size - 33) if size > 32 else complex(size, 1) if size > 16 else object()
            yield thing
            in_row = in_row + 1 if id(thing) == last + size else 0
            if in_row == 6:
                break
            last = id(thing)


def stop(report: int, prepared: Prepared, options: Options) -> None:
    """Stops this process; returns in every run that has its order, with all that two runs must not have in common."""
    gc.collect()
    HELD.extend((*holes(), prepared, options, *sys.argv, *getattr(sys, "orig_argv", ())))
    gc.freeze()
    for stream in prepared.ahead:
        stream.open_ahead()
    if len(posix.listdir("/proc/self/task")) > 1:
        write_report(report, "fork", [""])
        if posix.fork():
            posix._exit(0)
    itself = posix.getpid()
    BEFORE_FORK()
    posix.kill(itself, _signal.SIGSTOP)
    AFTER_FORK()
    for renew in prepared.renewals:
        renew()
    if GATE[0]:
        Function(GATE[0])(Address(GATE[1]))


class Order:
    """What a run is told."""

    def __init__(self, number: int) -> None:
        data = posix.read(number, 16384)
        if not self.take(data) and not self.take(data + read_all(number)):
            raise ValueError("the order is cut off")
        posix.close(number)

    def take(self, data: bytes) -> bool:
        """Takes an order apart, if it is whole."""
        head, _, rest = data.partition(b"\n")
        words, variables, size = map(int, head[9:].split(b" ")) if head.startswith(b"regrow 1 ") else (0, 0, -1)
        *texts, payload = rest.split(b"\0", words + variables)
        if len(texts) != words + variables or len(payload) != size:
            return False
        self.argv, self.environ = texts[:words], texts[words:]
        call, _, self.data = payload.partition(b"\n")
        self.call = decode(call)
        return True

    def variables(self) -> dict[bytes, bytes]:
        """The environment."""
        try:
            found: dict[bytes, bytes] = dict([entry.split(b"=", 1) for entry in self.environ])
        except ValueError:
            return variables_of(self.environ)
        return found if len(found) == len(self.environ) else variables_of(self.environ)


def take_environment(order: Order, prepared: Prepared) -> None:
    """Makes `os.environ` the order's, in place. The C library's is, but for what modules have changed in it."""
    variables = posix.environ
    variables.clear()
    variables.update(order.variables())
    for name, value in prepared.own:
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    for name, value in prepared.in_c:
        if value is None:
            posix.unsetenv(name)
        else:
            posix.putenv(name, value)


def become_plain(order: Order) -> NoReturn:
    """Executes the interpreter itself, which does the same run, and has its own words for what is wrong with it."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    posix.execve(EXECUTABLE, order.argv, variables_of(order.environ))


class Program:
    """What a run executes: found here, called at the end of this file."""

    def __init__(self, order: Order, skip: int) -> None:
        self.order = order
        # What was made before the stop is never looked at for garbage, so the run has a module of its own, unless one
        # that was prepared holds the first.
        if sys.getrefcount(sys.modules["__main__"]) == 2:
            sys.modules["__main__"] = fresh_main()
        self.main = vars(sys.modules["__main__"])
        # Whether the interpreter would read the program from a file, and flushes after it.
        self.is_file = False
        words = order.argv[skip:]
        first = words[0] if words else b""
        if order.call:
            self.set_arguments([decode(word) for word in words] or [""])
            # A function that is given the order's bytes; its result is what `sys.exit` would be given.
            self.step: Step = call, (order.call, order.data)
        elif first == b"-":
            self.set_arguments([decode(word) for word in words], "")
            self.step = self.of_stdin()
        elif first.startswith(b"-"):
            self.step = self.of_switch(first, words)
        else:
            self.set_arguments([decode(word) for word in words])
            self.step = self.of_file(first)

    def set_arguments(self, argv: list[str], path: str | None = None) -> None:
        """Sets `sys.argv` and its like, and the first entry of `sys.path`."""
        sys.argv[:] = argv
        if VERSION >= (3, 10):
            sys.orig_argv[:] = [decode(word) for word in self.order.argv]
        if path is not None and not SAFE_PATH:
            sys.path.insert(0, path)

    def of_switch(self, first: bytes, words: list[bytes]) -> Step:
        """`-c CODE` or `-m MODULE`; flags may stand before the letter, and the rest of the word behind it."""
        at = min(at for at in (first.find(b"c"), first.find(b"m")) if at > 0)
        is_code = first[at : at + 1] == b"c"
        text, *rest = [decode(word) for word in ([first[at + 1 :]] if first[at + 1 :] else []) + words[1:]]
        if is_code:
            self.set_arguments(["-c", *rest], "")
            sys.audit("cpython.run_command", text + "\n")
            code = self.compiled(text + "\n", "<string>")
            show_lines_of(code, text + "\n")
            return exec, (code, self.main)
        self.set_arguments(["-m", *rest], working_directory())
        sys.audit("cpython.run_module", text)
        return import_by_name("runpy")._run_module_as_main, (text, True)

    def of_stdin(self) -> Step:
        """A program that is read from standard input. At a terminal it would be a conversation."""
        if posix.isatty(0):
            become_plain(self.order)
        self.is_file = True
        sys.audit("cpython.run_stdin")
        try:
            start = posix.lseek(0, 0, 1)
        except OSError:
            start = None
        try:
            source = read_all(0)
            code = compile(source, "<stdin>", "exec", 0, True)
        except BaseException as error:  # it is raised again, by the interpreter or as the program's own
            if start is None:
                return (_ for _ in ()).throw, (error.with_traceback(None),)
            posix.lseek(0, start, 0)
            become_plain(self.order)
        self.main["__file__"] = "<stdin>"
        self.main["__cached__"] = None
        return exec, (code, self.main)

    def of_file(self, path: bytes) -> Step:
        """A script, a compiled file, or a directory or archive with a `__main__`."""
        name = absolute(decode(path))
        content = self.regular_content(path)
        may_be_archive = content is None or b"PK\5\6" in content[-65558:] or len(sys.path_hooks) != 2
        if may_be_archive and vars(external)["PathFinder"]._path_importer_cache(name) is not None:
            sys.path.insert(0, name)
            sys.audit("cpython.run_module", "__main__")
            return import_by_name("runpy")._run_module_as_main, ("__main__", False)
        if content is None:
            become_plain(self.order)
        sys.path_importer_cache.setdefault(name, None)
        if not SAFE_PATH:
            sys.path.insert(0, directory_of(path))
        sys.audit("cpython.run_file", name)
        self.is_file = True
        is_compiled = name.endswith(".pyc") or content[:2] == external.MAGIC_NUMBER[:2]
        loader = external.SourcelessFileLoader if is_compiled else external.SourceFileLoader
        self.main["__file__"] = name
        self.main["__cached__"] = None
        self.main["__loader__"] = loader("__main__", name)
        return exec, (self.unmarshalled(content) if is_compiled else self.compiled(content, name), self.main)

    def regular_content(self, path: bytes) -> bytes | None:
        """What is in the file; `None` for a directory. Anything else can be read once, by the interpreter."""
        try:
            with _io.FileIO(path) as file:
                if posix.fstat(file.fileno()).st_mode & 0o170000 == 0o100000:
                    return file.readall()
        except IsADirectoryError:
            return None
        except OSError:
            pass
        become_plain(self.order)

    def compiled(self, source: str | bytes, name: str) -> CodeType:
        """Compiles the program."""
        try:
            return compile(source, name, "exec", 0, True)
        except Exception:  # whatever it is, the interpreter says it
            become_plain(self.order)

    def unmarshalled(self, content: bytes) -> CodeType:
        """The code of a compiled file."""
        try:
            if content[:4] == external.MAGIC_NUMBER:
                code = marshal.loads(content[16:])
                if isinstance(code, type(fresh_main.__code__)):
                    return code
        except Exception:  # whatever it is, the interpreter says it
            pass
        become_plain(self.order)


def show_lines_of(code: CodeType, text: str) -> None:
    """Has tracebacks show the lines of `-c`, where the interpreter does so (from 3.13 on)."""
    if LINECACHE is None:
        return
    linecache: Any = sys.modules.setdefault("linecache", LINECACHE)
    # This file's own lines are there, under the same name.
    vars(linecache).get("_interactive_cache", {}).clear()
    linecache._register_code(code if hasattr(linecache, "_interactive_cache") else "<string>", text, "<string>")


def call(name: str, data: bytes) -> NoReturn:
    """Calls a function with the order's bytes, and leaves with its result."""
    raise SystemExit(function_by_name(name)(data))


def working_directory() -> str | None:
    """The working directory, if it has a name."""
    try:
        return posix.getcwd()
    except OSError:
        return None


def absolute(name: str) -> str:
    """The path of a script as the interpreter completes it: without tidying it up."""
    directory = None if name.startswith("/") else working_directory()
    return name if directory is None else f"{directory}/{name}"


def directory_of(path: bytes) -> str:
    """The directory that a script is in, links followed."""
    head, slash, _ = (REAL_PATH(path, None) or path).rpartition(b"/")
    return decode(head or slash)


# The end.


def own_frames_cut(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this file that it begins with."""
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    return trace


def exit_status(error: SystemExit) -> int:
    """The exit status that `SystemExit` asks for; what is no number is written to `sys.stderr`."""
    code = error.code
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF if -(1 << 63) <= (code or 0) < 1 << 63 else 0xFF
    try:
        if sys.stderr is None:
            posix.write(2, encode(f"{code}\n"))
        else:
            sys.stderr.write(f"{code}\n")
    except Exception:  # there is nobody left to tell
        pass
    return 1


def show(error: BaseException) -> None:
    """Prints an exception as the interpreter does."""
    sys.__excepthook__(type(error), error, error.__traceback__)


def judge(error: BaseException) -> int:
    """Does with an exception that has left the program what the interpreter does; gives the exit status."""
    error.__traceback__ = trace = own_frames_cut(error.__traceback__)
    if isinstance(error, SystemExit):
        return exit_status(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if VERSION >= (3, 12):
        vars(sys)["last_exc"] = error
    hook = getattr(sys, "excepthook", None)
    try:
        sys.audit("sys.excepthook", hook, type(error), error, trace)
        if hook is None:
            print("sys.excepthook is missing", file=sys.stderr)
            show(error)
        else:
            hook(type(error), error, trace)
    except SystemExit as leaving:
        return exit_status(leaving)
    except BaseException as second:  # the interpreter prints whatever it is
        second.__traceback__ = own_frames_cut(second.__traceback__)
        second.__context__ = None
        print("Error in sys.excepthook:", file=sys.stderr)
        show(second)
        print("\nOriginal exception was:", file=sys.stderr)
        show(error)
    return INTERRUPTED if type(error) is KeyboardInterrupt else 1


def ended(is_file: bool, error: BaseException | None) -> int:
    """The exit status of a program, after what the interpreter does at its end: a file's streams are flushed first."""
    if is_file:
        for stream in (sys.stderr, sys.stdout):
            try:
                stream.flush()
            except Exception:  # the interpreter asks no further either
                pass
    return 0 if error is None else judge(error)


def drop(kept: frozenset[str]) -> None:
    """Drops what the run has made, as the interpreter's end does: finalizers run, files are closed."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)
    modules = sys.modules
    names = ["__main__"]
    if len(modules) != len(kept):
        names += [name for name in modules if name not in kept]
    left = []
    for name in names:
        module = modules.pop(name, None)
        if isinstance(module, type(sys)):
            left.append(_weakref.ref(module))
        del module
    gc.collect()
    for reference in reversed(left):
        module = reference()
        if module is not None:
            clear(vars(module))
    for thing in (*gc.get_objects(), sys.__stdout__, sys.__stderr__):
        # What is held by something that was prepared is not closed, but it is written.
        if type(thing) in (_io.TextIOWrapper, _io.BufferedWriter, _io.BufferedRandom):
            try:
                thing.flush()
            except Exception:  # closed, detached, or its reader is gone
                pass


def clear(names: dict[str, Any]) -> None:
    """Clears a module that something still holds, in the interpreter's order."""
    private = [name for name in names if name[:1] == "_" and name[:2] != "__"]
    for name in private + [name for name in names if name != "__builtins__"]:
        names[name] = None


def warning_filters() -> list[object]:
    """The filters of warnings, as they are."""
    return list(getattr(sys.modules.get("warnings"), "filters", _warnings.filters))


def leave(status: int, kept: Kept) -> None:
    """Ends the process. Returns where the interpreter has to: then it finalizes, and finds what is left to do."""
    if kept.finalizes or kept.filters != warning_filters():
        return
    threading: Any = sys.modules.get("threading")
    if threading is not None:
        try:
            threading._shutdown()
        except BaseException as error:  # the interpreter prints it, and goes on
            print(f"Exception ignored in: {threading!r}", file=sys.stderr)
            error.__traceback__ = own_frames_cut(error.__traceback__)
            show(error)
        del threading
    if _thread._count():
        return
    if "atexit" in sys.modules:
        try:
            sys.modules["atexit"]._run_exitfuncs()
        except BaseException:  # each was printed
            pass
    if not flush_streams():
        return
    drop(kept.modules)
    if not flush_streams():
        return
    FLUSH_C_STREAMS(None)
    if status == INTERRUPTED:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        posix.kill(posix.getpid(), _signal.SIGINT)
        status = 130
    posix._exit(status)


def finalize(status: int) -> NoReturn:
    """Has the interpreter end in its own way. What it writes it writes when the last has let go of a stream."""
    HELD.clear()
    if status == INTERRUPTED:
        sys.excepthook = lambda *_: None
        raise KeyboardInterrupt
    raise SystemExit(status)


def take_variable(name: bytes) -> int | None:
    """Takes one of the front end's own variables out of the environment."""
    value = posix.environ.pop(name, None)
    if value is None:
        return None
    posix.unsetenv(name)
    return int(value)


def wake(number: int, prepared: Prepared) -> Order:
    """Makes this process what the order says. The first thing that happens in a run."""
    order = Order(number)
    logging: Any = sys.modules.get("logging")
    if logging is not None:
        # When it was loaded.
        logging._startTime = time.time_ns() if isinstance(logging._startTime, int) else time.time()
    take_environment(order, prepared)
    try:
        for stream in prepared.streams:
            if stream.kind is None or stream.kind != kind_of(stream.number):
                stream.open()
    except OSError:
        become_plain(order)
    return order


class Kept:
    """What was there before the run's program, for its end."""

    def __init__(self) -> None:
        self.modules = frozenset(sys.modules)
        self.filters = warning_filters()
        self.finalizes = SHOWS_WARNINGS


def begin() -> tuple[Program, Kept]:
    """Prepares, stops, and wakes in a run: gives its program, and what was prepared."""
    options = Options(sys.argv[1:])
    number = take_variable(b"REGROW_ORDER")
    if number is not None:
        load(options)
        kept = Kept()
        return Program(Order(number), options.skip), kept
    number = take_variable(b"REGROW_WARM")
    if number is None:
        raise SystemExit("a front end is started by Regrow: neither REGROW_WARM nor REGROW_ORDER is set")
    prepared = prepare(options, number)
    kept = Kept()
    stop(number, prepared, options)
    return Program(wake(number, prepared), options.skip), kept


program, kept = begin()
is_file, main_names = program.is_file, program.main
kept.finalizes |= b"REGROW_PYTHON_FINALIZE" in posix.environ
try:
    program.step[0](*program.step[1])
except BaseException as error:  # all of them are the program's
    status = ended(is_file, error)
else:
    status = ended(is_file, None)
if is_file:
    main_names.pop("__file__", None)
    main_names.pop("__cached__", None)
del program, main_names
leave(status, kept)
finalize(status)
