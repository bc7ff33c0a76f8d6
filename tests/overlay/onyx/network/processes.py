"""Real brokers, `twigcast serve`, on loopback: started, asked, killed, started again; and a proxy between them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

PATIENCE = 5
"""How many times longer things may take on a machine that is busy."""

COMMAND = [sys.executable, "-c", "from twigcast.cli import main; main()", "serve"]


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses at the moment."""
    with_sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in with_sockets]
    for one in with_sockets:
        one.close()
    return ports


def wait(condition: Callable[[], object], seconds: float = 20.0, reported: Callable[[], object] = lambda: "") -> None:
    """Wait for a condition; an error of the network is as good as no.

    Args:
        condition: What is waited for.
        seconds: What it may take on a machine that has nothing else to do.
        reported: What is told if it does not come about.
    """
    deadline = time.monotonic() + PATIENCE * seconds
    while True:
        with suppress(httpx2.HTTPError):
            if condition():
                return
        assert time.monotonic() < deadline, f"it did not come about in time: {reported()}"
        time.sleep(0.02)


class BrokerProcess:
    """A broker that can be killed and started again, always at the same addresses.

    Args:
        folder: For its store and logs.
        name: In the overlay.
        join: Where others are, `host:port`.
        settings: Further ones.
        prefix: Of the command, such as to run it in a network namespace.
        host: Address of both of its ports.
        store: Folder of its store within the folder; by default its name.
        url: Of its store, where that is a database.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        join: Iterable[str] = (),
        settings: Iterable[str] = (),
        prefix: Sequence[str] = (),
        host: str = "127.0.0.1",
        store: str | None = None,
        url: str | None = None,
    ) -> None:
        self.name = name
        self.host = host
        self.port, self.overlay_port = free_ports(2)
        self.join = list(join)
        self.settings = list(settings)
        self.store = folder / (store or name)
        self.url = url
        self._folder = folder
        self._prefix = list(prefix)
        self._process: subprocess.Popen[bytes] | None = None
        self._client = httpx2.Client(base_url=f"http://{host}:{self.port}", timeout=30)

    @property
    def where(self) -> str:
        """Where others reach it."""
        return f"{self.host}:{self.overlay_port}"

    @property
    def log(self) -> str:
        """What it has logged."""
        path = self._folder / f"{self.name}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Start it, without waiting for it."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TWIGCAST_")}
        arguments = ["--store", self.url or str(self.store), "--host", self.host, "--port", str(self.port)]
        arguments += ["--token-file", str(self._folder / f"{self.name}.token")]
        arguments += ["--overlay-identity", self.name, "--overlay-listen", self.where]
        for target in self.join:
            arguments += ["--join", target]
        for setting in self.settings:
            arguments += ["--set", setting]
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, *COMMAND, *arguments], stdout=log, stderr=log, env=environment, cwd=self._folder
            )

    def wait_ready(self, seconds: float = 20.0) -> None:
        """Wait until it takes requests."""
        wait(lambda: self._client.get("/ready").status_code == 200, seconds, lambda: self.log[-2_000:])

    def kill(self) -> None:
        """Kill it, as a power failure would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it as an operator does."""
        self._end(signal.SIGTERM)

    def close(self) -> None:
        """Kill it for good."""
        self.kill()
        self._client.close()

    def pause(self, *, on: bool) -> None:
        """Let it stand still, or go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(20)

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """Send a request."""
        token = (self._folder / f"{self.name}.token").read_text(encoding="ascii").strip()
        headers = {"authorization": f"Bearer {token}", **more.pop("headers", {})}
        return self._client.request(method, path, headers=headers, **more)

    def subscribe(self, key: str, query: str) -> None:
        """Subscribe."""
        answer = self.ask("POST", "/subscriptions", json={"key": key, "query": query})
        assert answer.status_code == 201, answer.text

    def publish(self, body: str, message_id: str, source: str = "test") -> bool:
        """Publish a message; whether it was accepted."""
        try:
            answer = self.ask(
                "POST",
                "/messages",
                params={"id": message_id, "source": source},
                content=body.encode(),
                headers={"content-type": "application/xml"},
            )
        except httpx2.HTTPError:
            return False
        return answer.status_code in (200, 201, 202)

    def take(self, key: str) -> list[str]:
        """All that a subscription has pending, acknowledged: the ids of the messages."""
        results: list[str] = []
        while True:
            answer = self.ask("GET", "/deliveries", params={"subscriber": key, "limit": 1_000, "bodies": False})
            assert answer.status_code == 200, answer.text
            deliveries = answer.json()["deliveries"]
            if not deliveries:
                return results
            results += [one["message"] for one in deliveries]
            ids = [one["id"] for one in deliveries]
            done = self.ask("POST", "/deliveries/ack", json={"subscriber": key, "ids": ids})
            assert done.status_code == 204, done.text

    def overlay(self) -> dict[str, Any]:
        """The overlay as it sees it."""
        answer = self.ask("GET", "/overlay")
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result

    def is_linked(self, *names: str) -> bool:
        """Whether it is linked with just these."""
        return sorted(link["name"] for link in self.overlay()["links"]) == sorted(names)

    def sees(self, count: int) -> bool:
        """Whether it reaches so many brokers, itself included."""
        brokers = self.overlay()["brokers"]
        reached = [one for one in brokers if one["towards"] is not None]
        return len(reached) == count - 1


@contextmanager
def running(*brokers: BrokerProcess) -> Iterator[None]:
    """Brokers that are started, and killed in the end."""
    try:
        for broker in brokers:
            broker.start()
        for broker in brokers:
            broker.wait_ready()
        yield
    finally:
        for broker in brokers:
            broker.close()


class Proxy:
    """Passes TCP connections on, until it is told to cut them, to hold them, or to be slow.

    Args:
        target: Where to: host and port.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.where = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.bytes_a_second: float | None = None
        """How fast it is; `None`: as fast as it can."""
        self.is_open = True
        """Whether connections are taken."""
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._ended = False
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Cut all connections, as a cable that is pulled does not, but as a router that reboots does."""
        for pair in self._pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._pairs.clear()

    def close(self) -> None:
        """End."""
        self._ended = True
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if not self.is_open:
                near.close()
                continue
            try:
                far = socket.create_connection(self._target, 5)
                far.settimeout(None)
            except OSError:
                near.close()
                continue
            self._pairs.append((near, far))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        """Pass on what comes from one end to the other."""
        with one, other, suppress(OSError):
            while not self._ended:
                speed = self.bytes_a_second
                data = one.recv(65_536 if speed is None else max(1, int(speed / 50)))
                if not data:
                    return
                other.sendall(data)
                if speed is not None:
                    time.sleep(len(data) / speed)
