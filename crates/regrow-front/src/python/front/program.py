"""Finds the program of a run: what its command line names, or the function that its order calls."""

from __future__ import annotations

import _frozen_importlib_external as external
import _io
import marshal
import posix
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, NoReturn

from .ground import LINECACHE, REAL_PATH, SAFE_PATH, VERSION, decode, read_all
from .loading import fresh_main, function_by_name, import_by_name
from .order import Order, become_plain

Step = tuple[Callable[..., object], tuple[object, ...]]


class Program:
    """What a run executes: a step that the last part of the front end calls."""

    def __init__(self, order: Order, skip: int) -> None:
        self.order = order
        # The collector never looks at what was made before the stop. So the run has a module of its own, unless
        # something that was prepared holds the first one.
        if sys.getrefcount(sys.modules["__main__"]) == 2:
            sys.modules["__main__"] = fresh_main()
        self.main = vars(sys.modules["__main__"])
        # Whether the interpreter would read the program from a file, and flushes after it.
        self.is_file = False
        words = order.argv[skip:]
        first = words[0] if words else b""
        if order.call:
            self.set_arguments([decode(word) for word in words] or [""])
            # A function that takes the order's bytes; its result goes where that of `sys.exit` does.
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
        """Reads `-c CODE` or `-m MODULE`. Flags may stand before the letter, and its value right behind it."""
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
        """Reads a program from standard input. At a terminal the interpreter itself holds the conversation."""
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
        except BaseException as error:  # the interpreter raises it again, or the program does
            if start is None:
                return (_ for _ in ()).throw, (error.with_traceback(None),)
            posix.lseek(0, start, 0)
            become_plain(self.order)
        self.main["__file__"] = "<stdin>"
        self.main["__cached__"] = None
        return exec, (code, self.main)

    def of_file(self, path: bytes) -> Step:
        """Reads a script or a compiled file, or finds the `__main__` of a directory or an archive."""
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
        """Reads a file; `None` for a directory. Anything else can be read only once: the interpreter does it."""
        try:
            with _io.FileIO(path) as file:
                if posix.fstat(file.fileno()).st_mode & 0o170000 == 0o100000:
                    return file.readall()
        except IsADirectoryError:
            return None
        except OSError:
            pass
        return become_plain(self.order)

    def compiled(self, source: str | bytes, name: str) -> CodeType:
        """Compiles the program."""
        try:
            return compile(source, name, "exec", 0, True)
        except Exception:  # whatever it is, the interpreter says it
            become_plain(self.order)

    def unmarshalled(self, content: bytes) -> CodeType:
        """Reads the code of a compiled file."""
        try:
            if content[:4] == external.MAGIC_NUMBER:
                code = marshal.loads(content[16:])
                if isinstance(code, type(fresh_main.__code__)):
                    return code
        except Exception:  # whatever it is, the interpreter says it
            pass
        return become_plain(self.order)


def show_lines_of(code: CodeType, text: str) -> None:
    """Has tracebacks show the lines of `-c`, where the interpreter does so (from 3.13 on)."""
    if LINECACHE is None:
        return
    linecache: Any = sys.modules.setdefault("linecache", LINECACHE)
    # The front end's own lines are there, under the same name.
    vars(linecache).get("_interactive_cache", {}).clear()
    linecache._register_code(code if hasattr(linecache, "_interactive_cache") else "<string>", text, "<string>")


def call(name: str, data: bytes) -> NoReturn:
    """Calls a function with the order's bytes, and leaves with its result."""
    raise SystemExit(function_by_name(name)(data))


def working_directory() -> str | None:
    """Returns the path of the working directory, if it has one."""
    try:
        return posix.getcwd()
    except OSError:
        return None


def absolute(name: str) -> str:
    """Completes the path of a script as the interpreter does: without normalising it."""
    directory = None if name.startswith("/") else working_directory()
    return name if directory is None else f"{directory}/{name}"


def directory_of(path: bytes) -> str:
    """Returns the directory of a script, with links followed."""
    head, slash, _ = (REAL_PATH(path, None) or path).rpartition(b"/")
    return decode(head or slash)
