"""What the benchmarks of the web gateway have in common: pages, servers, the client, and how a gateway ran what it ran."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import client
import processes
import servers

HERE = Path(__file__).resolve().parent
# The least part of the runs that is to be made at the point that is claimed.
AT_THE_POINT = 0.95
# What each page says, by the number of the request.
QUERY, BODY = "?name=visitor#", "Hello, visitor#.\n"
PERL, PROGRAM, STATIC = "/hello.pl", "/page.cgi", "/page.txt"
STATIC_BODY = "Hello, nobody.\n"
# CGI.pm reads these when it is loaded. Those of nginx are not known ahead, so that nothing could be prepared for them.
OF_NGINX = ["--env", "SERVER_SOFTWARE=nginx", "--env", "GATEWAY_INTERFACE=CGI/1.1"]


def say(text: str) -> None:
    """Tells what is going on, beside the figures."""
    print(text, file=sys.stderr, flush=True)


class Setting(servers.Place):
    """A folder with the pages, and another one that is empty as yet."""

    def __init__(self, regrow: Path) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="regrow-bench-web-")).resolve()
        self.root.chmod(0o755)
        self.scripts = self.root / "scripts"
        shutil.copytree(HERE / "pages", self.scripts, ignore=shutil.ignore_patterns("__pycache__"))
        (self.scripts / STATIC[1:]).write_text(STATIC_BODY)
        self.asks = self.root / "asks"
        self._build("page", self.scripts / PROGRAM[1:])
        self._build("asks", self.asks)
        # The command may lie where the servers' user cannot reach.
        self.command = self.root / "regrow"
        shutil.copy(regrow, self.command)
        for path in self.scripts.iterdir():
            path.chmod(0o755 if path.suffix in (".pl", ".cgi") else 0o644)

    @staticmethod
    def _build(name: str, to: Path) -> None:
        """Builds a program of src/."""
        subprocess.run(["gcc", "-std=gnu17", "-O2", "-o", to, HERE / "src" / f"{name}.c"], check=True)

    def empty(self) -> Path:
        """A folder without pages, for those that appear in it later."""
        path = Path(tempfile.mkdtemp(prefix="empty-", dir=self.root))
        path.chmod(0o755)
        return path

    def appear(self, folder: Path, page: str) -> None:
        """Puts a page into a folder at once."""
        copied = folder / f".{page[1:]}"
        shutil.copy(self.scripts / page[1:], copied)
        copied.rename(folder / page[1:])


class Gateway(servers.Server):
    """`regrow web` with its usual settings, by HTTP and FastCGI."""

    def __init__(self, setting: Setting, *options: str) -> None:
        state = setting.folder("gateway")
        self.socket = state / "socket"
        self.http = self.metrics = 0
        command = [str(setting.command), "web", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
        super().__init__("gateway", [*command, "--fastcgi", f"unix:{self.socket}", *options], state)
        processes.wait_for("the gateway says where it serves", self._serves)

    def _serves(self) -> bool:
        assert self.process.poll() is None, f"the gateway has ended with {self.process.returncode}: {self.words()}"
        http = re.search(r"^regrow: serving http://127\.0\.0\.1:(\d+)/$", self.words(), re.MULTILINE)
        metrics = re.search(r"^regrow: serving metrics at http://127\.0\.0\.1:(\d+)/metrics$", self.words(), re.MULTILINE)
        if http and metrics:
            self.http, self.metrics = int(http[1]), int(metrics[1])
        return self.http > 0

    def runs(self) -> dict[str, int]:
        """How many runs it has made, by how it made them, and why not otherwise."""
        reply = client.get(self.metrics, "/metrics")
        assert reply.status == 200, reply
        found = re.findall(r'^regrow_web_runs_total\{how="(\w+)",why="([^"]*)"\} (\d+)', reply.body.decode(), re.MULTILINE)
        return {f"{how} ({why})" if why else how: int(count) for how, why, count in found}


def added(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """The runs between two looks."""
    more = {how: count - before.get(how, 0) for how, count in after.items()}
    return {how: count for how, count in more.items() if count > 0}


def part_at(name: str, runs: dict[str, int], point: str) -> float:
    """The part of the runs that was made at a point. Says how all were."""
    every = sum(runs.values())
    part = runs.get(point, 0) / every if every else 0.0
    how = ", ".join(f"{count} {way}" for way, count in sorted(runs.items()))
    say(f"  {name}: of {every} runs {part:.2%} at {point} ({how})")
    return part


class Fcgiwrap(servers.Server):
    """fcgiwrap with as many processes as requests come at a time."""

    def __init__(self, setting: Setting) -> None:
        state = setting.folder("fcgiwrap")
        self.socket = state / "socket"
        super().__init__("fcgiwrap", ["/usr/sbin/fcgiwrap", "-c", "10", "-s", f"unix:{self.socket}"], state)
        self.wait_until("listens", self.socket)


def static_of_nginx(root: Path, port: int) -> list[str]:
    """nginx's own pages at a port."""
    return ["server {", f"listen 127.0.0.1:{port};", f"root {root};", "}"]


def static_of_apache(root: Path, port: int) -> list[str]:
    """Apache's own pages at a port."""
    return [f"Listen 127.0.0.1:{port}", f"<VirtualHost 127.0.0.1:{port}>", f'DocumentRoot "{root}"', "</VirtualHost>"]


class Gunicorn(servers.Server):
    """gunicorn, which serves the application by WSGI with workers of the usual kind, by the interpreter of the gateway's."""

    def __init__(self, setting: Setting, *options: str) -> None:
        self.port = servers.free_port()
        # It lies in an environment that the servers' user may not be able to reach.
        folder = Path(tempfile.mkdtemp(prefix="gunicorn-", dir=setting.root))
        folder.chmod(0o755)
        shutil.copy(setting.scripts / "application.py", folder)
        for name in ("gunicorn", "packaging"):
            found = importlib.util.find_spec(name)
            if found is None or found.origin is None:
                raise ModuleNotFoundError(f"there is no {name}")
            shutil.copytree(Path(found.origin).parent, folder / name)
        words = ["/usr/bin/python3", "-m", "gunicorn", "--log-level=error", f"--bind=127.0.0.1:{self.port}"]
        super().__init__("gunicorn", [*words, *options, "application:wsgi"], setting.folder("gunicorn"), cwd=folder)
        self.wait_until("listens", self.port)


@dataclasses.dataclass
class Block:
    """Requests that followed each other."""

    seconds: float
    # Microseconds from the start of the block to that of each request, and those that it took.
    starts: list[float]
    times: list[float]


def ask(setting: Setting, port: int, requests: int, at_a_time: int, page: str = PERL, query: bool = True) -> Block:
    """Asks for a page many times. Every reply is checked."""
    path, body = (page + QUERY, BODY) if query else (page, STATIC_BODY)
    command = [str(setting.asks), str(port), str(requests), str(at_a_time), path, body]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"port {port}, {page}: {done.stderr}"
    first, *lines = done.stdout.splitlines()
    pairs = [line.split() for line in lines]
    assert len(pairs) == requests, f"{len(pairs)} of {requests} replies"
    return Block(float(first), [float(start) for start, _ in pairs], [float(took) for _, took in pairs])


@dataclasses.dataclass
class Way:
    """A way to get a page, and what was measured of it."""

    name: str
    port: int
    at_a_time: int = 1
    page: str = PERL
    query: bool = True
    # Requests of a block: fewer of what is slow.
    requests: int = 200
    blocks: list[Block] = dataclasses.field(default_factory=list)

    def ask(self, setting: Setting) -> Block:
        """A block of requests."""
        return ask(setting, self.port, self.requests, self.at_a_time, self.page, self.query)

    @property
    def times(self) -> list[float]:
        """Microseconds of each request."""
        return [took for block in self.blocks for took in block.times]

    @property
    def p50(self) -> float:
        """Microseconds."""
        return statistics.median(self.times)

    @property
    def p99(self) -> float:
        """Microseconds."""
        return sorted(self.times)[int(len(self.times) * 0.99)]

    @property
    def rate(self) -> float:
        """Requests per second, the median of the blocks."""
        return statistics.median(self.requests / block.seconds for block in self.blocks)


def in_turn(setting: Setting, ways: Sequence[Way], rounds: int) -> None:
    """Measures ways in turn, block by block."""
    for number in range(rounds):
        started = time.monotonic()
        for way in ways:
            way.blocks.append(way.ask(setting))
        say(f"  round {number + 1} of {rounds}: {time.monotonic() - started:.1f} s")


def warm_up(setting: Setting, ways: Sequence[Way]) -> None:
    """Asks for what is going to be asked for, until the gateways have as many processes ready as they are going to need."""
    for _ in range(3):
        for way in ways:
            ask(setting, way.port, min(way.requests, 20), way.at_a_time, way.page, way.query)
        time.sleep(0.3)


def rounds(usual: int) -> int:
    """How many rounds: REGROW_BENCH_ROUNDS names another number, for a trial."""
    return int(os.environ.get("REGROW_BENCH_ROUNDS", usual))
