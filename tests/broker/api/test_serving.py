"""``twigcast serve`` as a process: its start, its end, and why it does not start."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-c", "from twigcast.cli import main; main()", "serve"]


class Process:
    """A broker that was started."""

    def __init__(self, folder: Path, number: int, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
        self._out, self._err = folder / f"out-{number}", folder / f"err-{number}"
        with self._out.open("w") as out, self._err.open("w") as err:
            self._process = subprocess.Popen(
                [*COMMAND, *arguments], cwd=folder, env=environment, stdout=out, stderr=err
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def url(self) -> str:
        """Its address, as soon as it listens."""
        end = time.monotonic() + 20
        while not self.out.endswith(("\n\n", "\n/me\n")):
            assert self._process.poll() is None, self.err
            assert time.monotonic() < end, self.err
            time.sleep(0.02)
        result = re.search(r"at (http://\S+)", self.out)
        assert result
        return result[1]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)
        assert self._process.wait(timeout=15) == 0, self.err
        assert "stopped" in self.err

    def refusal(self) -> str:
        """What it says when it does not start."""
        assert self._process.wait(timeout=30) == 2, self.err
        assert "Traceback" not in self.err
        assert self.out == ""
        return self.err

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts brokers in an empty folder; what still runs after the test is killed."""
    running: list[Process] = []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TWIGCAST_")}

    def run(*arguments: str, **more: str) -> Process:
        running.append(Process(tmp_path, len(running), arguments, {**environment, **more}))
        return running[-1]

    yield run
    for process in running:
        process.kill()


def test_the_first_start_prints_a_token_and_the_second_does_not(start: Start, tmp_path: Path) -> None:
    began = time.monotonic()
    broker = start("--port", "0")
    assert broker.url().startswith("http://127.0.0.1:")
    assert time.monotonic() - began < 15
    broker.stop()
    token = re.search(r"tc_[\w-]{43}", broker.out)
    assert token
    assert token[0] not in broker.err
    assert (tmp_path / "twigcast-data").is_dir()

    again = start(TWIGCAST_PORT="0")
    headers = {"Authorization": f"Bearer {token[0]}"}
    assert httpx2.get(f"{again.url()}/me", headers=headers).json()["operator"] is True
    again.stop(signal.SIGINT)
    assert "tc_" not in again.out


def test_what_was_accepted_survives_a_stop(start: Start, tmp_path: Path) -> None:
    broker = start("--port", "0", "--token-file", "token", "--log-format", "json")
    url = broker.url()
    assert "tc_" not in broker.out
    file = tmp_path / "token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    headers = {"Authorization": f"Bearer {file.read_text().strip()}"}
    with httpx2.Client(base_url=url, headers=headers) as http:
        http.post("/subscriptions", json={"key": "k", "query": "/a"}).raise_for_status()
        http.post("/messages", content=b"<a/>", headers={"Content-Type": "text/xml"}).raise_for_status()
    broker.stop()
    again = start("--port", "0")
    query: dict[str, str | int] = {"subscriber": "k", "wait": 5}
    result = httpx2.get(f"{again.url()}/deliveries", params=query, headers=headers).json()
    assert "1 subscription)" in again.out
    assert [(item["xml"], item["redelivered"]) for item in result["deliveries"]] == [("<a/>", True)]


def test_a_second_broker_on_one_store_is_refused(start: Start) -> None:
    url = start("--port", "0").url()
    assert "another broker" in start("--port", "0").refusal().lower()
    assert httpx2.get(f"{url}/health").status_code == 200


def test_an_address_that_is_taken(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in start("--port", str(port)).refusal()
        assert not (tmp_path / "twigcast-data").exists(), "it leaves nothing behind"


def test_a_store_that_cannot_be(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "file" in start("--store", "file", "--port", "0").refusal()
    assert "secret" not in start("--store", "postgresql://u:secret@127.0.0.1:9/x", "--port", "0").refusal()


@pytest.mark.parametrize(
    ("arguments", "environment", "told"),
    [
        (["--set", "prot=1"], {}, "no setting 'prot'"),
        ([], {"TWIGCAST_PORT": "x"}, "'port' (TWIGCAST_PORT)"),
        ([], {"TWIGCAST_PROT": "1"}, "no setting 'prot' (TWIGCAST_PROT); TWIGCAST_PORT may be meant"),
    ],
)
def test_settings_that_cannot_be_used(
    start: Start, arguments: list[str], environment: dict[str, str], told: str
) -> None:
    assert told in start(*arguments, **environment).refusal()
