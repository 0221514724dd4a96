//! The front end for Python beside plain Python: what a program prints, and how it ends, is the same byte for byte.
//!
//! The engine is emulated without recycling. The interpreter is started with the front end and stops itself, its order is
//! written to the descriptor of its report, and `SIGCONT` wakes it; or it is given the order at its start.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use regrow_front::language::CommandLine;
use regrow_front::python::Preparation;
use regrow_front::report::{self, PreparationReport};
use regrow_front::{ORDER_VARIABLE, WARM_VARIABLE, languages, order};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

const PYTHON: &str = "/usr/bin/python3";

/// The environment of all runs.
const BASE: [(&str, &str); 3] = [("HOME", "/nonexistent"), ("LANG", "C.UTF-8"), ("PATH", "/usr/bin:/bin")];

/// How a run is made.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Plain,
    /// The front end stops itself.
    Stopped,
    /// The front end has its order from the start.
    Ordered,
}

/// A run that is asked for.
#[derive(Debug, Clone, Copy)]
struct Run<'a> {
    /// The interpreter, which has a front end here.
    python: &'a str,
    /// What follows the interpreter.
    words: &'a [&'a str],
    stdin: &'a [u8],
    env: &'a [(&'a str, &'a str)],
    /// What a shell does to the descriptors.
    redirection: &'a str,
    /// Preloads, joined by commas.
    preload: &'a str,
    /// What the front end expects the standard streams to be.
    streams: &'a str,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Self { python: PYTHON, words: &[], stdin: b"", env: &[], redirection: "", preload: "", streams: "" }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    stdout: String,
    stderr: String,
    /// The exit status, or the signal as a negative number.
    status: i32,
}

/// A folder with the programs that are run.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        for (name, text) in files {
            let path = folder.0.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("its folder");
            fs::write(path, text).expect("a file");
        }
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs plain Python, for what is to be there before.
    fn python(&self, words: &[&str]) {
        let status = Command::new(PYTHON).args(words).current_dir(self.path()).status().expect("python");
        assert!(status.success(), "{words:?}");
    }

    /// Makes a run in one way. Gives the front end's report too, where there is one.
    fn run(&self, run: &Run<'_>, way: Way) -> (Outcome, PreparationReport) {
        let mut stdin = tempfile::tempfile().expect("a file");
        stdin.write_all(run.stdin).expect("its content");
        stdin.rewind().expect("its start");
        let (mut stdout, mut stderr) =
            (tempfile::tempfile().expect("a file"), tempfile::tempfile().expect("a file"));
        let mut channel = File::from(memfd_create("front", MemfdFlags::empty()).expect("a memfd"));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("exec \"$@\" {}", run.redirection), "sh", run.python]);
        command.env_clear().envs(BASE).envs(run.env.iter().copied()).current_dir(self.path());
        command
            .stdin(stdin)
            .stdout(stdout.try_clone().expect("a copy"))
            .stderr(stderr.try_clone().expect("a copy"));
        match way {
            Way::Plain => command.args(run.words),
            Way::Stopped => command.args(args(run)).env(WARM_VARIABLE, channel.as_raw_fd().to_string()),
            Way::Ordered => command.args(args(run)).env(ORDER_VARIABLE, channel.as_raw_fd().to_string()),
        };
        if way == Way::Ordered {
            self.order(run, &mut channel);
        }
        let mut child = command.spawn().expect("a process");
        let mut report = PreparationReport::default();
        if way == Way::Stopped {
            let pid = Pid::from_child(&child);
            report = stopped(pid, &mut channel, run);
            self.order(run, &mut channel);
            kill_process(pid, Signal::CONT).expect("it is stopped");
        }
        let status = child.wait().expect("its end");
        let status = status.code().unwrap_or_else(|| -status.signal().expect("a signal"));
        (Outcome { stdout: content(&mut stdout), stderr: content(&mut stderr), status }, report)
    }

    /// Writes the order of a run.
    fn order(&self, run: &Run<'_>, channel: &mut File) {
        let directory = self.path().to_str().expect("UTF-8");
        let mut env: BTreeMap<&str, &str> = BASE.into_iter().chain([("PWD", directory)]).collect();
        env.extend(run.env.iter().copied());
        let env: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let argv = std::iter::once(run.python).chain(run.words.iter().copied());
        write_order(argv, &env, b"", channel);
    }

    /// Checks that a run is the same in all ways; gives what it is.
    fn same(&self, run: &Run<'_>) -> Outcome {
        let (plain, _) = self.run(run, Way::Plain);
        for way in [Way::Stopped, Way::Ordered] {
            let (front, _) = self.run(run, way);
            assert!(front == plain, "{way:?} {run:?}\n{}", difference(&front, &plain));
        }
        plain
    }

    /// The same of each of these command lines.
    fn all_same(&self, lines: &[&[&str]]) {
        for words in lines {
            self.same(&Run { words, ..Run::default() });
        }
    }

    /// The same of each of these programs, by `-c`.
    fn all_codes_same(&self, codes: &[&str]) {
        for code in codes {
            self.same(&Run { words: &["-c", code, "one", "two"], ..Run::default() });
        }
    }
}

/// The lines that differ.
fn difference(front: &Outcome, plain: &Outcome) -> String {
    let mut text = format!("ended with {}, plain Python with {}\n", front.status, plain.status);
    for (front, plain) in [(&front.stdout, &plain.stdout), (&front.stderr, &plain.stderr)] {
        let same = front.lines().zip(plain.lines()).take_while(|(front, plain)| front == plain).count();
        text += &format!("{:#?}\n", front.lines().skip(same).take(3).collect::<Vec<_>>());
        text += &format!("plain {:#?}\n", plain.lines().skip(same).take(3).collect::<Vec<_>>());
    }
    text
}

/// The arguments that the front end is started with for a run.
fn args(run: &Run<'_>) -> Vec<String> {
    let argv: Vec<&[u8]> =
        std::iter::once(run.python).chain(run.words.iter().copied()).map(str::as_bytes).collect();
    let modules: Vec<String> =
        run.preload.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let variable =
        |name: &str| run.env.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes());
    let file_name = Path::new(run.python).file_name().expect("a name").as_bytes();
    let language = languages::of_interpreter(file_name).expect("Python");
    let line = CommandLine { argv: &argv, variable: &variable, modules, compile: false };
    let plan = (language.plan)(line).expect("a plan");
    let mut args: Vec<String> =
        plan.arguments().expect("no NUL").into_iter().map(|arg| arg.into_string().expect("UTF-8")).collect();
    if !run.streams.is_empty() {
        args.extend(["--streams", run.streams].map(str::to_owned));
    }
    args
}

/// What a front end is told of a stream that is to be this.
fn kind_of(path: &Path) -> String {
    let status = rustix::fs::stat(path).expect("it is there");
    let terminal = File::options().read(true).custom_flags(OFlags::NOCTTY.bits().cast_signed()).open(path);
    let is_terminal = status.st_rdev != 0 && terminal.is_ok_and(rustix::termios::isatty);
    format!(
        "{}:{}:{}:{}",
        status.st_mode & 0o170_000,
        status.st_rdev,
        status.st_blksize,
        i32::from(is_terminal)
    )
}

/// Waits until a front end has stopped itself; gives its report.
fn stopped(pid: Pid, channel: &mut File, run: &Run<'_>) -> PreparationReport {
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).expect("a child").expect("its state");
    let mut bytes = Vec::new();
    channel.rewind().expect("the report's start");
    channel.read_to_end(&mut bytes).expect("a report");
    assert!(status.stopped(), "{run:?}: {status:?}: {}", String::from_utf8_lossy(&bytes));
    report::parse(&bytes).expect("a report")
}

fn write_order<'a>(
    argv: impl Iterator<Item = &'a str> + Clone,
    env: &[String],
    payload: &[u8],
    channel: &mut File,
) {
    let mut bytes = Vec::new();
    order::write(argv.map(str::as_bytes), env.iter().map(String::as_bytes), payload, &mut bytes);
    channel.set_len(0).expect("an empty file");
    channel.rewind().expect("its start");
    channel.write_all(&bytes).expect("an order");
    channel.rewind().expect("its start");
}

fn content(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().expect("its start");
    file.read_to_end(&mut bytes).expect("its content");
    without_addresses(&String::from_utf8_lossy(&bytes))
}

/// A text without the digits of addresses, which differ in each process.
fn without_addresses(text: &str) -> String {
    let mut pieces = text.split(" at 0x");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        text + " at " + piece.trim_start_matches(|digit: char| digit.is_ascii_hexdigit())
    })
}

/// Prints what a program sees of itself.
const LOOK: &str = "
import sys, os, signal
print(sys.argv, sys.orig_argv, sys.path, sys.flags, sys._xoptions, sys.warnoptions, sys.executable, sys.prefix)
print(sorted(globals().items(), key=lambda item: item[0]) if __name__ != '__main__' else list(globals()))
print(__name__, __doc__, __package__, __spec__, globals().get('__file__'), globals().get('__cached__'))
print(type(__loader__), getattr(__loader__, 'path', None), __builtins__, __annotations__)
print(sorted(os.environ.items()), os.environ._data is os.environb._data)
for name in ('stdin', 'stdout', 'stderr'):
    stream = getattr(sys, name)
    print(stream is getattr(sys, '__' + name + '__'))
    if stream is not None:
        print(stream, stream.errors, stream.newlines, stream.line_buffering, stream.write_through, stream.buffer)
print([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)])
print(sorted(sys.modules), os.listdir('/proc/self/fd')[:3], sys.meta_path, sys.path_hooks)
";

#[test]
fn a_program_sees_the_same_of_itself() {
    let folder = Folder::new(&[
        ("look.py", LOOK),
        ("dir/__main__.py", LOOK),
        ("empty/file", ""),
        ("package/__init__.py", "print('package')"),
        ("package/__main__.py", LOOK),
        ("deep/er/look.py", LOOK),
    ]);
    folder.python(&["-m", "zipfile", "-c", "archive.zip", "dir/__main__.py"]);
    folder.python(&["-c", "import py_compile; py_compile.compile('look.py', 'look.pyc')"]);
    folder.python(&[
        "-c",
        "import zipfile; zipfile.ZipFile('a.zip', 'w').write('dir/__main__.py', '__main__.py')",
    ]);
    symlink("deep/er/look.py", folder.path().join("link.py")).expect("a link");
    folder.all_same(&[
        &["look.py"],
        &["./look.py", "a", "b c", ""],
        &["deep/../look.py"],
        &["link.py", "-i"],
        &["look.pyc", "x"],
        &["dir"],
        &["dir/", "x"],
        &["a.zip"],
        &["archive.zip"],
        &["empty"],
        &["missing.py"],
        &["-m", "look", "a"],
        &["-mpackage", "-m", "b"],
        &["-m", "package.nothing"],
        &["-m", "nothing"],
        &["-c", LOOK, "a", "-c"],
        &["-uc", LOOK],
        &["-u", "-OO", "look.py"],
        &["-W", "error", "-Wignore::UserWarning", "-X", "utf8", "-X", "dev", "look.py"],
        &["-I", "look.py"],
        &["-I", "-m", "json.tool", "--help"],
        &["-S", "-c", "import sys; print(sorted(sys.modules), sys.path, globals())"],
        &["-IS", "look.py"],
        &["-P", "look.py"],
        &["-Es", "-b", "-B", "-q", "look.py"],
    ]);
    for words in [&["-"][..], &["-", "a"], &["-u", "-"]] {
        folder.same(&Run { words, stdin: LOOK.as_bytes(), ..Run::default() });
    }
}

#[test]
fn a_program_ends_the_same() {
    let folder = Folder::new(&[]);
    folder.all_codes_same(&[
        "import sys; sys.exit()",
        "import sys; sys.exit(3)",
        "import sys; sys.exit(256 + 7)",
        "import sys; sys.exit(-1)",
        "import sys; sys.exit(1 << 70)",
        "import sys; sys.exit(True)",
        "import sys; sys.exit('why')",
        "import sys; sys.exit((1, 'a'))",
        "raise SystemExit(SystemExit(4))",
        "import os; os._exit(9)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
        "raise KeyboardInterrupt",
        "class K(KeyboardInterrupt): pass\nraise K('x')",
        "import sys\nsys.excepthook = lambda *what: print('hook', what[:2])\n1/0",
        "import sys\ndef hook(*what): raise ValueError('again')\nsys.excepthook = hook\n1/0",
        "import sys\nsys.excepthook = lambda *what: sys.exit(5)\n1/0",
        "import sys\ndel sys.excepthook\n1/0",
        "import sys\nsys.exitfunc = 1\nsys.stdout.write('no newline')",
        "import sys\nsys.stderr.write('err'); sys.stdout.write('out'); 1/0",
        "import sys; sys.stderr = None; sys.exit('lost')",
        "import sys; sys.stdout.close()",
    ]);
}

#[test]
fn an_exception_is_shown_the_same() {
    let folder = Folder::new(&[
        ("raise.py", "def f():\n    return 1/0\nprint('before')\nf()\n"),
        ("syntax.py", "print('never')\nif True\n    pass\n"),
        ("bytes.py", "print('never')\n# \u{fffd}\0\n"),
        ("package/__init__.py", ""),
        ("package/__main__.py", "import nothing_of_that_name\n"),
    ]);
    fs::write(folder.path().join("latin.py"), b"print('\xff')\n").expect("a file");
    fs::write(folder.path().join("cookie.py"), b"# coding: latin-1\nprint('\xe9')\n").expect("a file");
    fs::write(folder.path().join("bad.pyc"), b"not compiled").expect("a file");
    folder.all_codes_same(&[
        "1/0",
        "def f(n):\n  return f(n - 1) if n else 1/0\nf(5)",
        "try:\n  1/0\nexcept ZeroDivisionError:\n  raise ValueError('second')",
        "try:\n  1/0\nexcept ZeroDivisionError as error:\n  raise ValueError('second') from error",
        "raise ExceptionGroup('group', [ValueError(1), TypeError(2)])",
        "if True",
        "  print('indented')",
        "x = '\\\n",
        "import nothing_of_that_name",
        "exec('1/0')",
        "import warnings; warnings.warn('careful')",
        "assert (1, 'always')",
        "class E(Exception):\n  def __str__(self): 1/0\nraise E",
        "import traceback, sys\ntry: 1/0\nexcept ZeroDivisionError: traceback.print_exc()",
    ]);
    folder.all_same(&[
        &["raise.py"],
        &["syntax.py"],
        &["bytes.py"],
        &["latin.py"],
        &["cookie.py"],
        &["bad.pyc"],
        &["-m", "raise"],
        &["-m", "syntax"],
        &["-m", "package"],
        &["-W", "error", "-c", "import warnings; warnings.warn('careful')"],
    ]);
    for stdin in
        [&b"def f(): 1/0\nf()\n"[..], b"if True\n", b"# coding: latin-1\nprint('\xe9')\n", b"print('\xe9')\n"]
    {
        folder.same(&Run { words: &["-"], stdin, ..Run::default() });
    }
}

#[test]
fn what_is_left_at_the_end_is_done() {
    let folder = Folder::new(&[
        ("file.py", "import sys\nfile = open('written', 'w')\nfile.write('text')\n"),
        ("held.py", "import sys\nsys.held = open('written', 'w')\nsys.held.write('held')\n"),
        ("module.py", "class D:\n  def __del__(self): print('module gone')\nd = D()\n"),
    ]);
    folder.all_codes_same(&[
        "import atexit; atexit.register(print, 'last'); atexit.register(print, 'first'); print('end')",
        "import atexit; atexit.register(lambda: 1/0); print('end')",
        "import atexit; atexit.register(lambda: print(sorted(globals())))",
        "class D:\n  def __del__(self): print('gone')\nd = D()",
        "class D:\n  def __del__(self): print('gone', x)\nx = 1\nd = D()\nd.cycle = d\ndef f(): pass",
        "import module; print('end')",
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.1), print('thread'))).start()\nprint('main')",
        "import threading, time\nthreading.Thread(target=lambda: time.sleep(9), daemon=True).start()\nprint('main')",
        "import threading\ndef f(): 1/0\nthreading.Thread(target=f, name='T').start()",
        "from concurrent.futures import ThreadPoolExecutor as P\nprint(P().submit(pow, 2, 3).result())",
        "import weakref\nclass C: pass\nc = C()\nweakref.finalize(c, print, 'finalized')",
        "import tempfile; d = tempfile.TemporaryDirectory(); print('end')",
        "import subprocess; subprocess.run(['echo', 'child']); print('parent')",
        "import os\npid = os.fork()\nif pid: os.wait()\nprint('child' if pid == 0 else 'parent', flush=True)",
        "import multiprocessing as m\nif __name__ == '__main__':\n  p = m.get_context('fork').Process(target=print, args=(3,)); p.start(); p.join()",
        "import ctypes; ctypes.CDLL(None).printf(b'from C'); print(ctypes.c_int(4), ctypes.CFUNCTYPE(int))",
        "import logging; logging.warning('logged %s', 1)",
        "import asyncio\nasync def f(): await asyncio.sleep(0); print('async')\nasyncio.run(f())",
    ]);
    for (script, text) in [("file.py", "text"), ("held.py", "held")] {
        for way in [Way::Plain, Way::Stopped, Way::Ordered] {
            let _ = fs::remove_file(folder.path().join("written"));
            folder.run(&Run { words: &[script], ..Run::default() }, way);
            assert_eq!(
                fs::read_to_string(folder.path().join("written")).expect("it was written"),
                text,
                "{way:?}"
            );
        }
    }
    let left_open = "file = open('/dev/null')";
    let shown = "import warnings; warnings.simplefilter('always'); file = open('/dev/null')";
    folder.all_same(&[
        &["-W", "default", "-c", left_open],
        &["-W", "error", "-c", left_open],
        &["-W", "ignore", "-c", left_open],
        &["-X", "dev", "-c", left_open],
        &["-c", shown],
    ]);
    let code = "import atexit; atexit.register(print, 'exit')\nclass D:\n  def __del__(self): print('gone')\nd = D()\n1/0";
    for code in [code, "raise KeyboardInterrupt", "raise SystemExit(7)"] {
        folder.same(&Run { words: &["-c", code], env: &[("REGROW_PYTHON_FINALIZE", "1")], ..Run::default() });
    }
}

#[test]
fn streams_are_the_same_whatever_they_are() {
    let folder = Folder::new(&[("look.py", LOOK)]);
    let both = "import sys, os; print('out'); print('err', file=sys.stderr); os.write(1, b'raw'); sys.stdout.write('x')";
    for redirection in [">&-", "<&-", "2>&-", "<&- >&-", "2>&1", "</dev/null >/dev/null", ">/dev/full"] {
        for words in [
            &["-c", both][..],
            &["look.py"],
            &["-u", "-c", both],
            &["-c", "1/0"],
            &["-c", "print('x' * 9999)"],
        ] {
            folder.same(&Run { words, redirection, ..Run::default() });
        }
    }
    for env in [
        &[("PYTHONIOENCODING", "latin-1:replace")][..],
        &[("PYTHONUTF8", "1"), ("LC_ALL", "C")],
        &[("LC_ALL", "C")],
        &[("LC_ALL", "POSIX"), ("PYTHONCOERCECLOCALE", "0"), ("PYTHONUTF8", "0")],
        &[("LANG", "")],
        &[("PYTHONUNBUFFERED", "1")],
        &[("PYTHONSAFEPATH", "1")],
        &[("PYTHONHASHSEED", "5")],
        &[("PYTHONPATH", "/tmp:/usr")],
        &[("PYTHONDEVMODE", "1")],
        &[("PYTHONOPTIMIZE", "2"), ("PYTHONWARNINGS", "error")],
    ] {
        let code = "import sys; print('\\u20ac \\xe9'); print(hash('x') if sys.flags.hash_randomization == 0 else '')";
        for words in [&["-c", code][..], &["look.py"]] {
            folder.same(&Run { words, env, ..Run::default() });
        }
    }
    let code = "import sys; print(sys.stdin.readline(), end=''); print(sys.stdin.buffer.read())";
    folder.same(&Run { words: &["-c", code], stdin: b"one\r\ntwo\nthree", ..Run::default() });
    folder.same(&Run { words: &["-c", "print(input())"], stdin: b"line\n", ..Run::default() });
}

/// Says what the standard streams are; what `OWN` is read from, or written to, is looked at too.
const STREAMS: &str = "import os, sys
def look(stream):
    raw = getattr(stream.buffer, 'raw', stream.buffer)
    return [stream, stream.errors, stream.newlines, stream.line_buffering, stream.write_through, stream.buffer, raw, raw.mode,
        raw._blksize, raw.closefd, stream.isatty(), stream.seekable(), stream.writable(), stream.encoding, stream.fileno()]
print('out\\u20ac'); print('err', file=sys.stderr); os.write(1, b'raw\\n')
";

/// Over what most runs have, streams are made in the image.
#[test]
fn streams_that_are_made_ahead_are_the_same() {
    let folder = Folder::new(&[]);
    folder.python(&["-c", "import os; os.mkfifo('pipe')"]);
    let look = format!(
        "{STREAMS}\
        pipe = os.open('pipe', os.O_RDWR | os.O_NONBLOCK)\n\
        seen = [look(sys.stdin), look(sys.stdout), look(sys.stderr), sys.stdin.read() if OWN != 0 else '', sys.stdout.flush()]\n\
        try: seen.append(os.read(pipe, 9999))\n\
        except BlockingIOError: pass\n\
        print(seen, file=sys.stderr if OWN == 1 else sys.stdout)\n"
    );
    for (own, redirection) in [(1, "1<>pipe </dev/null"), (2, "2<>pipe </dev/null"), (0, "0<>pipe")] {
        let code = look.replace("OWN", &own.to_string());
        for words in [&["-c", code.as_str()][..], &["-u", "-c", &code]] {
            let plain = folder.same(&Run { words, redirection, ..Run::default() });
            assert_eq!(plain.status, 0, "{plain:?}");
            let written = if own == 0 { "TextIOWrapper" } else { ["out", "err"][own - 1] };
            assert!(plain.stdout.contains(written) || plain.stderr.contains(written), "{plain:?}");
        }
    }
}

/// What a terminal shows up to its last words. The kernel hands it on in pieces, also after the program has ended.
fn shown(terminal: &mut File, last: &[u8]) -> Vec<u8> {
    let mut shown = Vec::new();
    while !shown.ends_with(last) {
        let mut ready = [PollFd::new(&*terminal, PollFlags::IN)];
        let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
        let count = poll(&mut ready, Some(&limit)).expect("it is polled");
        assert_eq!(count, 1, "the rest is not shown: {}", String::from_utf8_lossy(&shown));
        let mut piece = [0; 4096];
        let length = terminal.read(&mut piece).expect("it is read");
        shown.extend_from_slice(&piece[..length]);
    }
    shown
}

/// The same where the front end is told what runs will have: a file that has content, a terminal, nothing; and where it is told wrongly.
#[test]
fn streams_that_are_expected_are_made_ahead_and_are_the_same() {
    let folder = Folder::new(&[("file", "content\n"), ("other", "")]);
    let look = format!(
        "{STREAMS}\
        print('a', end=''); print('b'); sys.stdout.flush(); print('long ' * 300); sys.stdout.flush()\n\
        at = sys.stdout.tell() if sys.stdout.seekable() else None\n\
        print([look(sys.stdin), look(sys.stdout), look(sys.stderr), at, sys.stdin.read()], file=open('seen', 'w'))\n"
    );
    let terminal = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY);
    let terminal = terminal.expect("a terminal");
    rustix::pty::unlockpt(&terminal).expect("it is unlocked");
    let name = rustix::pty::ptsname(&terminal, Vec::new()).expect("its name").into_string().expect("UTF-8");
    // Somebody has it open all the time: what is written stays there to be read.
    let _kept =
        File::options().read(true).write(true).custom_flags(OFlags::NOCTTY.bits().cast_signed()).open(&name);
    let mut terminal = File::from(terminal);
    let null = kind_of(Path::new("/dev/null"));
    for words in [&["-c", look.as_str()][..], &["-u", "-c", &look]] {
        for (path, redirection) in [
            ("file", ">>file 2>other </dev/null"),
            (name.as_str(), ">TTY 2>TTY </dev/null"),
            ("/dev/null", ">/dev/null 2>other </dev/null"),
        ] {
            let redirection = redirection.replace("TTY", path);
            let kind = kind_of(&folder.path().join(path));
            let mut seen = |way, streams: &str| {
                fs::write(folder.path().join("file"), "content\n").expect("a file");
                let run = Run { words, redirection: &redirection, streams, ..Run::default() };
                let (outcome, _) = folder.run(&run, way);
                assert_eq!(outcome.status, 0, "{outcome:?}");
                let shown = if path == name { shown(&mut terminal, b"long \r\n") } else { Vec::new() };
                let written =
                    ["file", "other", "seen"].map(|name| fs::read(folder.path().join(name)).expect("a file"));
                (outcome, shown, written.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
            };
            let plain = seen(Way::Plain, "");
            assert!(plain.2[2].contains("TextIOWrapper"), "{plain:?}");
            for streams in [
                format!("{null},{kind},{kind}"),
                format!("{kind},{null},{null}"),
                "0:0:0:0,0:0:0:0,0:0:0:0".to_owned(),
            ] {
                assert_eq!(seen(Way::Stopped, &streams), plain, "{streams} {redirection}");
            }
        }
    }
}

#[test]
fn what_is_left_in_a_stream_that_was_made_ahead_is_written() {
    let garbage = "class G:\n    def __del__(self): print('stray')\ng = G(); g.me = g; del g\n";
    let folder = Folder::new(&[("garbage.py", garbage)]);
    folder.python(&["-c", "import os; os.mkfifo('pipe')"]);
    let mut pipe = File::options();
    pipe.read(true).write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let mut pipe = pipe.open(folder.path().join("pipe")).expect("the pipe");
    let mut written = |run: &Run<'_>, way| {
        let outcome = folder.run(run, way).0;
        let mut bytes = [0; 4096];
        let length = pipe.read(&mut bytes).unwrap_or(0);
        (outcome, String::from_utf8_lossy(&bytes[..length]).into_owned())
    };
    for code in [
        "import sys; out = sys.stdout.buffer; sys.stdout = sys.stderr; out.write(b'hi\\n')",
        "import sys, io; print('text'); sys.stdout = io.StringIO(); print('lost')",
        "import sys; print('text'); sys.stdout = sys.stderr",
        "import sys; out = sys.stdout.detach(); sys.stdout = None; out.write(b'hi\\n')",
        "print('mine')",
    ] {
        let run = Run { words: &["-c", code], redirection: "1<>pipe </dev/null", ..Run::default() };
        let plain = written(&run, Way::Plain);
        assert_ne!(plain.1, "", "{code}");
        for way in [Way::Stopped, Way::Ordered] {
            assert_eq!(written(&run, way), plain, "{way:?} {code}");
        }
    }
    // What is printed while the image is made is nobody's.
    let env = [("PYTHONPATH", folder.path().to_str().expect("UTF-8"))];
    let words = ["-c", "print('mine')"];
    let run = Run {
        words: &words,
        env: &env,
        redirection: "1<>pipe </dev/null",
        preload: "garbage",
        ..Run::default()
    };
    assert_eq!(written(&run, Way::Stopped).1, "mine\n");
}

#[test]
fn a_reader_that_has_gone_is_told_of_the_same() {
    let folder = Folder::new(&[]);
    let code = "print('x' * 100)";
    for way in [Way::Plain, Way::Stopped, Way::Ordered] {
        let run = Run { words: &["-c", code], ..Run::default() };
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut channel = File::from(memfd_create("front", MemfdFlags::empty()).expect("a memfd"));
        let mut command = Command::new(PYTHON);
        command.env_clear().current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        match way {
            Way::Plain => command.args(run.words),
            Way::Stopped => command.args(args(&run)).env(WARM_VARIABLE, channel.as_raw_fd().to_string()),
            Way::Ordered => command.args(args(&run)).env(ORDER_VARIABLE, channel.as_raw_fd().to_string()),
        };
        folder.order(&run, &mut channel);
        if way == Way::Stopped {
            channel.set_len(0).expect("an empty file");
        }
        let child = command.spawn().expect("a process");
        if way == Way::Stopped {
            let pid = Pid::from_child(&child);
            stopped(pid, &mut channel, &run);
            folder.order(&run, &mut channel);
            kill_process(pid, Signal::CONT).expect("it is stopped");
        }
        let output = child.wait_with_output().expect("its end");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.contains("Exception ignored in: <_io.TextIOWrapper name='<stdout>'"),
            "{way:?} {stderr}"
        );
        assert!(stderr.ends_with("BrokenPipeError: [Errno 32] Broken pipe\n"), "{way:?} {stderr}");
        assert_eq!(output.status.code(), Some(120), "{way:?}");
    }
}

#[test]
fn there_is_a_gate_where_all_hooks_are_known() {
    let folder = Folder::new(&[
        ("plain.py", "import concurrent.futures.thread, logging, multiprocessing.pool, random, threading"),
        ("hooked.py", "import os\nos.register_at_fork(after_in_child=lambda: None)"),
        ("early.py", "import os, random, threading\nos.register_at_fork(after_in_child=os.getpid)"),
    ]);
    for (preload, has_gate) in
        [("", true), ("json", true), ("plain", true), ("hooked", false), ("early", false)]
    {
        let path = folder.path().to_str().expect("UTF-8");
        let run = Run { words: &["-c", "print(1)"], preload, env: &[("PYTHONPATH", path)], ..Run::default() };
        let (outcome, report) = folder.run(&run, Way::Stopped);
        assert_eq!(
            (outcome.stdout.as_str(), report.gate.is_some()),
            ("1\n", has_gate),
            "{preload} {outcome:?}"
        );
    }
}

/// Prepares a front end for a run and wakes it with an order of its own, with bytes if there are some.
fn woken(
    folder: &Folder,
    front: &[String],
    argv: &[&str],
    env: &[&str],
    payload: &[u8],
) -> (String, i32, PreparationReport) {
    let mut channel = File::from(memfd_create("front", MemfdFlags::empty()).expect("a memfd"));
    let mut command = Command::new(PYTHON);
    command
        .args(front)
        .env_clear()
        .env("LANG", "C.UTF-8")
        .env("GIVEN", "1")
        .env(WARM_VARIABLE, channel.as_raw_fd().to_string());
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("a process");
    let pid = Pid::from_child(&child);
    let report = stopped(pid, &mut channel, &Run::default());
    let env: Vec<String> = env.iter().map(|&entry| entry.to_owned()).collect();
    write_order(argv.iter().copied(), &env, payload, &mut channel);
    kill_process(pid, Signal::CONT).expect("it is stopped");
    let output = child.wait_with_output().expect("its end");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.code().expect("a status"), report)
}

/// The arguments of a front end that is prepared so.
fn preparation(preparation: &Preparation<'_>) -> Vec<String> {
    let args = preparation.args().expect("no NUL");
    args.into_iter().map(|arg| arg.into_string().expect("UTF-8")).collect()
}

/// A module whose import reads variables, changes some, and looks for modules that are not there.
const READER: &str = "
import os, sys
os.environ.get('READ'), 'ASKED' in os.environ, os.environb.get(b'BYTES')
os.environ['MADE'] = 'by import'
os.environ.pop('GIVEN', None)
assert 'REGROW_WARM' not in os.environ and sys.path[0] != ''
try:
    import not_there.deeper
except ImportError:
    pass
def set_up(data):
    sys.set_up = data
def called(data):
    print(data, sys.set_up, sys.argv, os.environ.copy(), sorted(os.environb))
    os.system('echo $MADE')
    return 6
class Namespace:
    def fail(data): raise ValueError(data)
";

#[test]
fn a_call_is_given_its_bytes_and_the_report_says_what_was_read() {
    let folder = Folder::new(&[("reader.py", READER)]);
    let paths = [folder.path().to_str().expect("UTF-8").as_bytes().to_vec()];
    let front = preparation(&Preparation {
        skip: 1,
        setup: Some("reader:set_up:AAEC"),
        paths: &paths,
        ..Preparation::default()
    });
    let call = |payload: &[u8]| {
        woken(
            &folder,
            &front,
            &["python3", "a", "b"],
            &["A=1", "B", "A=2", "C=x=y", "GIVEN=2", "LANG=C.UTF-8"],
            payload,
        )
    };
    let (text, status, report) = call(b"reader:called\nbytes\0\n");
    assert_eq!(
        text,
        "by import\nb'bytes\\x00\\n' b'\\x00\\x01\\x02' ['a', 'b'] {'A': '1', 'C': 'x=y', 'LANG': 'C.UTF-8', \
         'MADE': 'by import'} [b'A', b'C', b'LANG', b'MADE']\n"
    );
    assert_eq!(status, 6);
    for name in ["READ", "ASKED", "BYTES", "GIVEN"] {
        assert!(report.env.contains(&name.as_bytes().to_vec()), "{name} {:?}", report.env);
    }
    assert!(!report.all_env && !report.fork && report.refused.is_none());
    let missing = folder.path().join("not_there.py").into_os_string().into_encoded_bytes();
    assert!(report.absent.contains(&missing), "{:?}", report.absent);
    assert!(report.absent.iter().any(|path| path.ends_with(b"/*.pth")), "{:?}", report.absent);

    let (text, status, _) = call(b"reader:Namespace.fail\nwhy");
    assert_eq!(status, 1);
    let first =
        format!("Traceback (most recent call last):\n  File \"{}/reader.py\"", folder.path().display());
    assert!(text.starts_with(&first) && text.ends_with("ValueError: b'why'\n"), "{text}");
}

#[test]
fn what_cannot_be_prepared_is_refused() {
    let folder = Folder::new(&[("broken.py", "raise ValueError('a reason\\nin two lines')")]);
    let paths = [folder.path().to_str().expect("UTF-8").as_bytes().to_vec()];
    let preload = ["broken".to_owned()];
    let front =
        preparation(&Preparation { skip: 1, preload: &preload, paths: &paths, ..Preparation::default() });
    let mut channel = File::from(memfd_create("front", MemfdFlags::empty()).expect("a memfd"));
    let mut command = Command::new(PYTHON);
    command.args(front).env(WARM_VARIABLE, channel.as_raw_fd().to_string());
    assert_eq!(command.status().expect("its end").code(), Some(1));
    let mut bytes = Vec::new();
    channel.rewind().expect("the report's start");
    channel.read_to_end(&mut bytes).expect("a report");
    let report = report::parse(&bytes).expect("a report");
    assert_eq!(report.refused.as_deref(), Some("ValueError: a reason in two lines"));
}

#[test]
fn threads_end_with_a_fork() {
    let folder = Folder::new(&[(
        "threads.py",
        "import threading, time, os
threading.Thread(target=time.sleep, args=(99,), daemon=True).start()
def note(): open('pid', 'w').write(f'{os.getpid()}.')
os.register_at_fork(after_in_child=note)
",
    )]);
    let preload = ["threads".to_owned()];
    let paths = [folder.path().to_str().expect("UTF-8").as_bytes().to_vec()];
    let front =
        preparation(&Preparation { skip: 1, preload: &preload, paths: &paths, ..Preparation::default() });
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("a subreaper");
    let mut channel = File::from(memfd_create("front", MemfdFlags::empty()).expect("a memfd"));
    let mut command = Command::new(PYTHON);
    command.args(front).env(WARM_VARIABLE, channel.as_raw_fd().to_string());
    command.current_dir(folder.path()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("a process");
    assert!(child.wait().expect("its end").success());
    // The child that goes on notes its pid, which may be after its parent's end.
    let pid = loop {
        let text = fs::read_to_string(folder.path().join("pid")).unwrap_or_default();
        if let Some(pid) = text.strip_suffix('.') {
            break Pid::from_raw(pid.parse().expect("a number")).expect("a pid");
        }
        std::thread::yield_now();
    };
    let report = stopped(pid, &mut channel, &Run::default());
    assert!(report.fork);
    let code = "
import threading, os
main = threading.main_thread()
print(threading.enumerate() == [main], main.native_id == os.getpid())";
    write_order(["python3", "-c", code].into_iter(), &[], b"", &mut channel);
    kill_process(pid, Signal::CONT).expect("it is stopped");
    let (_, status) = waitpid(Some(pid), WaitOptions::empty()).expect("a child").expect("its end");
    assert_eq!(status.exit_status(), Some(0));
    let mut text = String::new();
    child.stdout.expect("a pipe").read_to_string(&mut text).expect("its output");
    assert_eq!(text, "True True\n");
}

/// What a run must not have in common with another one, in one line.
const SECRETS: &str = "
import os, random, uuid, secrets, tempfile, logging, multiprocessing.process as process, ssl, threading
print(random.random(), uuid.uuid1(), uuid.uuid4(), secrets.token_hex(), next(tempfile._get_candidate_names()),
      bytes(process.current_process().authkey).hex(), logging._startTime, threading.main_thread().native_id,
      os.urandom(8).hex(), ssl.RAND_bytes(8).hex())
assert threading.main_thread().native_id == os.getpid()
";

#[test]
fn two_runs_of_one_image_have_no_secret_in_common() {
    // Two front ends cannot be at one stop here; so the secrets of the stop are written down, and compared with the run's.
    let folder = Folder::new(&[("first.py", &format!("{SECRETS}\nimport sys\nsys.stdout.flush()\n"))]);
    let paths = [folder.path().to_str().expect("UTF-8").as_bytes().to_vec()];
    let preload = ["first".to_owned()];
    let front =
        preparation(&Preparation { skip: 1, preload: &preload, paths: &paths, ..Preparation::default() });
    let (text, status, _) = woken(&folder, &front, &["python3", "-c", SECRETS], &[], b"");
    assert_eq!(status, 0, "{text}");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    for (at, (stop, run)) in lines[0].iter().zip(&lines[1]).enumerate().filter(|(at, _)| *at != 7) {
        assert_ne!(stop, run, "the value at {at} of {text}");
    }
}

/// OpenSSL itself begins anew in another process than it was used in. Where a run has the number of such a process, the front end does it.
#[test]
fn secrets_of_openssl_are_new_whatever_the_number_of_the_process() {
    let folder = Folder::new(&[("used.py", "import ssl; ssl.RAND_bytes(8)")]);
    let paths = [folder.path().to_str().expect("UTF-8").as_bytes().to_vec()];
    let preload = ["used".to_owned()];
    let front =
        preparation(&Preparation { skip: 1, preload: &preload, paths: &paths, ..Preparation::default() });
    // Each child is a run's process in its turn: it has the memory of the stop, and another number than that of the parent.
    let script = "import os, ssl\n\
        def child():\n    read, write = os.pipe()\n    if not os.fork(): os.write(write, ssl.RAND_bytes(8)); os._exit(0)\n\
        \x20   os.wait(); return os.read(read, 8).hex()\n\
        print(child(), child(), ssl.RAND_bytes(8).hex())\n";
    let mut all = Vec::new();
    for _ in 0..2 {
        let (text, status, _) = woken(&folder, &front, &["python3", "-c", script], &[], b"");
        assert_eq!(status, 0, "{text}");
        all.extend(text.split_whitespace().map(str::to_owned));
    }
    let distinct: std::collections::HashSet<&String> = all.iter().collect();
    assert_eq!((distinct.len(), all.len()), (6, 6), "{all:?}");
}

#[test]
fn modules_are_those_of_a_plain_interpreter_with_the_same_imports() {
    let folder = Folder::new(&[]);
    for preload in ["json,re", "ctypes", "gc,atexit,binascii", "logging,random", "runpy"] {
        let imports = format!("import {preload}");
        let code = format!("{imports}\nimport sys\nprint(sorted(sys.modules), 'annotations' in globals())");
        let run = Run { words: &["-c", &code], preload, ..Run::default() };
        folder.same(&run);
        let run = Run { words: &["-S", "-c", &code], preload, ..Run::default() };
        folder.same(&run);
    }
}

#[test]
fn a_virtual_environment_is_its_own() {
    let folder = Folder::new(&[("look.py", LOOK)]);
    folder.python(&["-m", "venv", "--without-pip", "venv"]);
    let path = folder.path().join("venv/bin/python");
    let python = path.to_str().expect("UTF-8");
    for words in [&["-c", LOOK][..], &["look.py"], &["-I", "-m", "look"]] {
        let seen = folder.same(&Run { python, words, ..Run::default() });
        assert!(seen.status != 0 || seen.stdout.contains("venv/lib/python3"), "{seen:?}");
    }
}
