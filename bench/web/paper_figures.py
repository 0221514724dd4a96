"""Repeats the experiments with a web server of Taniguchi, Yamauchi and Tamura (2020; 4.4 and 4.5, figures 10 to 13):
`paper_figures.py REGROW OUTPUT`.

| figure | here |
|---|---|
| 10 | requests one by one, from the first one after a start |
| 11 | 100 requests by ten clients, then 100 by one: how long each part takes |
| 12 | the memory of the gateway's processes meanwhile, and until it is given back |
| 13 | the first part of 11, beside the same for a page that is a file; page faults |

Each figure is measured after a start of its own. `basic`, `recycle`, `pool` and `adaptive` are regrow web behind nginx:
without recycling, and with three policies. With `recycle` the page appears after the start, so that nothing is added ahead,
as in the paper. What was measured goes to OUTPUT (`page_results.py`), from which `draw_pages.py` draws; tables go to standard
output.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import page_results
import processes
import servers
import setting
from page_results import CGID, FCGIWRAP, POLICIES, WAYS, Measured, held_at, median_of_each
from setting import PERL, STATIC, Gateway, Setting, say

# How often all is repeated, how many first requests there are, and how long memory is looked at after the last request.
REPEATS, FIRST, AFTER_S = 3, 20, 4.0
# The ten clients and the one client of figure 11.
REQUESTS, CLIENTS = 100, 10
# How long nothing is asked for after a start, and how often memory is looked at.
SETTLE_S, LOOK_S = 0.3, 0.04
OPTIONS: dict[str, list[str]] = {
    "basic": ["--no-recycle"],
    "recycle": ["--policy", "recycle", *setting.OF_NGINX],
    "pool": ["--policy", "pool", *setting.OF_NGINX],
    "adaptive": ["--policy", "adaptive", *setting.OF_NGINX],
}
# kcmp: whether two tasks have one address space.
KCMP, KCMP_VM = 312, 1
LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class Site:
    """A web server that has been started."""

    page: int
    static: int
    # Its processes, without those that they have started.
    servers: list[int]
    gateway: Gateway | None = None

    def processes(self) -> set[int]:
        """Its processes, with those that they have started."""
        return {*self.servers, *(pid for server in self.servers for pid in processes.descendants(server))}


@contextlib.contextmanager
def counting_faults(made: Site) -> Iterator[list[int]]:
    """Counts the page faults of all processes of a web server, with those that it starts; nothing where there is no perf."""
    if shutil.which("perf") is None:
        yield []
        return
    counted: list[int] = []
    pids = ",".join(map(str, sorted(made.processes())))
    command = ["perf", "stat", "-x,", "-e", "page-faults", "-p", pids]
    perf = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        # It says nothing when it has begun.
        time.sleep(SETTLE_S)
        yield counted
    finally:
        perf.send_signal(signal.SIGINT)
        _, told = perf.communicate()
    found = re.search(r"^(\d+),,page-faults", told, re.MULTILINE)
    assert found, f"perf stat: {told}"
    counted.append(int(found[1]))


@contextlib.contextmanager
def site(own: Setting, way: str) -> Iterator[Site]:
    """Starts what answers in one way, and ends it."""
    corner = copy.copy(own)
    corner.scripts = own.empty()
    own.appear(corner.scripts, STATIC)
    static = servers.free_port()
    if way != "recycle":
        own.appear(corner.scripts, PERL)
    with contextlib.ExitStack() as stack:
        if way == CGID:
            apache = servers.Apache(corner, {}, more=setting.static_of_apache(corner.scripts, static))
            stack.callback(apache.stop)
            made = Site(apache.cgi, static, [apache.pid])
        else:
            gateway = None if way == FCGIWRAP else Gateway(corner, *OPTIONS[way], str(corner.scripts))
            behind = gateway or setting.Fcgiwrap(corner)
            stack.callback(behind.stop)
            more = setting.static_of_nginx(corner.scripts, static)
            nginx = servers.Nginx(corner, {way: f"unix:{behind.socket}"}, more=more)
            stack.callback(nginx.stop)
            made = Site(nginx.ports[way], static, [nginx.pid, behind.pid], gateway)
        time.sleep(SETTLE_S)
        if way == "recycle":
            own.appear(corner.scripts, PERL)
        yield made


def first(own: Setting, way: str, measured: Measured) -> None:
    """Figure 10."""
    with site(own, way) as made:
        block = setting.ask(own, made.page, FIRST, 1)
        measured.first_ms.append([took / 1e3 for took in block.times])


def total(own: Setting, way: str, measured: Measured) -> None:
    """Figures 11 and 13."""
    with site(own, way) as made:
        measured.parallel_ms.append(setting.ask(own, made.page, REQUESTS, CLIENTS).seconds * 1e3)
        measured.one_by_one_ms.append(setting.ask(own, made.page, REQUESTS, 1).seconds * 1e3)
        if made.gateway is not None:
            for how, count in made.gateway.runs().items():
                measured.runs[how] = measured.runs.get(how, 0) + count
        # What has been left to be done is not to be part of a page that is a file.
        time.sleep(SETTLE_S)
        measured.static_ms.append(setting.ask(own, made.static, REQUESTS, CLIENTS, STATIC, query=False).seconds * 1e3)


def faults(own: Setting, way: str, measured: Measured) -> None:
    """Page faults of figure 13. Counting takes time, so that it is a run of its own."""
    with site(own, way) as made:
        with counting_faults(made) as counted:
            setting.ask(own, made.page, REQUESTS, CLIENTS)
        measured.page_faults += counted
        with counting_faults(made) as counted:
            setting.ask(own, made.static, REQUESTS, CLIENTS, STATIC, query=False)
        measured.static_faults += counted


def same_memory(one: int, other: int) -> bool:
    """Whether two tasks have one address space."""
    return bool(LIBC.syscall(KCMP, one, other, KCMP_VM, 0, 0) == 0)


def held_bytes(gateway: int) -> int:
    """What the processes of a gateway hold, kept or at work: anonymous and memory-file pages, shared ones divided among those
    that share them, and page tables. Tasks with one address space count once."""
    seen: dict[tuple[int, ...], list[int]] = {}
    held = 0
    for pid in sorted(processes.descendants(gateway)):
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        fields = {
            line.split(":")[0]: line.split()[1]
            for line in (rollup + status).splitlines()
            if ":" in line and len(line.split()) > 1
        }
        names = ("Pss_Anon", "Pss_Shmem", "VmPTE")
        kib = tuple(int(fields.get(name, 0)) for name in names)
        others = seen.setdefault(kib, [])
        if not any(same_memory(pid, other) for other in others):
            others.append(pid)
            held += sum(kib) * 1024
    return held


def memory(own: Setting, way: str, measured: Measured) -> None:
    """Figure 12. Looking takes time, so that it is a run of its own."""
    with site(own, way) as made:
        assert made.gateway is not None
        pid = made.gateway.pid
        over = threading.Event()
        looks: list[tuple[float, float]] = []

        def look() -> None:
            while not over.is_set():
                looks.append((time.monotonic(), held_bytes(pid) / 2**20))
                over.wait(LOOK_S)

        looker = threading.Thread(target=look)
        looker.start()
        try:
            time.sleep(0.2)
            begin = time.monotonic()
            setting.ask(own, made.page, REQUESTS, CLIENTS)
            middle = time.monotonic()
            setting.ask(own, made.page, REQUESTS, 1)
            end = time.monotonic()
            time.sleep(AFTER_S)
        finally:
            over.set()
            looker.join()
        measured.memory = [(round(at - begin, 3), round(mib, 2)) for at, mib in looks]
        measured.marks = [round(middle - begin, 3), round(end - begin, 3)]


def measure(own: Setting, repeats: int) -> dict[str, Measured]:
    """Everything, the ways in turn."""
    measured = {way: Measured() for way in WAYS}
    for number in range(repeats):
        for part in (first, total):
            for way in WAYS:
                part(own, way, measured[way])
        say(f"  repetition {number + 1} of {repeats}")
    say("  page faults and memory")
    for way in WAYS:
        faults(own, way, measured[way])
    for way in POLICIES:
        memory(own, way, measured[way])
    return measured


def tables(measured: dict[str, Measured]) -> str:
    """The figures as tables."""
    heads = ["", "first request ms", "second", "20th", "10 × 10 ms", "100 one by one ms", "page faults of 10 × 10"]
    heads += ["static 10 × 10 ms", "its page faults"]
    lines = ["| " + " | ".join(heads) + " |"]
    lines.append("|---|" + "---:|" * 8)
    for way, one in measured.items():
        each = median_of_each(one.first_ms)
        times = [each[0], each[1], each[-1], *map(statistics.median, (one.parallel_ms, one.one_by_one_ms))]
        words = [f"{value:.1f}" for value in times] + [f"{sum(one.page_faults):,}"]
        words += [f"{statistics.median(one.static_ms):.1f}", f"{sum(one.static_faults):,}"]
        lines.append(f"| {way} | " + " | ".join(words) + " |")
    lines += ["", "| | before MiB | most | after 10 × 10 | after all | 4 s later |", "|---|" + "---:|" * 5]
    for way in POLICIES:
        one = measured[way]
        middle, end = one.marks
        values = [
            held_at(one, 0),
            max(mib for _, mib in one.memory),
            held_at(one, middle),
            held_at(one, end),
            one.memory[-1][1],
        ]
        lines.append(f"| {way} | " + " | ".join(f"{value:.1f}" for value in values) + " |")
    lines += ["", "runs of figure 11, all repetitions:"]
    for way in POLICIES:
        lines.append(f"  {way}: " + ", ".join(f"{count} {how}" for how, count in sorted(measured[way].runs.items())))
    return "\n".join(lines)


def check(measured: dict[str, Measured]) -> None:
    """Whether `basic` recycled nothing, and the policies that add ahead nearly everything."""
    recycled = {way: setting.part_at(way, measured[way].runs, "warm") for way in POLICIES}
    assert recycled["basic"] == 0, measured["basic"].runs
    for way in ("pool", "adaptive"):
        assert recycled[way] >= setting.AT_THE_POINT, f"{way}: too few runs came out of the warm image: {measured[way].runs}"


def main() -> None:
    """Measures everything."""
    regrow_command, output = sys.argv[1:]
    say("the paper's figures ...")
    started = time.monotonic()
    own = Setting(Path(regrow_command))
    try:
        measured = measure(own, min(REPEATS, setting.rounds(REPEATS)))
    finally:
        own.remove()
    page_results.write(Path(output), measured)
    say(f"{time.monotonic() - started:.0f} s")
    print(tables(measured))
    check(measured)


if __name__ == "__main__":
    main()
