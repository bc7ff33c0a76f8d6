"""Requests to the Saxon process and its replies: JSON, and behind it the bytes of a message or a result.

A frame is two lengths (unsigned 32-bit and signed 64-bit, big-endian), JSON, and bytes. The second length is -1 if
there are no bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from twigcast.registration import NO_PARAMS, Params

_LENGTHS: Final = struct.Struct(">Iq")


def has_prolog(query: str) -> bool:
    """Returns whether a query begins with declarations of its own, or may do so behind a comment."""
    return query.lstrip().startswith(("declare", "xquery", "(:"))


LIST_PREFIX: Final = "twigcast-list."
"""What the names of variables begin with that hold the lists of parameters as arrays."""


def prolog(query: str, params: Params = NO_PARAMS) -> str:
    """Returns a line to put before a query: it declares parameters, and variables of the message that it uses."""
    if has_prolog(query):
        return ""
    declared = ["declare variable $doc := /; declare variable $msg := /;"] if "$doc" in query or "$msg" in query else []
    for name, value in params.items():
        if isinstance(value, str | int | float):
            declared.append(f"declare variable ${name} external;")
        else:
            array = f"${LIST_PREFIX}{name}"
            declared.append(f"declare variable {array} external; declare variable ${name} := {array}?*;")
    return f"{' '.join(declared)}\n" if declared else ""


@dataclass(frozen=True, slots=True)
class Request:
    """A query, and a message to evaluate it on; without a message, the query is only compiled."""

    query: str
    namespaces: Mapping[str, str]
    message: bytes | None
    params: Params = field(default_factory=dict)
    is_condition: bool = False
    """Whether only the truth of the query matters, as with a path, and not what it returns."""

    def frame(self) -> bytes:
        """Returns the request as bytes."""
        about = {"query": self.query, "namespaces": dict(self.namespaces), "params": dict(self.params)}
        return _frame({**about, "is_condition": self.is_condition}, self.message)

    @classmethod
    def read(cls, read: Callable[[int], bytes]) -> Request:
        """Reads the next request of a stream. ``read`` returns as many bytes as requested, or raises ``EOFError``."""
        reported, message = _read(read)
        return cls(reported["query"], reported["namespaces"], message, reported["params"], reported["is_condition"])


@dataclass(frozen=True, slots=True)
class Reply:
    """A result, or an error, or that a condition holds, or nothing of these if the query yields nothing."""

    result: bytes | None = None
    """The items one after the other, as XML; ``None`` if there are none."""

    error: str | None = None

    holds: bool = False
    """Whether the query is a condition that holds."""

    @property
    def matches(self) -> bool:
        """True if the message matches."""
        return self.holds or self.result is not None

    def frame(self) -> bytes:
        """Returns the reply as bytes."""
        return _frame({"error": self.error, "holds": self.holds}, self.result)

    @classmethod
    def read(cls, read: Callable[[int], bytes]) -> Reply:
        """Reads the next reply of a stream; see :meth:`Request.read`."""
        reported, result = _read(read)
        return cls(result, reported["error"], reported["holds"])


def _frame(reported: dict[str, object], data: bytes | None) -> bytes:
    head = json.dumps(reported).encode()
    return _LENGTHS.pack(len(head), -1 if data is None else len(data)) + head + (data or b"")


def _read(read: Callable[[int], bytes]) -> tuple[dict[str, Any], bytes | None]:
    head_bytes, data_bytes = _LENGTHS.unpack(read(_LENGTHS.size))
    reported = json.loads(read(head_bytes))
    return reported, None if data_bytes < 0 else read(data_bytes)
