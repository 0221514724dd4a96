"""Measures pages that a fresh process makes, beside what people use for the same: `fast_pages.py REGROW OUTPUT`.

The ways of a part take turns in one run, block by block. The client is `asks` (src/asks.c): it asks as ab does, and other
than ab it looks at every reply, its status and all of its body, which names the number of the request. For two of the ways
the figures of ab itself stand beside. Times are from before the client connects to the end of the reply; p50 is the median
of all requests of a way, requests per second the median of its blocks. The gateways count how they ran what they ran. A run
at another point than the one that is claimed is part of the figures; the benchmark fails where more than 5 % are.

The table goes to standard output, and the figures go to OUTPUT (`figures.py`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import figures
import servers
import setting
from figures import Figure, figure
from setting import BODY, PERL, PROGRAM, STATIC, Gateway, Gunicorn, Setting, Way, say

# Blocks of each way.
ROUNDS = 10
# Requests of a block of what executes Perl, and of what starts Python for each.
SLOW, SLOWEST = 100, 20
# How often servers are started for their first request, and after how many seconds a start has nothing left to do.
STARTS = 20
SETTLED = 0.2
# What answers a first request behind nginx.
FIRST_OURS, FIRST_THEIRS = "nginx + regrow web", "nginx + fcgiwrap"
# What the name of a figure begins with that has to hold.
CLAIM = "runs at "


def claim(name: str, runs: dict[str, int], point: str) -> Figure:
    """Whether nearly all runs were made at the point that is claimed. If not, the benchmark fails when all is measured."""
    return figure(f"{CLAIM}{point}: {name}", setting.part_at(name, runs, point) * 100, setting.AT_THE_POINT * 100, "%")


class Gateways:
    """Gateways of one part, each with the point that its runs are to be made at."""

    def __init__(self, own: Setting, stack: contextlib.ExitStack) -> None:
        self.setting = own
        self.stack = stack
        self.claims: list[tuple[str, Gateway, str]] = []

    def start(self, name: str, point: str, *options: str) -> Gateway:
        """Starts one."""
        gateway = Gateway(self.setting, *options)
        self.stack.callback(gateway.stop)
        self.claims.append((name, gateway, point))
        return gateway

    def measure(self, ways: Sequence[Way], rounds: int) -> list[Figure]:
        """Measures ways in turn, and gives which part of the runs was as claimed."""
        setting.warm_up(self.setting, ways)
        before = [gateway.runs() for _, gateway, _ in self.claims]
        setting.in_turn(self.setting, ways, rounds)
        rows = []
        for (name, gateway, point), runs in zip(self.claims, before):
            rows.append(claim(name, setting.added(runs, gateway.runs()), point))
        return rows


@contextlib.contextmanager
def part(own: Setting, name: str) -> Iterator[Gateways]:
    """A part of the benchmark: what it starts ends with it."""
    say(f"{name} ...")
    with contextlib.ExitStack() as stack:
        yield Gateways(own, stack)


def script_ways(gateways: Gateways) -> dict[str, Way]:
    """nginx, Apache and the gateway, and every way in which they answer with a script."""
    own, stack = gateways.setting, gateways.stack
    perl = gateways.start("Perl", "warm", str(own.scripts))
    warm = gateways.start("Perl, --warm-script", "warm", "--warm-script", str(own.scripts))
    program = gateways.start("C", "main", str(own.scripts))
    fcgiwrap = setting.Fcgiwrap(own)
    stack.callback(fcgiwrap.stop)
    plain_nginx, plain_apache = servers.free_port(), servers.free_port()
    sockets = {"perl": f"unix:{perl.socket}", "c": f"unix:{program.socket}", "fcgiwrap": f"unix:{fcgiwrap.socket}"}
    nginx = servers.Nginx(own, sockets, more=setting.static_of_nginx(own.scripts, plain_nginx))
    stack.callback(nginx.stop)
    handlers = {"perl": f"proxy:unix:{perl.socket}|fcgi://localhost/"}
    apache = servers.Apache(own, handlers, more=setting.static_of_apache(own.scripts, plain_apache))
    stack.callback(apache.stop)
    ways: list[Way] = []
    for at_a_time in (1, 10):
        ways += [
            Way("nginx + regrow web, Perl", nginx.ports["perl"], at_a_time),
            Way("nginx + fcgiwrap, Perl", nginx.ports["fcgiwrap"], at_a_time, requests=SLOW),
            Way("Apache + regrow web, Perl", apache.ports["perl"], at_a_time),
            Way("Apache event + mod_cgid, Perl", apache.cgi, at_a_time, requests=SLOW),
            Way("own HTTP server, Perl", perl.http, at_a_time),
            Way("own HTTP server, Perl, --warm-script", warm.http, at_a_time),
        ]
    ways += [
        Way("own HTTP server, C", program.http, page=PROGRAM),
        Way("nginx + regrow web, C", nginx.ports["c"], page=PROGRAM),
        Way("nginx + fcgiwrap, C", nginx.ports["fcgiwrap"], page=PROGRAM),
        Way("Apache event + mod_cgid, C", apache.cgi, page=PROGRAM),
        Way("nginx, static page", plain_nginx, page=STATIC, query=False),
        Way("Apache event, static page", plain_apache, page=STATIC, query=False),
    ]
    return {f"{way.name}, c={way.at_a_time}": way for way in ways}


def scripts(own: Setting, rounds: int) -> list[Figure]:
    """Scripts, behind nginx, behind Apache and by the gateway itself."""
    with part(own, "scripts") as gateways:
        ways = script_ways(gateways)
        claims = gateways.measure(list(ways.values()), rounds)
        by_ab = [ab(ways[f"nginx + {what}, Perl, c=1"]) for what in ("regrow web", "fcgiwrap")]

    def faster(name: str, ours: str, theirs: str, asked: float) -> Figure:
        return figure(name, ways[f"{theirs}, c=1"].p50 / ways[f"{ours}, c=1"].p50, asked, "times")

    def more(name: str, ours: str, theirs: str, asked: float) -> Figure:
        return figure(name, ways[f"{ours}, c=10"].rate / ways[f"{theirs}, c=10"].rate, asked, "times")

    behind_nginx = ("nginx + regrow web, Perl", "nginx + fcgiwrap, Perl")
    behind_apache = ("Apache + regrow web, Perl", "Apache event + mod_cgid, Perl")
    rows = [
        faster("Perl behind nginx, c=1, p50, against nginx + fcgiwrap", *behind_nginx, 6),
        more("Perl behind nginx, c=10, requests/s, against nginx + fcgiwrap -c 10", *behind_nginx, 4),
        faster("Perl behind Apache, c=1, p50, against Apache event + mod_cgid", *behind_apache, 4),
        more("Perl behind Apache, c=10, requests/s, against Apache event + mod_cgid", *behind_apache, 4),
        faster("C, own HTTP server, c=1, p50, against nginx + fcgiwrap", "own HTTP server, C", "nginx + fcgiwrap, C", 4),
    ]
    for way, (p50, name) in zip((ways[f"{name}, c=1"] for name in behind_nginx), zip(by_ab, behind_nginx)):
        rows.append(figure(f"{name}, c=1, p50 by ab", p50, None, "us"))
        rows.append(figure("by asks, of that by ab", way.p50 / p50, None, "times"))
    return rows + absolute(ways.values()) + claims


def ab(way: Way) -> float:
    """The median that ab says, in microseconds. Of a reply it sees status and length."""
    url = f"http://127.0.0.1:{way.port}{way.page}{setting.QUERY.replace('#', '0')}"
    with tempfile.NamedTemporaryFile() as csv:
        command = ["ab", "-q", "-n", str(way.requests), "-c", str(way.at_a_time), "-e", csv.name, url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        told = csv.read().decode()
    assert re.search(r"^Failed requests: +0$", done.stdout, re.MULTILINE), done.stdout
    assert "Non-2xx" not in done.stdout, done.stdout
    assert re.search(rf"^Document Length: +{len(BODY.replace('#', '0'))} bytes$", done.stdout, re.MULTILINE), done.stdout
    found = re.search(r"^50,([\d.]+)$", told, re.MULTILINE)
    assert found, told
    return float(found[1]) * 1000


def absolute(ways: Iterable[Way]) -> list[Figure]:
    """What each way takes."""
    rows = []
    for way in ways:
        name = f"{way.name}, c={way.at_a_time}"
        rows += [figure(f"{name}, p50", way.p50, None, "us"), figure(f"{name}, p99", way.p99, None, "us")]
        if way.at_a_time > 1:
            rows.append(figure(f"{name}, requests/s", way.rate, None, "1/s"))
    return rows


@contextlib.contextmanager
def started(own: Setting, folder: Path, *options: str) -> Iterator[tuple[Gateway, float]]:
    """A gateway that has just been started, and how long that took. What its start has left to be done is done."""
    before = time.perf_counter()
    gateway = Gateway(own, *options, str(folder))
    took = time.perf_counter() - before
    try:
        time.sleep(SETTLED)
        yield gateway, took
    finally:
        gateway.stop()


def first_behind_nginx(own: Setting, turn: int, ways: dict[str, int]) -> dict[str, float]:
    """The first request behind an nginx that has just started, to a gateway and to fcgiwrap, asked first in turn."""
    with contextlib.ExitStack() as stack:
        gateway, _ = stack.enter_context(started(own, own.scripts, *setting.OF_NGINX))
        fcgiwrap = setting.Fcgiwrap(own)
        stack.callback(fcgiwrap.stop)
        times = {}
        kinds = {FIRST_OURS: gateway.socket, FIRST_THEIRS: fcgiwrap.socket}
        for kind in sorted(kinds, reverse=turn % 2 == 1):
            nginx = servers.Nginx(own, {"page": f"unix:{kinds[kind]}"})
            stack.callback(nginx.stop)
            (times[kind],) = setting.ask(own, nginx.ports["page"], 1, 1).times
        count_in(ways, gateway)
    return times


def first_alone(own: Setting, is_prepared: bool, ways: dict[str, int]) -> tuple[float, float]:
    """The first request to a gateway whose page was there when it started, or has come later; and the seconds of the start."""
    folder = own.empty()
    if is_prepared:
        own.appear(folder, PERL)
    with started(own, folder) as (gateway, took):
        if not is_prepared:
            own.appear(folder, PERL)
        (first,) = setting.ask(own, gateway.http, 1, 1).times
        count_in(ways, gateway)
    return first, took


def count_in(ways: dict[str, int], gateway: Gateway) -> None:
    """Adds the runs of a gateway."""
    for how, count in gateway.runs().items():
        ways[how] = ways.get(how, 0) + count


def first_requests(own: Setting, rounds: int) -> list[Figure]:
    """The first request of a page after a start, beside that of nginx with fcgiwrap, which are started as freshly."""
    say("first requests ...")
    behind: dict[str, list[float]] = {FIRST_OURS: [], FIRST_THEIRS: []}
    alone: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    ways: dict[str, int] = {}
    late_ways: dict[str, int] = {}
    for turn in range(rounds * STARTS // ROUNDS):
        for kind, first in first_behind_nginx(own, turn, ways).items():
            behind[kind].append(first)
        for is_prepared, measured in alone.items():
            measured.append(first_alone(own, is_prepared, ways if is_prepared else late_ways))
    ours, theirs = (statistics.median(behind[kind]) for kind in (FIRST_OURS, FIRST_THEIRS))
    (prepared, start), (late, bare) = ([statistics.median(column) for column in zip(*alone[kind])] for kind in (True, False))
    return [
        figure("first request behind nginx, against nginx + fcgiwrap", theirs / ours, 2, "times"),
        figure(f"first request, {FIRST_OURS}", ours, None, "us"),
        figure(f"first request, {FIRST_THEIRS}", theirs, None, "us"),
        figure("first request, own HTTP server", prepared, None, "us"),
        figure("first request, own HTTP server, of a page that has come after the start", late, None, "us"),
        figure("how much longer the start takes that prepares a page", (start - bare) * 1e3, None, "ms"),
        claim("first requests of pages that are there at the start", ways, "warm"),
    ]


def application_ways(gateways: Gateways) -> dict[str, Way]:
    """The gateway with Python applications, and gunicorn where it is installed."""
    own = gateways.setting
    wsgi = gateways.start("WSGI", "warm", "--wsgi", "application:wsgi", "--directory", str(own.scripts))
    asgi = gateways.start("ASGI", "warm", "--asgi", "application:asgi", "--directory", str(own.scripts))
    ways = [Way("WSGI", wsgi.http, page="/"), Way("WSGI", wsgi.http, 10, page="/"), Way("ASGI", asgi.http, page="/")]
    if importlib.util.find_spec("gunicorn") is None:
        say("left out: gunicorn, which is not installed")
    else:
        kinds: dict[str, list[str]] = {
            "gunicorn sync, shared process": [],
            "gunicorn --max-requests 1": ["--max-requests=1"],
            "gunicorn --max-requests 1 --preload": ["--max-requests=1", "--preload"],
            "gunicorn --max-requests 1 --preload --workers 4": ["--max-requests=1", "--preload", "--workers=4"],
        }
        for name, options in kinds.items():
            server = Gunicorn(own, *options)
            gateways.stack.callback(server.stop)
            ways.append(Way(name, server.port, page="/", requests=SLOWEST if options else 200))
        ways.append(Way("gunicorn sync, shared process", ways[3].port, 10, page="/"))
    return {f"{way.name}, c={way.at_a_time}": way for way in ways}


def applications(own: Setting, rounds: int) -> list[Figure]:
    """Python applications, each request in a process of its own or not."""
    with part(own, "applications") as gateways:
        ways = application_ways(gateways)
        claims = gateways.measure(list(ways.values()), rounds)
    rows = []
    if "gunicorn --max-requests 1, c=1" in ways:
        ours = ways["WSGI, c=1"].p50
        one, preload, more = (
            ways[f"gunicorn --max-requests 1{how}, c=1"].p50 for how in ("", " --preload", " --preload --workers 4")
        )
        shared = ways["gunicorn sync, shared process, c=1"].p50
        rows = [
            figure("WSGI, a fresh process each, p50, against gunicorn --max-requests 1", one / ours, 60, "times"),
            figure("the same against --max-requests 1 --preload", preload / ours, None, "times"),
            figure("the same against --max-requests 1 --preload --workers 4", more / ours, None, "times"),
            figure("times as long as gunicorn sync, no isolation, p50", ours / shared, 2, "times", True),
        ]
    return rows + absolute(ways.values()) + claims


def main() -> None:
    """Measures everything."""
    regrow_command, output = sys.argv[1:]
    started = time.monotonic()
    own = Setting(Path(regrow_command))
    rows: list[Figure] = []
    try:
        for measure in (scripts, first_requests, applications):
            for one in measure(own, setting.rounds(ROUNDS)):
                figures.show(one)
                rows.append(one)
    finally:
        own.remove()
    figures.write(Path(output), rows)
    say(f"{time.monotonic() - started:.0f} s")
    broken = [one["name"] for one in rows if one["name"].startswith(CLAIM) and not one["holds"]]
    if broken:
        sys.exit(f"what was measured is not what is claimed: too few {'; '.join(broken)}")


if __name__ == "__main__":
    main()
