"""Real brokers for the tests of `regrow.celery`, each in a folder of its own and on ports of its own, workers, and clients."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

from celery import Celery
from kombu import Connection

TESTS = Path(__file__).parent


def free_port() -> int:
    """A port of loopback that nobody has, outside of the range that the kernel gives ports from."""
    for _ in range(200):
        port = random.randint(20000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("there is no free port")


def until(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What a condition gives as soon as that is true."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, "what was waited for has not come"
        time.sleep(0.02)


def end(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
    """Ends a process by a signal, and by force where that does not suffice."""
    process.send_signal(number)
    try:
        return process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def answers(port: int) -> bool:
    """Whether something listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Redis:
    """A redis-server that keeps what it is told on disk, so that it can be started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.start()

    def start(self) -> None:
        words = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        words += ["--appendonly", "yes", "--appendfsync", "always", "--loglevel", "warning"]
        with open(self.folder / "redis.log", "ab") as log:
            self.process = subprocess.Popen(["redis-server", *words], stdout=log, stderr=log)
        until(lambda: answers(self.port))

    def stop(self, number: int = signal.SIGTERM) -> None:
        end(self.process, number)

    def url(self, database: int) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def tasks(self, database: int) -> set[str]:
        """The tasks that it has as a broker: those that wait, and those that were taken and not acknowledged."""
        with Connection(self.url(database)) as connection:
            client = connection.default_channel.client
            messages = [json.loads(message) for message in client.lrange("celery", 0, -1)]
            messages += [json.loads(entry)[0] for entry in client.hvals("unacked")]
        return {message["headers"]["id"] for message in messages}


class RabbitMQ:
    """A rabbitmq-server with a node, a cookie and a port mapper of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.mapper, distribution = free_port(), free_port()
        (folder / "home").mkdir()
        (folder / "none.conf").write_text("")
        (folder / "plugins").write_text("[].")
        self.environment = {
            **os.environ,
            "HOME": str(folder / "home"),
            "RABBITMQ_NODENAME": f"regrow{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "none"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "ERL_EPMD_PORT": str(self.mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_START_ARGS": "-setcookie regrow",
        }
        self.start()

    def start(self) -> None:
        """Starts it, or starts it again with what it has kept on disk."""
        with open(self.folder / "out", "ab") as out:
            self.process = subprocess.Popen(
                [str(rabbitmq_program()), "-n", self.environment["RABBITMQ_NODENAME"]],
                env=self.environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Waits until it takes connections."""
        until(lambda: self.process.poll() is not None or self._answers(), 60)
        assert self.process.poll() is None, (self.folder / "out").read_text()

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), Connection(self.url(), connect_timeout=5) as connection:
            connection.connect()
            return True
        return False

    def end(self, number: int = signal.SIGTERM) -> None:
        """Ends the server, by default in good order: it writes down what was acknowledged."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
        self.process.wait(60)

    def stop(self) -> None:
        """Ends the server, and the port mapper that it has started, which is a daemon."""
        self.end(signal.SIGKILL)
        for pid in pids_with(f"ERL_EPMD_PORT={self.mapper}".encode()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"


def rabbitmq_program() -> Optional[Path]:
    """The server's own script: the one on the PATH of Debian changes the user."""
    path = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    if path.exists():
        return path
    found = shutil.which("rabbitmq-server")
    return None if found is None else Path(found)


def pids_with(variable: bytes) -> list[int]:
    """The processes that have a variable in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if variable in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


class Worker:
    """A worker of the app of the tests, with this pool unless another one is named."""

    def __init__(
        self,
        folder: Path,
        broker: str,
        backend: str,
        *words: str,
        pool: str = "custom",
        options: Optional[dict[str, Any]] = None,
        program: Sequence[str] = ("-m", "celery", "-A", "celery_app"),
    ) -> None:
        self.name = f"w{random.randrange(1 << 40):x}@here"
        self.log = folder / f"{self.name}.log"
        self.environment = {
            **os.environ,
            "CELERY_CUSTOM_WORKER_POOL": "regrow.celery:TaskPool",
            "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
            "REGROW_TEST_BROKER": broker,
            "REGROW_TEST_BACKEND": backend,
            "REGROW_TEST_REMOVED": "not yet",
            "REGROW_TEST_ENDS": str(folder / "ends"),
            "REGROW_TEST_OPTIONS": json.dumps({"visibility_timeout": 600} if options is None else options),
        }
        command = [sys.executable, *program, "worker", "-P", pool, "-n", self.name, "-l", "INFO"]
        command += ["--without-mingle", "--without-gossip", *words]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, env=self.environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self) -> Worker:
        """Waits until it takes tasks; it is ended where it does not."""
        try:
            until(lambda: self.process.poll() is not None or " ready." in self.text(), 120)
            assert self.process.poll() is None, self.text()
        except BaseException:
            self.kill()
            raise
        return self

    def text(self) -> str:
        """What it has written."""
        return self.log.read_text(errors="replace")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Ends it, and gives its exit status."""
        if self.process.poll() is None:
            end(self.process, number)
        return self.process.returncode

    def kill(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.process.wait()


class Client:
    """Whoever sends tasks, by their names alone: `client.add(1, 2)` sends the task `add` of the app, and gives its result."""

    def __init__(self, broker: str, backend: str, **settings: Any) -> None:
        self.app = Celery("client", broker=broker, backend=backend, set_as_current=False)
        self.app.conf.update(settings)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def send(*args: Any, **options: Any) -> Any:
            return self.app.send_task(f"celery_app.{name}", args, **options)

        return send

    def signature(self, name: str, *args: Any) -> Any:
        """A task that is not sent yet."""
        return self.app.signature(f"celery_app.{name}", args)

    def stats(self, worker: Worker) -> dict[str, Any]:
        """What a worker says of its pool."""
        found = until(lambda: self.control("stats", worker))
        pool: dict[str, Any] = found["pool"]
        return pool

    def control(self, command: str, worker: Worker, **arguments: Any) -> Any:
        """What a worker replies to a command."""
        # Those that are kept may have ended with their broker.
        with self.app.connection_for_write() as connection:
            replies = self.app.control.broadcast(
                command,
                arguments=arguments,
                destination=[worker.name],
                connection=connection,
                reply=True,
                limit=1,
                timeout=30,
            )
        return replies[0][worker.name] if replies else None

    def close(self) -> None:
        """Closes its connections."""
        self.app.close()


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def is_noted(path: Path, pid: int) -> bool:
    return str(pid) in lines(path)


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()
