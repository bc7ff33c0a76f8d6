"""A broker in a process of its own, and the command line in others."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from twigcast.cli import main; main()"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TWIGCAST_")}


class BrokerProcess:
    """A broker on a port of its own, which it keeps over restarts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token_file = folder / "token"
        self._number = 0
        self.port = "0"
        self.start()

    def start(self) -> None:
        self._number += 1
        log = self.folder / f"log-{self._number}"
        arguments = ["serve", "--store", "store", "--port", self.port, "--token-file", "token"]
        with log.open("w") as out:
            self._process = subprocess.Popen(
                [*COMMAND, *arguments, "--set", "stop_seconds=2", "--set", "allow_private_urls=true"],
                cwd=self.folder,
                env=ENVIRONMENT,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        end = time.monotonic() + 60
        while not (listens := re.search(r"at (http://[\d.]+:(\d+)) ", log.read_text())):
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        self.url, self.port = listens[1], listens[2]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=30)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(timeout=30)


@dataclass
class Shell:
    """Runs commands of one user, with a configuration folder of its own."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def profiles(self) -> Path:
        path = self.folder / "config" / "twigcast" / "profiles.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def variables(self) -> dict[str, str]:
        return {**ENVIRONMENT, "XDG_CONFIG_HOME": str(self.folder / "config"), **self.environment}

    def run(self, *arguments: str, status: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.variables(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
        return done

    def out(self, *arguments: str, status: int = 0, stdin: str = "") -> str:
        return self.run(*arguments, status=status, stdin=stdin).stdout

    def complaint(self, *arguments: str, stdin: str = "") -> str:
        """The one sentence of a command that fails."""
        done = self.run(*arguments, status=2, stdin=stdin)
        assert done.stdout == ""
        assert done.stderr.startswith("twigcast: ")
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr.removeprefix("twigcast: ").removesuffix("\n")

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.variables(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(scope="session")
def operator_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that all tests of this folder share."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop()


@pytest.fixture
def anybody(operator_broker: BrokerProcess, tmp_path: Path) -> Shell:
    """A user who knows the address and has no token."""
    return Shell(tmp_path, {"TWIGCAST_URL": operator_broker.url})


@pytest.fixture
def operator(operator_broker: BrokerProcess, tmp_path: Path) -> Shell:
    """The operator of the broker."""
    token = operator_broker.token_file.read_text().strip()
    return Shell(tmp_path, {"TWIGCAST_URL": operator_broker.url, "TWIGCAST_TOKEN": token})


@pytest.fixture
def user(operator: Shell, request: pytest.FixtureRequest) -> Shell:
    """An administrator of a tenant of the test's own."""
    tenant = request.node.name
    operator.out("tenants", "add", tenant)
    token = operator.out("tenants", "tokens", "add", "all", "--scope", "admin", "--tenant", tenant).strip()
    return Shell(operator.folder, {**operator.environment, "TWIGCAST_TOKEN": token})


@pytest.fixture
def own_process(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of the test's own, which it may kill."""
    broker = BrokerProcess(tmp_path)
    yield broker
    broker.kill()
