"""Two brokers on one PostgreSQL, each a process of its own, to be killed and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from tests.services.postgresql import free_port

ROOT = Path(__file__).parents[3]


class Member:
    """One broker of a pair."""

    def __init__(self, address: str, folder: Path, name: str, *, standby: bool = True) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token_file = folder / "token"
        self._address = address
        self._standby = ["--standby"] if standby else []
        self._log = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes]
        self._http = httpx2.Client(timeout=2)

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "twigcast", "serve", *self._standby, "--store", self._address),
                    *("--port", str(self.port), "--token-file", str(self.token_file)),
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT}"},
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def health(self) -> dict[str, Any]:
        """What it says of itself; nothing if it does not answer."""
        try:
            response = self._http.get(f"{self.url}/health", headers={"Connection": "close"})
            return response.json() if response.status_code == 200 else {}
        except httpx2.TransportError:
            return {}

    @property
    def is_active(self) -> bool:
        return self.health().get("role") == "active"

    @property
    def is_standby(self) -> bool:
        return self.health().get("role") == "standby"

    def log(self) -> str:
        return self._log.read_text()


def wait_until(condition: Callable[[], bool], seconds: float, *members: Member) -> float:
    """Waits until something holds; how long that took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            logs = "\n".join(member.log()[-3_000:] for member in members)
            raise AssertionError(f"it did not happen within {seconds:g} s:\n{logs}")
        time.sleep(0.05)
    return time.monotonic() - began
