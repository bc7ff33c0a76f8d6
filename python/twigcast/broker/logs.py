"""Logs on standard error: as text for people, or one JSON object a line; never with a secret in them."""

from __future__ import annotations

import itertools
import json
import logging
import re
import secrets
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, Literal

from twigcast.broker.tokens import SECRET

_request: ContextVar[str] = ContextVar("twigcast_request", default="")
_run: Final = secrets.token_hex(4)
_count: Final = itertools.count(1)

_FEED: Final = re.compile(r"/feeds/[^/\s\"']+")
"""Addresses of feeds grant access to them: see :mod:`~twigcast.broker.feed_addresses`."""

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


def start_request() -> str:
    """Assigns the current request an id, for logs and problem documents."""
    name = f"{_run}-{next(_count)}"
    _request.set(name)
    return name


def request_id() -> str:
    """Returns the id of the current request; empty outside of one."""
    return _request.get()


def without_secrets(text: str) -> str:
    """Replaces everything in ``text`` that looks like a token or the address of a feed."""
    if "/feeds/" in text:
        text = _FEED.sub("/feeds/...", text)
    return SECRET.sub("tc_...", text) if "tc_" in text else text


class TextFormatter(logging.Formatter):
    """A formatter that writes one line for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Formats one record."""
        more = " ".join(f"{name}={value}" for name, value in _extra(record).items())
        return without_secrets(super().format(record) + (f" [{more}]" if more else ""))


class JsonFormatter(logging.Formatter):
    """A formatter that writes one JSON object a line: ``time``, ``level``, ``logger``, ``message`` and others."""

    def format(self, record: logging.LogRecord) -> str:
        """Formats one record."""
        results: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            results["exception"] = self.formatException(record.exc_info)
        return without_secrets(json.dumps(results, ensure_ascii=False, default=str))


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    if existing := request_id():
        extra["request_id"] = existing
    return extra


def configure(level: str, form: Literal["text", "json"]) -> None:
    """Sends all logs to standard error, in one form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    # Messages of these loggers at level INFO are of no use to an operator.
    for name in ("uvicorn.access", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
