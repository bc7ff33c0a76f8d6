"""Real peers, `twigcast overlay peer`, on loopback: started, told what to do, cut off, killed, started again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY
from tests.overlay.onyx.network.processes import free_ports, wait

__all__ = ["PROCESSES", "PeerProcess", "cut", "end", "free_ports", "mend", "wait"]

PROCESSES = int(os.environ.get("TWIGCAST_TEST_OVERLAY_PROCESSES", "10"))
"""Peers of a network."""
PATIENCE = os.environ.get("TWIGCAST_TEST_OVERLAY_PATIENCE", "2")
"""Factor of all times of the protocols: more on a machine that is busy."""


class PeerProcess:
    """A peer that can be killed and started again, always at the same address.

    Args:
        protocol: `chord` or `codd`.
        port: Where it listens.
        join: Ports of others.
        options: Further options.
        folder: For its log.
    """

    def __init__(
        self, protocol: str, port: int, join: Iterable[int], folder: Path, options: Sequence[str] = ()
    ) -> None:
        self.protocol = protocol
        self.port = port
        self.join = [f"127.0.0.1:{other}" for other in join]
        self.options = list(options)
        self.events: list[dict[str, Any]] = []
        """Of the present life."""
        self.former: list[list[dict[str, Any]]] = []
        self._log = folder / f"{port}.log"
        self._process: subprocess.Popen[str] | None = None

    @property
    def where(self) -> str:
        """Where others reach it."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    @property
    def is_running(self) -> bool:
        """Whether it lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, without waiting for it."""
        if self.events:
            self.former.append(self.events)
        events = self.events = []
        command = [sys.executable, "-m", "tests.overlay.peers.blocked_peer", "overlay", "peer", self.protocol]
        command += ["--listen", self.where, "--patience", PATIENCE, *self.options]
        for other in self.join:
            command += ["--join", other]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        with self._log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                cwd=REPOSITORY,
            )
        output = self._process.stdout
        assert output is not None

        def read() -> None:
            events.extend(json.loads(line) for line in output)

        self._reading = threading.Thread(target=read, daemon=True)
        self._reading.start()

    def order(self, what: str, **values: Any) -> None:
        """Tell it to do something."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **values}) + "\n")
        self._process.stdin.flush()

    def all(self, event: str) -> list[dict[str, Any]]:
        """The events of one kind in its present life."""
        return [one for one in list(self.events) if one["event"] == event]

    def wait_for(
        self, event: str, seconds: float = 20.0, where: Callable[[dict[str, Any]], bool] = lambda _: True, **values: Any
    ) -> None:
        """Wait for an event with these values."""

        def has_come() -> bool:
            return any(where(one) and one.items() >= values.items() for one in self.all(event))

        wait(has_come, seconds, lambda: f"{event} at {self.where}: {self.log[-1_500:]}")

    def kill(self) -> None:
        """Kill it, as a power failure would."""
        assert self._process is not None
        self._process.kill()
        self._ended(60)

    def stop(self) -> int:
        """Let it leave. Returns its exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._ended(60)

    def _ended(self, seconds: float) -> int:
        assert self._process is not None
        status = self._process.wait(seconds)
        self._reading.join(seconds)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        return status


def end(peers: Iterable[PeerProcess]) -> None:
    """Kill what still runs."""
    for peer in peers:
        if peer.is_running:
            peer.kill()


def cut(peers: Sequence[PeerProcess], side: Sequence[PeerProcess]) -> None:
    """Cut the network in two: those of one side, and the others."""
    others = [peer for peer in peers if peer not in side]
    for some, blocked in ((side, others), (others, side)):
        for peer in some:
            peer.order("block", peers=[other.where for other in blocked])
    for peer in peers:
        peer.wait_for("blocked")


def mend(peers: Sequence[PeerProcess]) -> None:
    """End a cut."""
    for peer in peers:
        peer.order("block", peers=[])
        peer.wait_for("blocked", where=lambda event: not event["peers"])
