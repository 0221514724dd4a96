//! Perl out of warm images: what a script sees, writes and ends with is the same as under exec, byte for byte, whether modules were
//! loaded ahead or the script was compiled ahead.

#[path = "common/elsewhere.rs"]
mod elsewhere;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use regrow::{Command, Creation, ExitStatus, Point, PointChoice, Pool, Stdio};

/// The scripts that stand in files of their own.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perl");
/// How often a script is run in an image.
const RUNS: usize = 3;
/// What has just been written is not trusted for some milliseconds: the kernel's stamps are as coarse.
const COARSE: Duration = Duration::from_millis(30);

/// What a run has left. Its own pid, where it is told as `pid=1`, is replaced.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

/// A folder with scripts, a pool that recycles nothing, and one that is compared after every run.
struct Place {
    folder: tempfile::TempDir,
    plain: Pool,
    pool: Pool,
}

/// What is done ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ahead {
    Modules,
    Script,
}

const BOTH: [Ahead; 2] = [Ahead::Modules, Ahead::Script];

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let plain = Pool::builder().recycle(false).build();
        Self { folder, plain, pool: Pool::builder().verify(true).build() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes an executable file, and waits until it is as old as an image needs it.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        elsewhere::write(&path, text);
        std::thread::sleep(COARSE);
        path
    }

    fn copy(&self, name: &str) -> PathBuf {
        self.write(name, &fs::read_to_string(Path::new(SCRIPTS).join(name)).expect("a script"))
    }

    /// A command that runs a script with a small environment.
    fn command(pool: &Pool, script: &Path, ahead: Option<Ahead>) -> Command {
        let mut command = pool.command(script);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").env("LANG", "C.UTF-8");
        match ahead {
            Some(Ahead::Modules) => command.preload(["strict", "warnings"]),
            Some(Ahead::Script) => command.compile_ahead(true),
            None => &mut command,
        };
        command
    }

    /// Compares runs of a script in images with one by exec. `change` completes a command, and is called for each.
    fn compare(&self, script: &Path, ways: &[Ahead], change: impl Fn(&mut Command)) -> Outcome {
        let mut command = Self::command(&self.plain, script, None);
        change(&mut command);
        let expected = run(&mut command).0;
        for &ahead in ways {
            let mut command = Self::command(&self.pool, script, Some(ahead));
            change(&mut command);
            self.prepare(&command);
            for _ in 0..RUNS {
                // A command's descriptors have their places in files from the run before.
                let mut command = Self::command(&self.pool, script, Some(ahead));
                change(&mut command);
                let (found, creation) = run(&mut command);
                assert_eq!(
                    creation.point(),
                    Some(Point::Warm),
                    "{}, {ahead:?}: {creation}",
                    script.display()
                );
                assert_eq!(found, expected, "{}, {ahead:?}", script.display());
            }
        }
        expected
    }

    fn prepare(&self, command: &Command) {
        assert_eq!(self.pool.prepare(command).expect("an image"), Point::Warm, "{command:?}");
    }

    /// A run that needs an image, which is made first.
    fn warm(&self, command: &mut Command) -> Outcome {
        self.prepare(command);
        let (outcome, creation) = run(command);
        assert_eq!(creation.point(), Some(Point::Warm), "{command:?}: {creation}");
        outcome
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let reports = self.pool.reports();
            assert!(reports.differences.is_empty() && reports.given_up.is_empty(), "{reports:?}");
            assert!(reports.compared > 0, "{reports:?}");
        }
    }
}

/// Runs a command with pipes for its output.
fn run(command: &mut Command) -> (Outcome, Creation) {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (creation, pid) = (child.creation().clone(), child.id());
    let output = child.wait_with_output().expect("its end");
    let own = format!("pid={pid}");
    let text = |bytes: &[u8]| {
        let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
        text.replace(&own, "pid=OWN")
    };
    (Outcome { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) }, creation)
}

/// A file with this content, open at its start.
fn input(place: &Place, text: &str) -> File {
    let path = place.path("input");
    fs::write(&path, text).expect("written");
    File::open(path).expect("opened")
}

#[test]
fn a_script_sees_the_same_of_itself() {
    let place = Place::new();
    let outcome = place.compare(&place.copy("itself.pl"), &BOTH, |command| {
        command.args(["one", "", "two words", "-w", "--"]).stdin(Stdio::null());
    });
    assert!(outcome.stdout.contains("evals: (eval 1) (eval 2)\n"), "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains(&format!("process: pid=OWN {}\n", std::process::id())),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("its child sees: pid=OWN\n"), "{}", outcome.stdout);
}

#[test]
fn scripts_write_and_end_the_same() {
    let place = Place::new();
    for (script, arguments) in [
        ("environment.pl", &[&[][..]][..]),
        ("blocks.pl", &[&["0"][..], &["3"]]),
        ("processes.pl", &[&[][..]]),
        (
            "messages.pl",
            &[
                &["reasons"][..],
                &["exit 4"],
                &["exit 0"],
                &["signal TERM"],
                &["signal SEGV"],
                &["error 9"],
                &["object"],
            ],
        ),
    ] {
        let path = place.copy(script);
        for arguments in arguments {
            place.compare(&path, &BOTH, |command| {
                command
                    .args(*arguments)
                    .env("EMPTY", "")
                    .env("LINES", "two\nlines")
                    .env("A=B".split_at(1).0, "x=y=z");
            });
        }
    }
}

#[test]
fn the_streams_of_a_script_are_the_same_whatever_they_are() {
    let place = Place::new();
    let script = place.copy("streams.pl");
    let text = format!("first\nsecond\n{}", "rest of it\n".repeat(3000));
    let from_pipe = |command: &mut Command| {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        // Less than a pipe takes without a reader.
        writer.write_all(text.as_bytes()).expect("written");
        command.stdin(reader);
    };
    let from_file = |command: &mut Command| {
        let mut file = input(&place, &text);
        file.read_exact(&mut [0; 3]).expect("read");
        command.stdin(file);
    };
    let outcome = place.compare(&script, &BOTH, from_pipe);
    assert!(outcome.stdout.starts_with("at "), "{outcome:?}");
    let outcome = place.compare(&script, &BOTH, from_file);
    assert!(outcome.stdout.contains("first: st\n") && outcome.stdout.contains("SECOND\n"), "{outcome:?}");
    place.compare(&script, &BOTH, |command| {
        command.stdin(Stdio::null());
    });
    // Of a closed one the number is free for the script.
    place.compare(&place.copy("blocks.pl"), &BOTH, |command| {
        command.stdin(Stdio::closed());
    });
    place.compare(&place.copy("data.pl"), &BOTH, |command| {
        command.stdin(Stdio::closed());
    });
}

#[test]
fn what_follows_the_end_of_a_script_is_its_data() {
    let place = Place::new();
    let head = fs::read_to_string(Path::new(SCRIPTS).join("data.pl")).expect("a script");
    // Many times the buffer that the interpreter reads.
    let rows: String = (0..5000).map(|number| format!("number {number}\n")).collect();
    for end in ["__END__", "__DATA__"] {
        let script =
            place.write("data.pl", &format!("{}{end}\n{rows}", head.trim_end().trim_end_matches("__END__")));
        let outcome = place.compare(&script, &BOTH, |_| ());
        assert!(outcome.stdout.contains("5000 lines, sum 12497500\nfirst: #!/usr/bin/perl\n"), "{outcome:?}");
    }
}

#[test]
fn a_form_is_read_and_printed_the_same() {
    let place = Place::new();
    let script = place.copy("form.pl");
    let request = |command: &mut Command| {
        command.preload(["CGI"]).env("GATEWAY_INTERFACE", "CGI/1.1").env("SERVER_NAME", "localhost");
        command.env("SERVER_PORT", "80").env("SCRIPT_NAME", "/form.pl").env("REMOTE_ADDR", "127.0.0.1");
        command.env("SERVER_PROTOCOL", "HTTP/1.1");
    };
    for query in ["name=Anna&town=Rome&town=Ur", "name=%3Cb%3E&x=%C3%A9", ""] {
        place.compare(&script, &BOTH, |command| {
            request(command);
            command.env("REQUEST_METHOD", "GET").env("QUERY_STRING", query).stdin(Stdio::null());
        });
    }
    let body = format!("name=Posted&text={}", "a+b%26".repeat(20_000));
    let outcome = place.compare(&script, &BOTH, |command| {
        request(command);
        command.env("REQUEST_METHOD", "POST").env("CONTENT_LENGTH", body.len().to_string());
        command.env("CONTENT_TYPE", "application/x-www-form-urlencoded").stdin(input(&place, &body));
    });
    assert!(outcome.stdout.contains("<h1>Hello,  Posted</h1>"), "{outcome:?}");
    assert!(outcome.stdout.len() > body.len() / 6 * 3, "{}", outcome.stdout.len());
}

#[test]
fn an_environment_of_any_entries_is_read_as_by_the_interpreter() {
    let place = Place::new();
    let script =
        place.write("variables.pl", "#!/usr/bin/perl\nprint map { \"$_=$ENV{$_}\\n\" } sort keys %ENV;\n");
    let entries = ["A=1", "no sign", "=no name", "A=2", "B=", "C=x=y", "B=later", "\u{e9}=\u{e9}"];
    // Executes the script with these entries as they are.
    let execute = "syscall(59, my $p = \"$ARGV[0]\\0\", my $a = pack('p*', $ARGV[0], undef), my $e = pack('p*', @ARGV[1 .. $#ARGV], undef))";
    let plain =
        std::process::Command::new("/usr/bin/perl").args(["-e", execute]).arg(&script).args(entries).output();
    let plain = plain.expect("perl is installed");
    assert!(plain.status.success() && plain.stdout.starts_with(b"A=1\nB=\nC=x=y\n"), "{plain:?}");
    for ahead in BOTH {
        let mut order = Vec::new();
        let text =
            [&["/usr/bin/perl", script.to_str().expect("UTF-8")][..], &entries[..]].concat().join("\0");
        write!(order, "regrow 1 2 {} 0\n{text}\0", entries.len()).expect("written");
        place.prepare(&Place::command(&place.pool, &script, Some(ahead)));
        let path = place.path("order");
        fs::write(&path, order).expect("written");
        let mut command = Place::command(&place.pool, &script, Some(ahead));
        let outcome = place.warm(command.fd(File::open(path).expect("opened"), 63));
        let expected: String = plain.stdout.iter().map(|&byte| char::from(byte)).collect();
        assert_eq!(outcome.stdout, expected, "{ahead:?}");
    }
}

/// Draws numbers, in two children before the script itself has drawn any.
const DRAW: &str = "#!/usr/bin/perl
use strict; use warnings;
$| = 1;
for (1 .. 2) { unless (fork) { print 'child ', join(' ', map { rand } 1 .. 5), qq(\n); exit } wait }
print 'own ', join(' ', map { rand } 1 .. 10), qq(\n);
print 'seed ', srand(), qq(\n);
srand 42;
print 'known ', join(' ', map { int rand 1000 } 1 .. 10), qq(\n);
";

#[test]
fn no_number_is_drawn_twice() {
    const WARM_RUNS: usize = 475;
    const LIMIT: Duration = Duration::from_secs(120);
    let place = Place::new();
    let script = place.write("draw.pl", DRAW);
    let known = run(&mut Place::command(&place.plain, &script, None)).0.stdout;
    let known = known.lines().last().expect("a line").to_owned();
    let mut seen = HashSet::new();
    let (began, mut number, mut warm) = (Instant::now(), 0, 0);
    // A run that finds all bodies busy draws its numbers in a new process.
    while warm < WARM_RUNS {
        assert!(began.elapsed() < LIMIT, "{:?}", place.pool.stats());
        let mut command = Place::command(&place.pool, &script, Some(BOTH[number % 2]));
        let outcome = if number < 2 { place.warm(&mut command) } else { run(&mut command).0 };
        assert_eq!(outcome.stdout.lines().last(), Some(known.as_str()));
        for word in
            outcome.stdout.lines().filter(|line| !line.starts_with("known")).flat_map(str::split_whitespace)
        {
            assert!(word.chars().all(char::is_alphabetic) || seen.insert(word.to_owned()), "{word} again");
        }
        number += 1;
        let stats = place.pool.stats();
        warm = usize::try_from(stats.recycled.warm + stats.forked_body.warm).expect("a count");
    }
    assert_eq!(seen.len(), number * 21, "{:?}", place.pool.stats());
}

#[test]
fn a_script_or_module_that_changes_is_new_in_the_next_run() {
    for ahead in BOTH {
        let place = Place::new();
        let library = place.path("library").display().to_string();
        let module = |version: u32| format!("package Working::Copy; our $version = {version}; 1;\n");
        place.write("library/Working/Copy.pm", &module(1));
        let text = |word: &str| {
            format!("#!/usr/bin/perl\nuse Working::Copy;\nprint qq({word} $Working::Copy::version\\n);\n")
        };
        let script = place.write("script.pl", &text("first"));
        let command = || {
            let mut command = Place::command(&place.pool, &script, Some(ahead));
            command.preload(["Working::Copy"]).env("PERL5LIB", &library);
            command
        };
        assert_eq!(place.warm(&mut command()).stdout, "first 1\n");
        for (name, content, expected) in [
            ("script.pl", text("second"), "second 1\n"),
            ("library/Working/Copy.pm", module(2), "second 2\n"),
            ("script.pl", text("third"), "third 2\n"),
        ] {
            place.write(name, &content);
            assert_eq!(run(&mut command()).0.stdout, expected, "{ahead:?}, at once");
            assert_eq!(place.warm(&mut command()).stdout, expected, "{ahead:?}");
        }
        fs::remove_file(&script).expect("removed");
        let error = command().spawn().expect_err("it is gone");
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{ahead:?}");
        // To the interpreter it is an argument.
        let by_name = |pool: &Pool| {
            let mut command = pool.command("/usr/bin/perl");
            run(command.arg(&script).preload(["strict"])).0
        };
        assert_eq!(by_name(&place.pool), by_name(&place.plain));
    }
}

#[test]
fn an_image_is_of_the_variables_that_its_modules_read() {
    let place = Place::new();
    let library = place.path("library").display().to_string();
    place.write(
        "library/Reads.pm",
        "package Reads; our $x = exists $ENV{X} ? $ENV{X} : 'none'; $ENV{SET} = 'by module'; 1;\n",
    );
    let script = place.write(
        "script.pl",
        "#!/usr/bin/perl\nuse Reads;\nprint qq($Reads::x $ENV{SET} $ENV{OTHER} ), `printenv SET`;\n",
    );
    for ahead in BOTH {
        for (x, other) in [(Some("1"), "a"), (Some("2"), "b"), (None, "c"), (Some("1"), "d")] {
            let outcome = place.compare(&script, &[ahead], |command| {
                command.preload(["Reads"]).env("PERL5LIB", &library).env("OTHER", other);
                x.map(|x| command.env("X", x));
            });
            assert_eq!(outcome.stdout, format!("{} by module {other} by module\n", x.unwrap_or("none")));
        }
    }
}

#[test]
fn modules_that_cannot_be_loaded_lead_to_a_shallower_point() {
    let place = Place::new();
    let library = place.path("library").display().to_string();
    place.write("library/Broken.pm", "package Broken; sub { ;\n");
    place.write("library/Talks.pm", "package Talks; $| = 1; print 'loaded'; 1;\n");
    place.write("library/Draws.pm", "package Draws; our $secret = rand; 1;\n");
    place.write("library/Opens.pm", "package Opens; open our $file, '<', '/dev/null'; 1;\n");
    place.write("library/Requests.pm", "package Requests; our $host = $ENV{HTTP_HOST}; 1;\n");
    place.write("library/Asks.pm", "package Asks; our $line = <STDIN>; 1;\n");
    let script = place.write("script.pl", "#!/usr/bin/perl\nprint qq(run\\n);\n");
    let warm = Pool::builder().point(PointChoice::Only(Point::Warm)).build();
    for (module, reason) in [
        ("Not::There", "Not::There cannot be loaded: Can't locate Not/There.pm"),
        ("Broken", "Broken cannot be loaded: Missing right curly"),
        ("Broken?", "Broken cannot be loaded: Missing right curly"),
        ("Talks", "it writes to its standard output or error while it is prepared"),
        ("Draws", "random numbers are drawn while it is prepared"),
        ("Opens", "descriptors were opened"),
        ("Requests", "HTTP_HOST is read while it is prepared"),
        ("Asks", "it reads its standard input while it is prepared"),
    ] {
        let command = |pool: &Pool| {
            let mut command = Place::command(pool, &script, None);
            command.preload(["strict", module]).env("PERL5LIB", &library);
            command
        };
        let error = warm.prepare(&command(&warm)).expect_err("no image");
        let found = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        assert!(format!("{error} {found} {error:?}").contains(reason), "{module}: {error:?}");
        assert_eq!(place.pool.prepare(&command(&place.pool)).expect("an image"), Point::Main, "{module}");
        let (outcome, creation) = run(&mut command(&place.pool));
        assert_eq!((outcome.stdout.as_str(), creation.point()), ("run\n", Some(Point::Main)), "{module}");
    }
    place.compare(&script, &[Ahead::Modules], |command| {
        command.preload(["Not::There?"]);
    });
}

#[test]
fn a_script_that_cannot_be_compiled_ends_the_same() {
    let place = Place::new();
    for text in [
        "use strict;\nprint 'one';\nmy $x = ;\nprint $y;\n",
        "use No::Such::Module;\n",
        "BEGIN { exit 3 }\n",
        "use strict; use warnings;\nmy $x; my $x; print qq(runs\\n); 'constant';\n",
        "use strict;\nprint qq(begun\\n);\n}\n",
    ] {
        let script = place.write("script.pl", &format!("#!/usr/bin/perl -w\n{text}"));
        // What it says while it is compiled it says in every run: the script is compiled in each.
        place.compare(&script, &BOTH, |_| ());
    }
}

#[test]
fn descriptors_of_the_callers_are_left_alone() {
    let place = Place::new();
    let text = "open my $h, qq(<&=$ARGV[0]) or die;\nprint <$h>, <DATA>;\n__END__\ndata\n";
    let script = place.write("script.pl", &format!("#!/usr/bin/perl\n{text}"));
    let file = place.write("file", "given\n");
    for ahead in BOTH {
        for number in [3, 7, 8] {
            let mut command = Place::command(&place.pool, &script, Some(ahead));
            command.arg(number.to_string()).fd(File::open(&file).expect("opened"), number);
            assert_eq!(place.warm(&mut command).stdout, "given\ndata\n", "{ahead:?} {number}");
        }
    }
}

/// What a script ends with that says whether it was compiled in its own process.
const COMPILED: &str =
    "our $compiled; BEGIN { $compiled = $$ } print $compiled == $$ ? 'in the run' : 'ahead';\n";

#[test]
fn what_only_one_process_can_have_is_not_compiled_ahead() {
    let place = Place::new();
    let file = place.write("file", "content\n").display().to_string();
    let reads = format!("our $handle; BEGIN {{ open $handle, '<', '{file}' or die }}\nprint <$handle>;\n");
    // One for each: that there is no image of a script is remembered for a time.
    for (number, text) in [
        reads.as_str(),
        "use Socket; BEGIN { socket our $s, PF_UNIX, SOCK_STREAM, 0 or die } print fileno($s) > 2 ? 'open' : 'none';\n",
        "our $query; BEGIN { $query = $ENV{QUERY_STRING} } print qq($query\\n);\n",
        "our %copy; BEGIN { %copy = %ENV } print qq($copy{QUERY_STRING}\\n);\n",
        "BEGIN { $| = 1; print qq(begun\\n) } print qq(run\\n);\n",
        "BEGIN { print qq(begun\\n) } print qq(run\\n);\n",
        "our $line; BEGIN { $line = <STDIN> } print qq($line\\n);\n",
        "BEGIN { $0 = 'drawn', srand 7, rand } print int(rand 1000), qq(\\n);\n",
    ]
    .into_iter()
    .enumerate()
    {
        let script = place.write(&format!("{number}.pl"), &format!("#!/usr/bin/perl\n{text}{COMPILED}"));
        let outcome = place.compare(&script, &[Ahead::Script], |command| {
            command.env("QUERY_STRING", "a=1").stdin(input(&place, "a line\n"));
        });
        assert!(outcome.stdout.ends_with("in the run"), "{text}: {outcome:?}");
    }
    let script = place.write("script.pl", &format!("#!/usr/bin/perl\n{COMPILED}"));
    assert_eq!(place.warm(&mut Place::command(&place.pool, &script, Some(Ahead::Script))).stdout, "ahead");
}

/// What a run writes whose standard output, and its input if that is wanted, is a terminal.
fn on_a_terminal(mut command: Command, input: bool) -> (String, Creation) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("a terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("its other side");
    let slave = ioctl_tiocgptpeer(&master, flags).expect("its other side");
    command.stdin(if input { Stdio::from(slave.try_clone().expect("another")) } else { Stdio::null() });
    let mut child = command.stdout(slave).spawn().expect("it starts");
    let creation = child.creation().clone();
    assert!(child.wait().expect("its end").success());
    // Nobody has the other side any more: reading ends with an error.
    drop(command);
    let mut bytes = Vec::new();
    let _ = File::from(master).read_to_end(&mut bytes);
    (String::from_utf8_lossy(&bytes).into_owned(), creation)
}

#[test]
fn a_script_writes_to_a_terminal_line_by_line() {
    let place = Place::new();
    let text = "print -t STDOUT ? 'terminal' : 'none', -t STDIN ? ' both' : '', qq(\\n);\nsystem 'echo child';\nprint qq(end\\n);\n";
    let script = place.write("script.pl", &format!("#!/usr/bin/perl\n{text}"));
    for ahead in BOTH {
        place.prepare(&Place::command(&place.pool, &script, Some(ahead)));
        for input in [false, true] {
            let (plain, _) = on_a_terminal(Place::command(&place.plain, &script, None), input);
            let (found, creation) = on_a_terminal(Place::command(&place.pool, &script, Some(ahead)), input);
            assert_eq!((found.as_str(), creation.point()), (plain.as_str(), Some(Point::Warm)), "{creation}");
            assert!(found.starts_with("terminal") && found.ends_with("end\r\n"), "{found}");
        }
    }
}
