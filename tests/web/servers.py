"""The servers that the tests start: Apache, nginx with fcgiwrap, and the gateway, on ports of their own, in temporary folders.

Whoever runs the tests runs the servers too; when that is root, they run as nobody (REGROW_WEB_USER names another user).
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import processes

HERE = Path(__file__).resolve().parent
MODULES = "/usr/lib/apache2/modules"
# How a name of a script ends, so that nginx knows where the path behind it begins.
ENDS = "awk|cgi|pl|py|sh"


def regrow() -> Path:
    """The command that is tested."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target"))
    return Path(os.environ.get("REGROW", target / "release" / "regrow"))


def owner() -> pwd.struct_passwd:
    """Who the servers run as."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    return pwd.getpwnam(os.environ.get("REGROW_WEB_USER", "nobody"))


def free_port() -> int:
    """A port that nobody listens at, and that the kernel gives nobody: until a server listens, others open connections."""
    lowest_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(min(10_000, lowest_given - 1), lowest_given)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Place:
    """A temporary folder with the scripts in it, which the servers' user can read, and a folder that he can write to."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="regrow-web-")).resolve()
        self.root.chmod(0o755)
        subprocess.run([HERE / "build.sh", self.root], check=True)
        self.scripts = self.root / "scripts"
        self.abuse = self.root / "abuse"
        # The command may lie where the servers' user cannot reach.
        self.command = self.root / "regrow"
        if regrow().exists():
            shutil.copy(regrow(), self.command)

    def folder(self, name: str) -> Path:
        """A new folder of the servers' user."""
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.root))
        path.chmod(0o755)
        if os.geteuid() == 0:
            os.chown(path, owner().pw_uid, owner().pw_gid)
        return path

    def remove(self) -> None:
        """Removes all of it."""
        shutil.rmtree(self.root, ignore_errors=True)


class Server:
    """A process that serves, with those that it starts in a session of their own, and what it says in a file."""

    def __init__(self, name: str, command: list[str], state: Path, *, cwd: Path | None = None) -> None:
        self.name = name
        self.state = state
        self.said = state / f"{name}.stderr"
        # Nothing of the environment of whoever runs the tests may show in a reply.
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(state), "TMPDIR": str(state), "LC_ALL": "C.UTF-8"}
        whose = owner()
        as_root = os.geteuid() == 0 and whose.pw_uid != 0
        with self.said.open("wb") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                cwd=cwd or state,
                env=environment,
                start_new_session=True,
                user=whose.pw_uid if as_root else None,
                group=whose.pw_gid if as_root else None,
                extra_groups=[] if as_root else None,
            )

    @property
    def pid(self) -> int:
        """The server's own process."""
        return self.process.pid

    def words(self) -> str:
        """What it has said so far."""
        return self.said.read_text(errors="replace")

    def wait_until(self, what: str, path_or_port: Path | int) -> None:
        """Waits until it listens at a socket or port."""

        def listens() -> bool:
            assert self.process.poll() is None, f"{self.name} has ended with {self.process.returncode}: {self.words()}"
            family = socket.AF_INET if isinstance(path_or_port, int) else socket.AF_UNIX
            address = ("127.0.0.1", path_or_port) if isinstance(path_or_port, int) else str(path_or_port)
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                return probe.connect_ex(address) == 0

        processes.wait_for(f"{self.name} {what}", listens)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ends it, and gives its status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(processes.PATIENCE_S)
        finally:
            # Its own session, and nobody else's.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        return status


class Apache(Server):
    """Apache with the event MPM: mod_cgid at the port `cgi`, and mod_proxy_fcgi at a port for each socket of a responder.

    Its usual variables are those that PHP's responder wants; the others are for those who know none but the usual ones.
    """

    def __init__(self, place: Place, responders: dict[str, str], *, kind: str = "FPM", more: Sequence[str] = ()) -> None:
        state = place.folder("apache")
        self.cgi = free_port()
        self.ports = {name: free_port() for name in responders}
        names = ["mpm_event", "authz_core", "alias", "env", "cgid", "proxy", "proxy_fcgi"]
        lines = [f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in names]
        lines += [
            f'ServerRoot "{state}"',
            f'DefaultRuntimeDir "{state}"',
            f'PidFile "{state}/pid"',
            f'ScriptSock "{state}/cgid.sock"',
            f'Mutex "file:{state}" default',
            f'ErrorLog "{state}/error.log"',
            "ServerName 127.0.0.1",
            "TraceEnable off",
            "LimitRequestBody 0",
            # The length that a script says is passed on, as other servers do.
            "SetEnv ap_trust_cgilike_cl yes",
            f'DocumentRoot "{place.scripts}"',
            f'<Directory "{place.scripts}">',
            "Require all granted",
            "AcceptPathInfo On",
            "Options +ExecCGI +FollowSymLinks",
            f"ProxyFCGIBackendType {kind}",
            "</Directory>",
        ]
        for port, handler in [(self.cgi, "cgi-script"), *((self.ports[name], responders[name]) for name in responders)]:
            lines += [f"Listen 127.0.0.1:{port}", f"<VirtualHost 127.0.0.1:{port}>", f'<Directory "{place.scripts}">']
            lines += [f'SetHandler "{handler}"', "</Directory>", "</VirtualHost>"]
        (state / "apache.conf").write_text("\n".join([*lines, *more]) + "\n")
        super().__init__("apache", ["/usr/sbin/apache2", "-f", str(state / "apache.conf"), "-DFOREGROUND"], state)
        self.wait_until("listens", self.cgi)
        self.wait_until("has its daemon of scripts", state / f"cgid.sock.{self.pid}")


class Fcgiwrap(Server):
    """fcgiwrap, which has been the usual way to run CGI scripts behind nginx."""

    def __init__(self, place: Place) -> None:
        state = place.folder("fcgiwrap")
        self.socket = state / "socket"
        super().__init__("fcgiwrap", ["/usr/sbin/fcgiwrap", "-c", "4", "-s", f"unix:{self.socket}"], state)
        self.wait_until("listens", self.socket)


class Nginx(Server):
    """nginx as its packaged documentation sets it up for FastCGI, at a port for each responder."""

    def __init__(self, place: Place, responders: dict[str, str], *, more: Sequence[str] = (), probe: int | None = None) -> None:
        state = place.folder("nginx")
        self.ports = {name: free_port() for name in responders}
        lines = [
            "daemon off;",
            "worker_processes 1;",
            f"pid {state}/pid;",
            f"error_log {state}/error.log;",
            "events { worker_connections 4096; }",
            "http {",
            "access_log off;",
            "client_max_body_size 0;",
            # A header of a reply may be longer than a page.
            "fastcgi_buffer_size 128k;",
            "fastcgi_buffers 8 128k;",
            f"client_body_temp_path {state}/body;",
            *(f"{kind}_temp_path {state}/{kind};" for kind in ("fastcgi", "proxy", "scgi", "uwsgi")),
        ]
        for name, address in responders.items():
            lines += [
                "server {",
                f"listen 127.0.0.1:{self.ports[name]};",
                "server_name 127.0.0.1;",
                f"root {place.scripts};",
                "location / {",
                f'fastcgi_split_path_info "^(/.+?\\.(?:{ENDS}))(/.*)?$";',
                "include /etc/nginx/fastcgi_params;",
                "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;",
                "fastcgi_param PATH_INFO $fastcgi_path_info;",
                f"fastcgi_pass {address};",
                "}",
                "}",
            ]
        lines += [*more, "}"]
        (state / "nginx.conf").write_text("\n".join(lines) + "\n")
        command = ["/usr/sbin/nginx", "-p", str(state), "-c", str(state / "nginx.conf"), "-e", str(state / "error.log")]
        super().__init__("nginx", command, state)
        self.wait_until("listens", probe or next(iter(self.ports.values())))


@dataclass(frozen=True)
class Runs:
    """How many runs a gateway has made, by the way it made them."""

    by_way: dict[str, int]

    @property
    def all(self) -> int:
        """All of them."""
        return sum(self.by_way.values())

    @property
    def recycled(self) -> int:
        """Those that were not executed from scratch."""
        return sum(count for way, count in self.by_way.items() if way != "exec")


class Gateway(Server):
    """`regrow web` at an own HTTP port, at a FastCGI socket and port, with metrics and an access log."""

    def __init__(self, place: Place, options: list[str], served: list[str], *, notes: Path | None = None) -> None:
        state = place.folder("gateway")
        self.notes = notes or place.folder("notes")
        self.log = state / "access.log"
        self.socket = state / "fastcgi.sock"
        self.fastcgi_port = free_port()
        command = [str(place.command), "web", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
        command += ["--fastcgi", f"unix:{self.socket}", "--fastcgi", f"127.0.0.1:{self.fastcgi_port}"]
        command += ["--access-log", str(self.log), "--env", f"REGROW_TEST_NOTES={self.notes}"]
        super().__init__("gateway", [*command, *options, *served], state)
        pattern = re.compile(r"^regrow: serving (metrics at )?http://127\.0\.0\.1:(\d+)/(?:metrics)?$", re.MULTILINE)
        self.http = self.metrics_port = 0

        def serves() -> bool:
            assert self.process.poll() is None, f"the gateway has ended with {self.process.returncode}: {self.words()}"
            for metrics, port in pattern.findall(self.words()):
                if metrics:
                    self.metrics_port = int(port)
                else:
                    self.http = int(port)
            return bool(self.http and self.metrics_port) and self.words().count("serving FastCGI at") == 2

        processes.wait_for("the gateway says where it serves", serves)

    def metrics(self) -> str:
        """What it tells about itself."""
        import client

        reply = client.get(self.metrics_port, "/metrics")
        assert reply.status == 200, reply
        return reply.body.decode()

    def runs(self) -> Runs:
        """How it has run what it ran."""
        found = re.findall(r'^regrow_web_runs_total\{how="(\w+)"[^}]*\} (\d+)', self.metrics(), re.MULTILINE)
        assert found, f"no counter of runs in {self.metrics()}"
        runs: dict[str, int] = {}
        for way, count in found:
            runs[way] = runs.get(way, 0) + int(count)
        return Runs(runs)

    def logged(self) -> list[str]:
        """The lines of the access log."""
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []


@contextlib.contextmanager
def serving(place: Place, *options: str, served: list[str] | None = None) -> Iterator[Gateway]:
    """A gateway for the scripts that misbehave, or for what is given, that ends with the block."""
    gateway = Gateway(place, list(options), served or [str(place.abuse)])
    try:
        yield gateway
    finally:
        gateway.stop()
