"""How the gateway serves over time: its queue, its end, its reloading, its log and its metrics."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import socket
import threading
from pathlib import Path

import pytest

import client
import processes
import servers
from watched import plain, started

NEVER = ["--timeout", "3600", "--idle-timeout", "3600", "--queue-timeout", "3600"]


class Asking:
    """A request in a thread of its own."""

    def __init__(self, port: int, path: str) -> None:
        self.reply: client.Reply | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._ask, args=(port, path))
        self._thread.start()

    def _ask(self, port: int, path: str) -> None:
        try:
            self.reply = client.get(port, path)
        except Exception as error:
            self.error = error

    def done(self) -> client.Reply:
        """The reply, when it has come."""
        self._thread.join()
        assert self.reply is not None, self.error
        return self.reply


def test_a_queue_that_is_full(place: servers.Place) -> None:
    with servers.serving(place, *NEVER, "--max-requests", "2", "--max-queue", "3") as gateway:
        under_way = [Asking(gateway.http, "/waits.sh") for _ in range(2)]
        processes.wait_for("two scripts are under way", lambda: started(gateway) == 2)
        queued = [Asking(gateway.http, "/waits.sh") for _ in range(3)]
        processes.wait_for("three wait", lambda: "regrow_web_waiting 3" in gateway.metrics())
        for _ in range(5):
            reply = client.get(gateway.http, "/plain.sh")
            assert reply.status == 503
            assert int(reply.values("retry-after")[0]) > 0
        assert started(gateway) == 2
        (gateway.notes / "go").touch()
        assert [one.done().status for one in [*under_way, *queued]] == [200] * 5
        plain(gateway)
        statuses = [line.rsplit('" ', 1)[1].split()[0] for line in gateway.logged()]
        assert sorted(statuses) == ["200"] * 6 + ["503"] * 5


def test_the_queue_has_a_time(place: servers.Place) -> None:
    with servers.serving(place, "--timeout", "3600", "--queue-timeout", "1", "--max-requests", "1") as gateway:
        one = Asking(gateway.http, "/waits.sh")
        processes.wait_for("the script is under way", lambda: started(gateway) == 1)
        assert client.get(gateway.http, "/plain.sh").status == 503
        (gateway.notes / "go").touch()
        assert one.done().status == 200
        plain(gateway)


def test_one_who_waits_and_goes_away_gives_up_the_place(place: servers.Place) -> None:
    with servers.serving(place, *NEVER, "--max-requests", "1", "--max-queue", "1") as gateway:
        one = Asking(gateway.http, "/waits.sh")
        processes.wait_for("the script is under way", lambda: started(gateway) == 1)
        with client.connect(gateway.http) as connection:
            connection.sendall(b"GET /plain.sh HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            processes.wait_for("it waits", lambda: "regrow_web_waiting 1" in gateway.metrics())
        processes.wait_for("nobody waits", lambda: "regrow_web_waiting 0" in gateway.metrics())
        (gateway.notes / "go").touch()
        assert one.done().status == 200
        plain(gateway)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end_waits_for_what_is_under_way(number: int, place: servers.Place) -> None:
    with servers.serving(place, *NEVER, "--grace", "3600") as gateway:
        one = Asking(gateway.http, "/waits.sh")
        idle = client.connect(gateway.http)
        processes.wait_for("the script is under way", lambda: started(gateway) == 1)
        os.kill(gateway.pid, number)

        def refuses() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", gateway.http)) != 0

        processes.wait_for("nobody is let in any more", refuses)
        assert gateway.process.poll() is None
        (gateway.notes / "go").touch()
        assert one.done().body == b"waited\n"
        assert gateway.process.wait(processes.PATIENCE_S) == 0
        idle.close()
        assert not gateway.socket.exists()


def test_a_reply_without_a_length_ends_its_connection(place: servers.Place) -> None:
    """Each time: whether its process has ended when its output has is a matter of microseconds."""
    with servers.serving(place, *NEVER, "--header-timeout", "3600", served=[str(place.scripts)]) as gateway:
        for number in range(500):
            with client.connect(gateway.http) as connection:
                connection.sendall(f"GET /echo.cgi?{number} HTTP/1.0\r\n\r\n".encode())
                reply = b""
                while piece := connection.recv(1 << 16):
                    reply += piece
                assert reply.startswith(b"HTTP/1.0 200 OK\r\n"), reply


def test_the_end_does_not_wait_for_ever(place: servers.Place) -> None:
    with servers.serving(place, *NEVER, "--grace", "1") as gateway:
        one = Asking(gateway.http, "/sleeps.sh")
        processes.wait_for("the script is under way", lambda: started(gateway) == 1)
        os.kill(gateway.pid, signal.SIGTERM)
        gateway.process.wait(processes.PATIENCE_S)
        pids = [int(line) for line in (gateway.notes / "pids").read_text().split()]
        assert one.done().status == 504
        processes.wait_for("the scripts are gone", lambda: not any(processes.exists(pid) for pid in pids))


def test_the_end_takes_along_what_goes_on_behind_a_reply(place: servers.Place) -> None:
    with servers.serving(place, *NEVER, "--grace", "1") as gateway:
        assert client.get(gateway.http, "/sleeps.sh?whole").body == b"ok\n"
        processes.wait_for("the script goes on", lambda: started(gateway) == 1)
        pids = [int(line) for line in (gateway.notes / "pids").read_text().split()]
        assert len(pids) == 3
        assert all(processes.exists(pid) for pid in pids)
        assert gateway.stop() == 0
        processes.wait_for("the scripts are gone", lambda: not any(processes.exists(pid) for pid in pids))


def test_nothing_is_left_when_it_has_ended(place: servers.Place) -> None:
    with servers.serving(place) as gateway:
        plain(gateway)
        family = processes.descendants(gateway.pid)
        assert gateway.stop() == 0
        processes.wait_for("all it started is gone", lambda: not any(processes.exists(pid) for pid in family))


def test_the_log_is_opened_anew(place: servers.Place) -> None:
    with servers.serving(place) as gateway:
        plain(gateway)
        processes.wait_for("it is logged", lambda: len(gateway.logged()) == 1)
        aside = gateway.log.with_suffix(".1")
        gateway.log.rename(aside)
        plain(gateway)
        os.kill(gateway.pid, signal.SIGHUP)
        processes.wait_for("there is a new log", gateway.log.exists)
        plain(gateway)
        processes.wait_for("it is logged", lambda: len(gateway.logged()) == 1)
        assert len(aside.read_text().splitlines()) == 2


def test_the_log_has_the_common_format(place: servers.Place) -> None:
    with servers.serving(place) as gateway:
        client.get(gateway.http, "/plain.sh?a=%22b%22\\x")
        client.get(gateway.http, "/none.sh")
        client.ask_h2c(gateway.http, client.Request("/plain.sh", "POST", body=b"x"))
        processes.wait_for("they are logged", lambda: len(gateway.logged()) == 3)
        pattern = re.compile(
            r'127\.0\.0\.1 - - \[\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-)'
        )
        found = [pattern.fullmatch(line) for line in gateway.logged()]
        assert all(found), gateway.logged()
        requests = [match[1] for match in found if match]
        assert requests[0].startswith("GET /plain.sh?a=")
        assert requests[1:] == ["GET /none.sh HTTP/1.1", "POST /plain.sh HTTP/2.0"]
        assert [match[2] for match in found if match] == ["200", "404", "200"]
        assert found[0] is not None
        assert found[0][3] == str(len(b"still here\n"))


def changing(place: servers.Place, name: str, text: str) -> Path:
    """Writes a script, as an editor does: a new file in the place of the old one."""
    path = place.folder("changing") / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("language", ["perl", "sh"])
@pytest.mark.parametrize("options", [[], ["--warm-script"]], ids=["plain", "warm"])
def test_a_script_that_changes_is_served_as_it_is(language: str, options: list[str], place: servers.Place) -> None:
    texts = {
        "perl": '#!/usr/bin/perl\nprint "Content-Type: text/plain\\n\\nversion {}\\n";\n',
        "sh": '#!/bin/sh\nprintf "Content-Type: text/plain\\n\\nversion {}\\n"\n',
    }
    path = changing(place, f"version.{language}", texts[language].format(1))
    with servers.serving(place, *options, served=[str(path.parent)]) as gateway:
        for version in range(1, 8):
            for _ in range(5):
                assert client.get(gateway.http, f"/{path.name}").body == b"version %d\n" % version
            text = texts[language].format(version + 1)
            if version % 2:
                path.write_text(text)
            else:
                fresh = path.with_suffix(".new")
                fresh.write_text(text)
                fresh.chmod(0o755)
                fresh.rename(path)
            if version == 5:
                os.kill(gateway.pid, signal.SIGHUP)
        path.unlink()
        assert client.get(gateway.http, f"/{path.name}").status == 404


def test_a_module_that_changes_is_served_as_it_is(place: servers.Place) -> None:
    script = (
        "#!/usr/bin/perl\nuse FindBin; use lib $FindBin::RealBin; use Own;\n"
        'print "Content-Type: text/plain\\n\\n", Own::text();\n'
    )
    path = changing(place, "uses.pl", script)
    module = path.with_name("Own.pm")
    module.write_text('package Own; sub text { "version 1\n" } 1;\n')
    with servers.serving(place, "--warm-script", served=[str(path.parent)]) as gateway:
        for version in range(1, 5):
            for _ in range(3):
                assert client.get(gateway.http, "/uses.pl").body == b"version %d\n" % version
            module.write_text(f'package Own; sub text {{ "version {version + 1}\n" }} 1;\n')


def test_variables_that_are_asked_for(place: servers.Place) -> None:
    options = [word for name in ("MADE=with = in it", "EMPTY=", "HOME", "NOT_THERE") for word in ("--env", name)]
    with servers.serving(place, *options) as gateway:
        lines = client.get(gateway.http, "/variables.py").body.decode().splitlines()
        assert "MADE='with = in it'" in lines
        assert "EMPTY=''" in lines
        assert f"HOME={str(gateway.state)!r}" in lines
        assert not [line for line in lines if line.startswith("NOT_THERE")]


def test_one_program_for_all_paths(place: servers.Place) -> None:
    with servers.serving(place, "--program", served=["--", str(place.scripts / "pathinfo.py")]) as gateway:
        for path in ("/", "/a/b%20c", "/pathinfo.py/x"):
            body = client.get(gateway.http, f"{path}?q").body.decode()
            assert "QUERY_STRING b'q'" in body
            names = dict(line.split(" ", 1) for line in body.splitlines())
            assert names["PATH_INFO"] == repr(path.replace("%20", " ").encode()), body
            assert names["SCRIPT_NAME"] == "b''"


def test_metrics_count(place: servers.Place) -> None:
    with servers.serving(place, "--no-recycle") as gateway:
        for _ in range(3):
            plain(gateway)
        client.get(gateway.http, "/none.sh")
        text = gateway.metrics()
        assert gateway.runs().by_way == {"exec": 3}
        assert 'regrow_web_replies_total{status="200"} 3' in text
        assert 'regrow_web_replies_total{status="404"} 1' in text
        assert client.get(gateway.metrics_port, "/other").status == 404


# What a pipe holds, and what one holds through which much goes.
USUAL, LARGE = 64 * 1024, 256 * 1024


def told(gateway: servers.Gateway, body: bytes, length: int, pieces: bool = False) -> tuple[str, str]:
    """What standard input and output of a script are that reads a body and writes a reply of this length.

    Both come as they were sent."""
    chunks = tuple(body[at : at + 5000] for at in range(0, len(body), 5000)) if pieces else None
    asked = client.Request(f"/pipes.py?{length}", "POST", body=None if pieces else body, chunks=chunks)
    reply = client.ask(gateway.http, asked)
    assert reply.status == 200
    filling, stdin, stdout, digest = reply.body.decode().split("\n")
    assert filling == "x" * length
    assert digest == hashlib.sha256(body).hexdigest()
    return stdin, stdout


def test_the_pipes_of_long_bodies_are_enlarged(place: servers.Place) -> None:
    body = os.urandom(4 * LARGE)
    with servers.serving(place, served=[str(place.scripts)]) as gateway:
        for _ in range(3):
            assert told(gateway, body[:USUAL], 0) == (f"pipe {USUAL}", f"pipe {USUAL}")
            assert told(gateway, body, 4 * LARGE) == (f"pipe {LARGE}", f"pipe {LARGE}")


def test_a_body_without_a_length_is_a_file(place: servers.Place) -> None:
    body = os.urandom(4 * LARGE)
    with servers.serving(place, served=[str(place.scripts)]) as gateway:
        for _ in range(3):
            assert told(gateway, body[:USUAL], 0, pieces=True)[0] == "memfd:regrow-body (deleted)"
            assert told(gateway, body, 0, pieces=True)[0] != "memfd:regrow-body (deleted)"
