"""A PostgreSQL server of the tests' own, in a folder that goes away with it."""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Literal

import psycopg

HOW_TO_GET = (
    "install PostgreSQL's server (Debian, Ubuntu: `apt-get install postgresql`), or run tests/services/install.sh"
)


def binaries() -> Path:
    """The folder of ``initdb`` and ``postgres``."""
    candidates = [Path(result).parent for name in ("postgres", "initdb") if (result := shutil.which(name))]
    if config := shutil.which("pg_config"):
        asked = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        candidates.append(Path(asked.stdout.strip()))
    by_version = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name.split(".")[0]))
    candidates += reversed(by_version)
    for folder in candidates:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise FileNotFoundError(f"the tests need PostgreSQL: {HOW_TO_GET}")


START_SECONDS_MAX = 60
"""After a crash it reads its log first, which takes long where other work goes on beside it."""


def free_port() -> int:
    """Find a loopback port that stays free while the server is down.

    The system gives ports from its own range to whoever connects: to a client that tries again and again to reach the
    server that is down even the server's own, and then nobody else can listen there. So it is one below that range.
    """
    lowest = 32768
    ranges = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if ranges.exists():
        lowest = int(ranges.read_text().split()[0])
    for port in random.sample(range(10_000, lowest), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port from 10000 to {lowest - 1}: end what listens there")


class PostgresqlServer:
    """A running server, on a free loopback port. Not run by root, who may not: by ``nobody`` then."""

    def __init__(self) -> None:
        self._binaries = binaries()
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="twigcast-postgresql-"))
        self._names = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self._run("initdb", "--pgdata=data", "--username=tests", "--auth=trust", "--encoding=UTF8", "--no-sync")
        self.start()
        self.database = self.new_database()
        """Used by one test after the other."""

    def _command(self, name: str, *arguments: str) -> list[str]:
        return [str(self._binaries / name), *arguments]

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            self._command(name, *arguments),
            cwd=self.folder,
            user=self._user and self._user.pw_uid,
            group=self._user and self._user.pw_gid,
            extra_groups=[] if self._user else None,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stdout}{done.stderr}")

    def _settings(self) -> Iterator[str]:
        yield f"port={self.port}"
        yield f"unix_socket_directories={self.folder}"
        yield "listen_addresses=127.0.0.1"
        yield "max_connections=200"
        yield "shared_buffers=64MB"
        # What the tests kill are processes, never the machine: nothing needs to reach the disk.
        yield "fsync=off"

    def start(self) -> None:
        """Start it and wait until it answers."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._started_before(deadline):
            # It ended by itself. Its log says why.
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.5)

    def _started_before(self, deadline: float) -> bool:
        """Start it once; whether it answers. Not, if the process ended or does not answer before the deadline."""
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            self._command("postgres", "-D", "data", *(word for text in self._settings() for word in ("-c", text))),
            cwd=self.folder,
            user=self._user and self._user.pw_uid,
            group=self._user and self._user.pw_gid,
            extra_groups=[] if self._user else None,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
            stdout=log,
            stderr=log,
        )
        log.close()
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return True
        return False

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop it; ``immediate`` as if it had crashed."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT if mode == "fast" else signal.SIGQUIT)
            self._process.wait(60)
            self._process = None

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop and start it."""
        self.stop(mode)
        self.start()

    def remove(self) -> None:
        """Stop it and remove everything."""
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def url(self, database: str) -> str:
        """The address of one of its databases."""
        return f"postgresql://tests@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Make an empty database; its name."""
        name = f"test{next(self._names)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return name

    def drop(self, database: str) -> None:
        """Remove a database, whoever still uses it."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())

    def drop_schema(self, database: str) -> None:
        """Remove a store from a database, whoever still uses it: much cheaper than another database."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            connection.execute("DROP SCHEMA IF EXISTS twigcast CASCADE")

    def new_database_at(self, folder: Path) -> str:
        """Make an empty database that lies in a folder, such as a small disk; its name."""
        folder.mkdir()
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        name = f"test{next(self._names)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE {name}_space LOCATION '{folder}'".encode())
            connection.execute(f"CREATE DATABASE {name} TABLESPACE {name}_space".encode())
        return name

    def drop_space(self, database: str) -> None:
        """Remove a database of :meth:`new_database_at`."""
        self.drop(database)
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"DROP TABLESPACE {database}_space".encode())
