"""The errors of the overlays.

::

    TwigcastError
    └── OverlayError                an overlay was asked for the impossible, or refused
        ├── ImpossibleSetting       a setting makes no sense                  .setting .value .allowed
        ├── EmptyNetwork            something needs at least one live node
        ├── IdentifierClash         two nodes want one place on the ring      .identifier
        ├── MessageTooLarge         a message cannot be cut small enough      .size_bytes .limit_bytes
        ├── UndistributableQuery    a query is outside the overlay's subset   .query .reason
        ├── UnknownNode             there is no such live node                .address
        └── TraceError              a trace cannot be run or read             .reason

As with :mod:`twigcast.errors`, all take plain positional arguments and keep them in ``args``.
"""

from __future__ import annotations

from twigcast.errors import TwigcastError


class OverlayError(TwigcastError):
    """An overlay was asked for the impossible, or refused."""

    code = "overlay"


class ImpossibleSetting(OverlayError, ValueError):
    """A setting that makes no sense.

    Args:
        setting: Its name.
        value: What it was set to.
        allowed: What is allowed, as the end of "must be ...".
    """

    code = "overlay-setting"

    def __init__(self, setting: str, value: object, allowed: str) -> None:
        super().__init__(setting, value, allowed)
        self.setting = setting
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{self.setting} = {self.value!r}: must be {self.allowed}"


class EmptyNetwork(OverlayError):
    """Something needs at least one live node, and there is none."""

    code = "overlay-empty"


class IdentifierClash(OverlayError):
    """Two nodes want one place on the ring.

    Args:
        identifier: The place.
        reason: Who wants it.
    """

    code = "overlay-identifier"

    def __init__(self, identifier: int, reason: str) -> None:
        super().__init__(identifier, reason)
        self.identifier = identifier
        self.reason = reason

    def __str__(self) -> str:
        return f"identifier {self.identifier}: {self.reason}"


class MessageTooLarge(OverlayError):
    """A message that cannot be cut into fragments below a node's limit.

    Args:
        size_bytes: Size of the smallest piece that will not go.
        limit_bytes: What a node accepts.
        where: What the piece is.
    """

    code = "overlay-message-size"

    def __init__(self, size_bytes: int, limit_bytes: int, where: str) -> None:
        super().__init__(size_bytes, limit_bytes, where)
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        self.where = where

    def __str__(self) -> str:
        return f"{self.where} takes {self.size_bytes:,} bytes; a node accepts at most {self.limit_bytes:,}"


class UndistributableQuery(OverlayError, ValueError):
    """A query outside the subset that the overlay can distribute.

    Args:
        query: Its text.
        reason: The construct that cannot be distributed.
    """

    code = "overlay-query"

    def __init__(self, query: str, reason: str) -> None:
        super().__init__(query, reason)
        self.query = query
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.query}: {self.reason}"


class UnknownNode(OverlayError, KeyError):
    """There is no such live node.

    Args:
        address: Its address.
    """

    code = "overlay-node"

    def __init__(self, address: int) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return f"there is no live node {self.address}"


class TraceError(OverlayError, ValueError):
    """A trace of a simulation cannot be run or read.

    Args:
        reason: What is wrong with it.
    """

    code = "overlay-trace"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
