"""The parts of each suite: what runs, and what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# How the test binaries are built (Cargo.toml says what the profile is).
CHECKED = ("--profile", "checked", "--locked")
# The part that builds them, and the one that builds the programs that they run.
BUILD = "build/tests"
VICTIMS = "build/victims"

# The test binaries that take longest: they start first, so that none of them is left for the end.
FIRST = (
    "regrow-testkit/victims",
    "regrow-cli/corpus_shared",
    "regrow/python",
    "regrow-cli/storm",
    "regrow-testkit/hostile",
)

# The test binaries that look at all that the machine does, or compare times: what runs beside them would be in what they
# see. Each has the machine to itself.
ALONE = (
    "regrow-machine/machine",
    "regrow-cli/machine",
    "regrow-bench/lib",
    "regrow-sites-preload/preload",
)

# What has tests that know a long form do all of it.
LONG: Mapping[str, str] = {"REGROW_LONG": "1"}

# The Python package in `make soak`. All parts that use its environment must ask for the same one: another one is made anew.
PYTHON_AS_USERS_GET_IT: Mapping[str, str] = {"PROFILE": "release", "RAY": "yes"}

# The binaries that `make test` runs a second time as nobody, each with what may differ without privilege. `make soak` runs
# every binary as nobody.
AS_NOBODY: Mapping[str, str] = {
    "regrow/lib": "limits, niceness and groups of a caller without privilege",
    "regrow/beyond_std": "limits can only be lowered, and groups and sessions are checked",
    "regrow/env_scripts": "files that the caller may not read or execute",
    "regrow/like_std": "what is refused is refused as the standard library's processes are",
    "regrow/std_suite": "what the standard library's own tests check, of a caller without privilege",
    "regrow/warm": "images of programs that stop themselves are made by ptrace",
    "regrow-body/lib": "bodies are made, read and written without privilege",
    "regrow-cli/activation": "the daemon's socket is its user's",
    "regrow-cli/doctor": "what the kernel grants is tried, and differs",
    "regrow-cli/link": "launchers stand in folders of the user",
    "regrow-cli/run": "limits, niceness and signals of a caller without privilege",
    "regrow-cli/shared": "the daemon asks the kernel who its clients are",
    "regrow-cli/sites": "commands are followed by ptrace",
    "regrow-cli/trace": "commands are followed by ptrace",
    "regrow-cli/web": "ports, sockets and scripts of a user without privilege",
    "regrow-daemon/lib": "places and clients of another user are refused",
    "regrow-engine/lib": "programs, credentials and sessions are compared with the caller's",
    "regrow-image/lib": "images are made by ptrace, and files may be closed to the caller",
    "regrow-sys/lib": "raw calls, of which some are refused",
    "regrow-sys/follow": "ptrace",
    "regrow-sys/probe_allocates_nothing": "the probe tries what is refused",
    "regrow-sys/probe_filtered": "filters of system calls need no_new_privs",
    "regrow-sys/probe_leaves_nothing": "the probe tries what is refused",
    "regrow-testkit/faults": "scenes that change their user do so, and the others hold without privilege",
    "regrow-testkit/verify": "a body is compared by its own caller",
    "regrow-testkit/victims": "a fresh world for a caller without privilege",
    "regrow-testkit/hostile": "attacks of runs without privilege",
}


@dataclass(frozen=True)
class Part:
    """Something that runs, and passes or fails."""

    name: str
    # Gives its words, when it starts; the argument is cargo's target folder.
    command: Callable[[Path], list[str]]
    says: str
    # Parts that must have passed.
    needs: tuple[str, ...] = ()
    # Of the parts with one lock, one runs at a time.
    lock: str = ""
    # It runs when nothing else does.
    alone: bool = False
    folder: str = "."
    # When it takes longer it hangs: it is killed, and has failed.
    limit_s: int = 2400
    variables: Mapping[str, str] = field(default_factory=dict)


def shell(*words: str) -> Callable[[Path], list[str]]:
    """A command that is known from the start."""
    return lambda _: list(words)


def make(target: str, says: str, **options: object) -> Part:
    """A target of the Makefile."""
    return Part(target, shell("make", "--no-print-directory", target), says, **options)  # type: ignore[arg-type]


def lint() -> list[Part]:
    """The checks that run no code of the project."""
    return [
        make("fmt-check", "is all Rust code formatted"),
        make("clippy", "warnings are errors", lock="checked"),
        make("doc", "the API documentation, broken links are errors", lock="checked"),
        make("deny", "licences and origin of dependencies"),
        make("scripts", "shell scripts and Python"),
        make("tidy", "the rules of the house", lock="checked"),
    ]


def builds() -> list[Part]:
    """What the tests run."""
    return [
        Part(
            BUILD,
            shell("cargo", "test", "--workspace", "--no-run", "--message-format=json-render-diagnostics", *CHECKED),
            "the test binaries and the command",
            lock="checked",
        ),
        Part(VICTIMS, shell("make", "--no-print-directory", "victims"), "programs that check their world from inside"),
    ]


def release() -> list[Part]:
    """The command as users get it, and whether what it starts is right."""
    smoke = "bench", "--runs", "20", "--warmup", "2", "--", "sh", "-c", "echo right; exit 3"
    return [
        make("build", "the command as users get it", lock="release"),
        Part("smoke", lambda target: [str(target / "release/regrow"), *smoke], "it starts what it is to start", ("build",)),
    ]


def python(says: str, **variables: str) -> Part:
    """The Python package as a whole."""
    return Part("python/package", shell("python/check.sh"), says, (BUILD,), "checked", variables=variables)


def python_in_parts(**variables: str) -> list[Part]:
    """The Python package, with its longest tests in a part of their own."""
    of_pytest = (f"test_pytest_{name}.py" for name in ("plugin", "guide", "isolation", "ahead"))
    plugin = (*of_pytest, "test_suites.py")
    clusters = ("test_celery.py", "test_celery_workers.py", "test_dask.py", "test_ray.py")
    drop_ins = ("test_drop_ins.py", "test_joblib.py", "test_check_preload.py", "test_beside_threads.py")
    # loky's own tests take three minutes: `make soak` runs them. The own tests of the system's interpreter are `regrow/python`.
    apart = ("test_loky.py", "test_own_tests.py", "test_celery_own_tests.py")
    others = (f"--ignore={name}" for name in (*plugin, *clusters, *drop_ins, *apart))

    def check(name: str, says: str, *words: str) -> Part:
        return Part(name, shell("python/check.sh", *words), says, ("python/build",), variables=variables)

    def tests(name: str, says: str, *words: str) -> Part:
        return check(name, says, "tests", *words)

    return [
        Part(
            "python/build",
            shell("python/check.sh", "build"),
            "the wheel of the Python package, with all assertions on",
            (BUILD,),
            "checked",
            variables=variables,
        ),
        check("python/wheel", "the wheel in clean environments without Rust, of the oldest and the newest Python too", "clean"),
        tests("python/plugin", "the plugin for pytest", *plugin),
        tests("python/clusters", "tasks of Celery, with real brokers, and of Dask", *clusters),
        tests(
            "python/celery",
            "some of Celery's own integration tests end as with its prefork pool",
            "test_celery_own_tests.py",
            "-k",
            "group_chains or redis_backend",
        ),
        tests("python/drop-ins", "what stands in the place of other pools", *drop_ins),
        tests("python/tests", "all else of the Python package", *others, "."),
    ]


def python_suites() -> Part:
    """The test suites of the packages of suites.py under `pytest --regrow`."""
    return Part(
        "soak/suites",
        lambda target: [
            str(target / "python/venv/bin/python"),
            "python/tests/suites.py",
            "--folder",
            str(target / "python/suites"),
        ],
        "the test suites of eleven packages have the same outcomes under pytest --regrow",
        ("python/package",),
        limit_s=7200,
    )


def python_longer(name: str, says: str, file: str, **variables: str) -> Part:
    """A file of tests of the Python package that takes long, in the environment of `python/package`."""
    variables = {**PYTHON_AS_USERS_GET_IT, **variables}
    return Part(name, shell("python/check.sh", "tests", file), says, ("python/package",), limit_s=7200, variables=variables)


# The tests of the web gateway, by the words that choose them: as long as all others together, in parts that run side by side.
WEB: Mapping[str, tuple[str, ...]] = {
    "web/load": ("test_load.py",),
    "web/compare": ("test_compare.py",),
    "web/serving": ("test_serving.py", "test_abuse.py"),
    "web/protocols": ("test_fastcgi.py", "test_http.py", "test_http2.py", "test_gitweb.py"),
    "web/application": ("application",),
    "web/start": ("test_start.py", "test_guide.py", "test_limits.py"),
    "web/types": ("types",),
}


def web(says: str, command: Path, **variables: str) -> list[Part]:
    """The web gateway, by a command in cargo's target folder."""
    needs = BUILD if command.parent.name == "checked" else "build"

    def check(words: tuple[str, ...]) -> Callable[[Path], list[str]]:
        return lambda target: ["env", f"REGROW={target / command}", "tests/web/check.sh", *words]

    return [Part(name, check(words), says, (needs,), variables=variables) for name, words in WEB.items()]


@dataclass(frozen=True)
class Binary:
    """A test binary."""

    folder: str
    kind: str
    target: str

    @property
    def name(self) -> str:
        """As in `regrow-engine/guide` and `regrow-engine/lib`."""
        return f"{Path(self.folder).name}/{self.kind if self.kind in ('bin', 'lib') else self.target}"

    def path(self, target: Path) -> str:
        """Where it is, as the part that has built it tells."""
        for line in (target / "suite" / "build-tests.log").read_text().splitlines():
            told = json.loads(line) if line.startswith('{"reason":"compiler-artifact"') else {}
            if (
                told.get("executable")
                and told["profile"]["test"]
                and told["target"]["kind"][0] == self.kind
                and told["target"]["name"] == self.target
                and Path(told["manifest_path"]).parent == ROOT / self.folder
            ):
                return str(told["executable"])
        raise LookupError(f"cargo has not told where the test {self.name} is")


def binaries() -> list[Binary]:
    """The test binaries of the workspace: those that take longest first, so that none of them is left for the end."""
    words = ("cargo", "metadata", "--no-deps", "--format-version=1", "--locked")
    told = subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout
    found = [
        Binary(str(Path(package["manifest_path"]).parent.relative_to(ROOT)), target["kind"][0], target["name"])
        for package in json.loads(told)["packages"]
        for target in package["targets"]
        if target["test"]
    ]
    unknown = {*FIRST, *ALONE, *AS_NOBODY}.difference(binary.name for binary in found)
    if unknown:
        sys.exit(f"suite_parts.py names test binaries that are not there: {', '.join(sorted(unknown))}")
    return sorted(found, key=lambda binary: FIRST.index(binary.name) if binary.name in FIRST else len(FIRST))


def part_of(kind: str, binary: Binary, says: str, *before: str, **variables: str) -> Part:
    """A test binary as a part; `before` are the words before its path."""
    return Part(
        f"{kind}/{binary.name}",
        lambda target: [*before, binary.path(target)],
        says,
        (BUILD, VICTIMS),
        alone=binary.name in ALONE,
        folder=binary.folder,
        variables={"CARGO_MANIFEST_DIR": str(ROOT / binary.folder), **variables},
    )


def workspace() -> list[Part]:
    """Each test binary of the workspace, and the examples in its documentation."""
    parts = [part_of("tests", binary, "tests of the workspace") for binary in binaries()]
    examples = shell("cargo", "test", "--workspace", "--doc", *CHECKED)
    return [*parts, Part("tests/examples", examples, "examples in the documentation", (BUILD,), "checked")]


def as_nobody(*, again: bool) -> list[Part]:
    """The test binaries as nobody: fewer runs of those in AS_NOBODY (again), or all of them in full."""
    if os.geteuid() != 0:
        print("whoever runs the tests is not root: nothing is repeated as nobody")
        return []
    # The chores' own tests need cargo.
    chosen = [binary for binary in binaries() if binary.folder != "xtask" and (binary.name in AS_NOBODY or not again)]
    variables = {"REGROW_AGAIN": "1"} if again else LONG
    says = "as nobody: {}".format
    return [
        part_of("nobody", binary, says(AS_NOBODY.get(binary.name, "in full")), str(ROOT / "scripts/as-nobody"), **variables)
        for binary in chosen
    ]


def allocators(name: str, says: str, needs: str, *words: str) -> Part:
    """The tests of other allocators over the memory service."""
    return Part(name, lambda target: ["tests/allocators/check.py", str(target), *words], says, (needs,), limit_s=7200)


def creations(name: str, says: str, *words: str) -> Part:
    """The tests of programs that create others, below `regrow schedule`."""
    return Part(
        name,
        lambda target: ["tests/creations/check.py", str(target), str(target / "checked/regrow"), *words],
        says,
        (BUILD,),
        limit_s=7200,
    )


def test() -> list[Part]:
    """What `make test` runs: everything that CI does."""
    return [
        *builds(),
        *python_in_parts(PROFILE="checked"),
        *web("the web gateway beside Apache and nginx", Path("checked/regrow"), REGROW_LOAD_SECONDS="3"),
        *lint(),
        # What takes long comes before what is short, so that all lanes end together.
        make("loom", "each order of the atomic operations of the memory service and of fibers", lock="loom"),
        allocators("allocators", "some of jemalloc's and mimalloc's own tests over the memory service", BUILD, "--short"),
        *workspace(),
        creations("creations", "some of bash's and make's own tests below regrow schedule", "--short"),
        *as_nobody(again=True),
    ]


def soak() -> list[Part]:
    """What `make soak` runs: what takes long, what users get, and everything as nobody."""
    by_name = {binary.name: binary for binary in binaries()}

    def longer(name: str, says: str, **variables: str) -> Part:
        return replace(part_of("soak", by_name[name], says, **LONG, **variables), limit_s=7200)

    return [
        *builds(),
        *release(),
        python("the Python package as users get it, by the oldest and the newest Python", **PYTHON_AS_USERS_GET_IT, **LONG),
        python_suites(),
        python_longer("soak/celery", "Celery's own integration tests end as with its prefork pool", "test_celery_own_tests.py"),
        python_longer(
            "soak/beside-threads",
            "100,000 calls beside threads that hold the locks of OpenSSL, imports, malloc and logging",
            "test_beside_threads.py",
            REGROW_CALLS="100000",
        ),
        *web("the gateway as users get it, a minute of each load", Path("release/regrow"), REGROW_LOAD_SECONDS="60", **LONG),
        longer("regrow-cli/storm", "20,000 kills", REGROW_STORM_KILLS="20000"),
        longer("regrow-testkit/soak", "1,000,000 runs in one process", REGROW_SOAK_RUNS="1000000"),
        longer("regrow-testkit/stress", "110,000 runs of threads at once, each checked", REGROW_STRESS_RUNS="110000"),
        longer("regrow-testkit/victims", "each victim in all builds without each feature, and twice as often"),
        longer("regrow-testkit/corpus_recycled", "each entry of the corpus 100 times", REGROW_RUNS="100"),
        longer("regrow-memory/zones", "50,000,000 steps of zones beside a model", REGROW_STEPS="50000000"),
        longer("regrow-sites/memory", "10,000,000 events for the model of creation sites", REGROW_EVENTS="10000000"),
        longer("regrow-memory/service", "100,000,000 steps of eight threads with blocks of memory", REGROW_STEPS="12500000"),
        make("memory", "the memory service for C programs, as users get it", needs=("build",), lock="release"),
        creations("soak/creations", "bash's and make's own tests below regrow schedule"),
        allocators("soak/allocators", "jemalloc's and mimalloc's own tests over the memory service", "memory"),
        make("miri", "the memory service and fibers, instruction by instruction", lock="miri", limit_s=7200),
        make("fuzz-smoke", "each fuzz target for five minutes", variables={"FUZZ_SECONDS": "300"}),
        make("sanitize", "the memory service with both sanitizers, deliberate bugs among it", lock="sanitize", limit_s=7200),
        replace(
            make("loom", "the same in fibers with a change of threads more", variables={"REGROW_CHANGES": "1"}),
            name="soak/loom",
            lock="loom",
            limit_s=7200,
        ),
        make("loom-mutants", "a model fails for each ordering and step that is weakened", lock="loom", limit_s=7200),
        *as_nobody(again=False),
    ]


SUITES: Mapping[str, Callable[[], list[Part]]] = {"lint": lint, "test": test, "soak": soak}
