"""How a gateway starts, or says why it cannot, and what its log says of scripts that fail."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

import client
import processes
import servers

APPLICATION = """
def application(environ, start_response):
    if environ["PATH_INFO"] == "/fails":
        raise ValueError("two\\nlines")
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/breaks":
        return broken()
    return [environ.get("HTTP_HOST", "no host").encode()]

def broken():
    yield b"begun"
    raise KeyError("broken")
"""
SCRIPTS = {
    "segv.sh": "kill -SEGV $$\n",
    "exit.sh": "exit 3\n",
    "text.sh": "echo hello\nexit 3\n",
    "breaks.sh": "printf 'Content-Type: text/plain\\n\\nbegun\\n'\nkill -SEGV $$\n",
}


def written(place: servers.Place, name: str, text: str) -> Path:
    """A folder with a file in it."""
    folder = place.folder("start")
    (folder / name).write_text(text)
    return folder


def refused(place: servers.Place, *words: str) -> str:
    """What a gateway says that does not start."""
    command = [str(place.command), "web", "--http", "127.0.0.1:0", *words]
    environment = {"PATH": "/usr/bin:/bin"}
    try:
        limit = processes.PATIENCE_S
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=limit)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"{words}: it serves") from error
    assert done.returncode == 2, (words, done.returncode, done.stderr)
    return done.stderr


BROKEN = {
    "no module": ("nomod:app", "nomod:app cannot be loaded: ModuleNotFoundError: No module named 'nomod'"),
    "no attribute": ("app:nothing", "app:nothing cannot be loaded: AttributeError: module 'app' has no attribute 'nothing'"),
    "not callable": ("app:NUMBER", "app:NUMBER cannot be loaded: TypeError: app:NUMBER is not callable"),
    "no import": ("broken:app", "broken:app cannot be loaded: ZeroDivisionError: division by zero"),
}


@pytest.mark.parametrize("options", [[], ["--no-recycle"]], ids=["recycled", "executed"])
@pytest.mark.parametrize("how", BROKEN)
def test_an_application_that_cannot_be_loaded_is_refused(how: str, options: list[str], place: servers.Place) -> None:
    folder = written(place, "app.py", f"{APPLICATION}\nNUMBER = 1\n")
    (folder / "broken.py").write_text("1 / 0\n")
    name, says = BROKEN[how]
    for interface in ("--wsgi", "--asgi"):
        said = refused(place, *options, interface, name, "--directory", str(folder))
        assert f"regrow: {says}\n" in said, said
        assert said.count("Traceback") == 1, said


@pytest.mark.parametrize("words", [["--function", "--"], ["--program", "--"]], ids=["function", "program"])
@pytest.mark.parametrize("program", ["nosuchprog", "/nothing/there"])
def test_a_program_that_is_not_there_is_refused(program: str, words: list[str], place: servers.Place) -> None:
    said = refused(place, *words, program)
    assert f"regrow: {program}: there is no such program that can be executed\n" in said


def test_who_wants_it_has_a_gateway_that_serves_nothing_yet(place: servers.Place) -> None:
    folder = place.folder("start")
    options = ["--start-anyway", "--directory", str(folder)]
    with servers.serving(place, *options, served=["--wsgi", "late:application"]) as gateway:
        assert client.get(gateway.http, "/").status == 500
        assert "late:application cannot be loaded: ModuleNotFoundError: No module named 'late'" in gateway.words()
        (folder / "late.py").write_text(APPLICATION)
        assert client.get(gateway.http, "/").status == 200


def test_an_interpreter_is_found_from_where_the_gateway_starts(place: servers.Place) -> None:
    folder = written(place, "app.py", APPLICATION)
    beside = folder.parent / "venv" / "bin"
    beside.mkdir(parents=True, exist_ok=True)
    (beside / "python").symlink_to("/usr/bin/python3")
    start = place.folder("elsewhere") / "deeper"
    start.mkdir(mode=0o777)
    relative = os.path.relpath(beside / "python", start)
    command = [str(place.command), "web", "--http", "127.0.0.1:0", "--python", relative, "--directory", str(folder)]
    server = servers.Server("relative", [*command, "--wsgi", "app:application"], start, cwd=start)
    try:
        pattern = re.compile(r"serving http://127\.0\.0\.1:(\d+)/")
        processes.wait_for("it serves", lambda: server.process.poll() is not None or bool(pattern.search(server.words())))
        found = pattern.search(server.words())
        assert found, server.words()
        assert client.get(int(found[1]), "/").status == 200
    finally:
        server.stop()


def test_the_authority_of_http2_is_the_host(place: servers.Place) -> None:
    folder = written(place, "app.py", APPLICATION)
    with servers.serving(place, "--directory", str(folder), served=["--wsgi", "app:application"]) as gateway:
        reply = client.ask_h2c(gateway.http, client.Request("/"))
        assert (reply.status, reply.body) == (200, f"127.0.0.1:{gateway.http}".encode())


def test_a_reload_makes_anew_what_it_drops(place: servers.Place) -> None:
    """No request of a time of reloads is executed, and none waits: the old images answer until the new ones are there."""
    with servers.serving(place, served=[str(place.scripts)]) as gateway:
        assert client.get(gateway.http, "/query.pl").status == 200
        before = gateway.runs()
        family = processes.descendants(gateway.pid)
        for _ in range(3):
            os.kill(gateway.pid, signal.SIGHUP)
            for _ in range(20):
                assert client.get(gateway.http, "/query.pl").status == 200

        def are_others() -> bool:
            assert client.get(gateway.http, "/query.pl").status == 200
            return not family & processes.descendants(gateway.pid)

        processes.wait_for("the images are others", are_others)
        after = gateway.runs()
        assert after.by_way.get("exec", 0) == before.by_way.get("exec", 0), (before, after)
        assert after.all >= before.all + 60


def test_a_reload_of_what_is_broken_keeps_what_there_is(place: servers.Place) -> None:
    folder = written(place, "app.py", APPLICATION)
    with servers.serving(place, "--directory", str(folder), served=["--wsgi", "app:application"]) as gateway:
        assert client.get(gateway.http, "/").status == 200
        (folder / "app.py").write_text("1 / 0\n")
        os.kill(gateway.pid, signal.SIGHUP)
        why = "not reloaded: app:application cannot be loaded: ZeroDivisionError: division by zero"
        processes.wait_for("it says why", lambda: why in gateway.words())
        (folder / "app.py").write_text(APPLICATION)
        assert client.get(gateway.http, "/").status == 200


def test_the_log_alone_is_opened_anew(place: servers.Place) -> None:
    with servers.serving(place, served=[str(place.scripts)]) as gateway:
        assert client.get(gateway.http, "/query.pl").status == 200
        before = gateway.runs()
        gateway.log.rename(gateway.log.with_suffix(".1"))
        os.kill(gateway.pid, signal.SIGUSR1)
        processes.wait_for("there is a new log", gateway.log.exists)
        for _ in range(5):
            assert client.get(gateway.http, "/query.pl").status == 200
        assert gateway.runs().by_way.get("exec", 0) == before.by_way.get("exec", 0)


def test_the_log_says_how_a_script_has_failed(place: servers.Place) -> None:
    folder = place.folder("fails")
    for name, text in SCRIPTS.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    says = {
        "segv.sh": "the script writes no reply: the script has ended with signal: 11 (SIGSEGV)",
        "exit.sh": "the script writes no reply: the script has ended with exit status: 3",
        "text.sh": "there is no blank line after the head of the reply: the script has ended with exit status: 3",
    }
    with servers.serving(place, served=[str(folder)]) as gateway:
        for name, words in says.items():
            assert client.get(gateway.http, f"/{name}").status == 502
            lines = [line for line in gateway.words().splitlines() if f"GET /{name} " in line]
            assert len(lines) == 1, gateway.words()
            assert words in lines[0]
            assert "cause=" not in lines[0]


def test_a_reply_that_breaks_off_is_not_logged_as_whole(place: servers.Place) -> None:
    folder = place.folder("fails")
    (folder / "breaks.sh").write_text(f"#!/bin/sh\n{SCRIPTS['breaks.sh']}")
    (folder / "breaks.sh").chmod(0o755)
    with servers.serving(place, served=[str(folder)]) as gateway:
        with client.connect(gateway.http) as connection:
            connection.sendall(b"GET /breaks.sh HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            while connection.recv(1 << 16):
                pass
        processes.wait_for("it is logged", lambda: len(gateway.logged()) == 1)
        assert '" 500 6' in gateway.logged()[0]


def test_a_traceback_is_one_record_of_the_application(place: servers.Place) -> None:
    folder = written(place, "app.py", APPLICATION)
    with servers.serving(place, "--directory", str(folder), served=["--wsgi", "app:application"]) as gateway:
        assert client.get(gateway.http, "/fails").status == 500
        processes.wait_for("the traceback is logged", lambda: "    lines name=" in gateway.words())
        lines = gateway.words().splitlines()
        first = next(number for number, line in enumerate(lines) if "Traceback (most recent call last):" in line)
        last = lines.index('    lines name="app:application"')
        assert last > first + 2
        assert all(line.startswith("    ") for line in lines[first + 1 : last + 1]), lines
