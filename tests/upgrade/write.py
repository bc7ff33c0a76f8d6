"""Writes what one release leaves behind, for tests of later ones: a store of the broker, and a snapshot.

Run it with the Python of that release; it uses nothing else than what every release has::

    git archive COMMIT | tar x -C FOLDER    # COMMIT is what was released
    # build it there, then
    PYTHONPATH=FOLDER/python python tests/upgrade/write.py 0.1.0

0.1.0 was not published; its files are of the commit a3d27289, the last one before names changed.
"""

import json
import lzma
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from twigcast import SubscriptionSet

FILES = Path(__file__).parent / "files"
NAMESPACES = {"a": "urn:demo:alerts"}


def alert(area: str, severity: int) -> bytes:
    return f"<alert xmlns='urn:demo:alerts'><area>{area}</area><severity>{severity}</severity></alert>".encode()


class Running:
    """A broker of that release, and its interface."""

    def __init__(self, store: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        token_file = store.parent / "token"
        command = [sys.executable, "-m", "twigcast", "serve", "--port", str(port), "--store", str(store)]
        command += ["--token-file", str(token_file), "--set", "allow_private_urls=true"]
        self.process = subprocess.Popen(command, cwd=store.parent, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert b"http" in self.process.stdout.readline(), self.process.stderr
        self.token = token_file.read_text().strip()

    def ask(self, path: str, body: object) -> bytes:
        kind = "application/xml" if isinstance(body, bytes) else "application/json"
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=30) as answer:
            read: bytes = answer.read()
            return read

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.process.stderr


def write_store(folder: Path) -> bytes:
    running = Running(folder / "store")
    subscriptions = [
        {"key": "severe", "query": "//a:alert[a:severity > 2]", "namespaces": NAMESPACES},
        {
            "key": "places",
            "query": "for $a in /a:alert return <place>{ $a/a:area/text() }</place>",
            "namespaces": NAMESPACES,
        },
        {
            "key": "hook",
            "query": "/a:alert",
            "namespaces": NAMESPACES,
            # Nobody listens there, so that what it is to get waits.
            "delivery": {"kind": "webhook", "url": "http://127.0.0.1:9/", "secret": "correct horse battery staple"},
        },
    ]
    for subscription in subscriptions:
        running.ask("/subscriptions", subscription)
    for number, (area, severity) in enumerate([("Lower town", 3), ("Hill", 1), ("Harbour", 5)], start=1):
        running.ask(f"/messages?id=m{number}", alert(area, severity))
    running.ask("/deliveries/ack", {"subscriber": "places", "ids": ["1-2"]})
    running.stop()
    (file,) = (path for path in (folder / "store").rglob("*") if path.read_bytes()[:15] == b"SQLite format 3")
    return lzma.compress(file.read_bytes(), preset=9)


def main() -> None:
    version = sys.argv[1]
    FILES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        (FILES / f"store-{version}.sqlite.xz").write_bytes(write_store(Path(folder)))
    subscriptions = SubscriptionSet(namespaces=NAMESPACES)
    subscriptions.add("severe", "//a:alert[a:severity > 2]")
    subscriptions.add("places", "for $a in /a:alert return <place>{ $a/a:area/text() }</place>")
    subscriptions.add("plain", "/note[@n > 1]", namespaces={"b": "urn:b"})
    subscriptions.save(FILES / f"snapshot-{version}.twigcast")


if __name__ == "__main__":
    main()
