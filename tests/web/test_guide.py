"""The guide's recipes for web servers, followed to the letter: Debian's nginx and Apache as their packages set them up.

The servers run as root with workers of www-data, in namespaces of their own: they find their own /srv, /run and /etc, and
nobody else's port 80.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import processes
import servers

GUIDE = servers.HERE.parent.parent / "docs" / "guide" / "src" / "web.md"
SCRIPT = '#!/bin/sh\nprintf \'Content-Type: text/plain\\n\\n%s %s\' "$SCRIPT_NAME" "$PATH_INFO"\n'
# What the servers may change: a copy of the first, and empty folders for the others.
COPIED = ("/etc/nginx", "/etc/apache2")
EMPTY = ("/srv", "/run", "/run/lock", "/var/log", "/var/log/nginx", "/var/log/apache2", "/var/lib/nginx", "/var/lib/apache2")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts nginx and Apache with workers of another user")


def recipe(language: str, number: int = 0) -> str:
    """A block of code in a language, of what the guide says about web servers."""
    text = GUIDE.read_text().split("\n## Behind a web server\n", 1)[1].split("\n## ", 1)[0]
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(found) > number, f"the guide has {len(found)} blocks of {language}"
    return found[number]


class Machine:
    """Namespaces with a network and with folders of their own, which a process holds."""

    def __init__(self, place: servers.Place) -> None:
        self.place = place
        self.state = place.folder("machine")
        self.started: list[subprocess.Popen[bytes]] = []
        there = [path for path in COPIED if Path(path).is_dir()]
        copies = "".join(f"cp -a {path} {self.state}{path}; mount --bind {self.state}{path} {path}\n" for path in there)
        empty = "".join(f"mkdir -p {path}; mount -t tmpfs -o mode=755 none {path}\n" for path in EMPTY)
        (self.state / "etc").mkdir()
        script = f"set -e\nip link set lo up\n{copies}{empty}touch {self.state}/ready\nexec cat\n"
        command = ["unshare", "--mount", "--net", "sh", "-c", script]
        self.holder = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=(self.state / "said").open("wb"))

        def is_ready() -> bool:
            assert self.holder.poll() is None, (self.state / "said").read_text()
            return (self.state / "ready").exists()

        processes.wait_for("the namespaces are made", is_ready)

    def enter(self, command: list[str]) -> list[str]:
        """A command within."""
        return ["nsenter", f"--target={self.holder.pid}", "--mount", "--net", "--", *command]

    def run(self, *command: str, text: str | None = None) -> str:
        """What a command within prints."""
        environment = {"PATH": f"{self.place.root}:/usr/sbin:/usr/bin:/sbin:/bin"}
        done = subprocess.run(self.enter([*command]), input=text, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def write(self, path: str, text: str) -> None:
        """A file within."""
        self.run("sh", "-c", 'mkdir -p "$(dirname "$1")" && cat > "$1"', "sh", path, text=text)

    def start(self, name: str, command: str) -> None:
        """Starts a server by a line for the shell."""
        environment = {"PATH": f"{self.place.root}:/usr/sbin:/usr/bin:/sbin:/bin"}
        said = (self.state / f"{name}.said").open("wb")
        within = self.enter(["sh", "-c", f"exec {command}"])
        self.started.append(subprocess.Popen(within, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment))

    def said(self, name: str) -> str:
        """What a server has said so far. Fails if one has ended."""
        words = {path.stem: path.read_text(errors="replace") for path in self.state.glob("*.said")}
        assert all(process.poll() is None for process in self.started), words
        return words[name]

    def get(self, path: str) -> tuple[str, str]:
        """Status and body of the reply at port 80."""
        command = self.enter(["curl", "-s", "--max-time", "60", "-w", "\n%{http_code}", f"http://127.0.0.1{path}"])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        body, _, status = done.stdout.rpartition("\n")
        return status, body

    def answers(self, name: str) -> None:
        """Waits until a web server listens, and checks that it passes on what the script says."""
        processes.wait_for(f"{name} listens", lambda: self.said(name) is not None and self.get("/")[0] != "000")
        assert self.get("/cgi/form.sh/info") == ("200", "/cgi/form.sh /info")

    def end(self) -> None:
        """Ends the servers, and the namespaces with them."""
        for process in reversed(self.started):
            process.terminate()
            process.wait(processes.PATIENCE_S)
        self.holder.communicate(b"")


@pytest.fixture
def machine(place: servers.Place) -> Iterator[Machine]:
    """A machine on which the guide's line has started the gateway."""
    made = Machine(place)
    try:
        made.write("/srv/cgi/form.sh", SCRIPT)
        made.run("chmod", "755", "/srv/cgi/form.sh")
        made.start("gateway", recipe("sh").strip())
        processes.wait_for("the gateway serves", lambda: "serving FastCGI" in made.said("gateway"))
        yield made
    finally:
        made.end()


def test_nginx(machine: Machine) -> None:
    site = Path("/etc/nginx/sites-available/default").read_text()
    assert site.count("\n\tserver_name _;\n") == 1
    text = site.replace("\n\tserver_name _;\n", f"\n\tserver_name _;\n{recipe('nginx')}")
    machine.write("/etc/nginx/sites-available/default", text)
    machine.start("nginx", "nginx -g 'daemon off;'")
    machine.answers("nginx")


@pytest.mark.skipif(
    not Path("/etc/apache2/apache2.conf").exists(),
    reason="the package apache2, which has Debian's configuration, is not installed (scripts/install-deps test)",
)
def test_apache(machine: Machine) -> None:
    machine.write("/etc/apache2/conf-enabled/regrow.conf", recipe("apache"))
    machine.run("sh", "-ec", recipe("sh", 1))
    machine.start("apache", "apache2ctl -DFOREGROUND")
    machine.answers("apache")


def test_nobody_but_root_and_the_web_server_reaches_the_socket(machine: Machine) -> None:
    assert machine.run("stat", "-c", "%a %U %G", "/run/regrow-web.sock").split() == ["660", "root", "www-data"]
    probe = "import socket; socket.socket(socket.AF_UNIX).connect('/run/regrow-web.sock')"
    machine.run("setpriv", "--reuid=www-data", "--regid=www-data", "--clear-groups", "/usr/bin/python3", "-c", probe)
    command = machine.enter(["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "/usr/bin/python3", "-c", probe])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr, done
