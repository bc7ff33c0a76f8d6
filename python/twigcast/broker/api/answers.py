"""Responses to requests that come thousands of times a second."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_CONTENT_TYPE = (b"content-type", b"application/json")


class JsonAnswer(Response):
    """A response of finished JSON, without what makes other responses general.

    Args:
        status: HTTP status.
        body: The JSON text.
        more: Further headers, their names in lower case.
    """

    def __init__(self, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [_CONTENT_TYPE, (b"content-length", b"%d" % len(body)), *more]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})
