"""A small web server in a thread: each path answers with what a test puts there."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


@dataclass
class Answer:
    """What a path answers."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class FeedServer:
    """Serves HTTP on a free port of the loopback interface, and keeps what was posted."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.posted: list[bytes] = []
        self.changed = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._note(outer.asked, self.path)
                answer = outer.answers.get(self.path, Answer(status=404))
                self._send(answer)

            def do_POST(self) -> None:
                outer._note(outer.posted, self.rfile.read(int(self.headers.get("Content-Length", 0))))
                self._send(Answer())

            def _send(self, answer: Answer) -> None:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def _note(self, where: list[object] | list[str] | list[bytes], what: object) -> None:
        with self.changed:
            where.append(what)  # type: ignore[arg-type]
            self.changed.notify_all()

    def wait_posted(self, count: int, seconds: float = 20.0) -> list[bytes]:
        """Until so many bodies were posted."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.posted) >= count, seconds), self.posted
        return self.posted

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
