"""The errors of the overlays.

::

    TwigcastError
    └── OverlayError                an error of an overlay
        ├── ImpossibleSetting       a setting has an impossible value         .setting .value .allowed
        ├── EmptyNetwork            there is no live node
        ├── IdentifierClash         two nodes have one identifier             .identifier
        ├── MessageTooLarge         a message cannot be split small enough    .size_bytes .limit_bytes
        ├── UndistributableQuery    a query is outside the overlay's subset   .query .reason
        ├── UnknownNode             there is no such live node                .address
        └── TraceError              a trace cannot be run or read             .reason

As with :mod:`twigcast.errors`, all take plain positional arguments and keep them in ``args``.
"""

from __future__ import annotations

from twigcast.errors import TwigcastError


class OverlayError(TwigcastError):
    """The base of the errors of overlays."""

    code = "overlay"


class ImpossibleSetting(OverlayError, ValueError):
    """A setting with an impossible value.

    Args:
        setting: Its name.
        value: Its value.
        allowed: The allowed values, as the end of "must be ...".
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
    """The lack of a live node, where one is needed."""

    code = "overlay-empty"


class IdentifierClash(OverlayError):
    """The collision of two nodes on one identifier of the ring.

    Args:
        identifier: The identifier.
        reason: The nodes.
    """

    code = "overlay-identifier"

    def __init__(self, identifier: int, reason: str) -> None:
        super().__init__(identifier, reason)
        self.identifier = identifier
        self.reason = reason

    def __str__(self) -> str:
        return f"identifier {self.identifier}: {self.reason}"


class MessageTooLarge(OverlayError):
    """A message that cannot be split into fragments within a node's limit.

    Args:
        size_bytes: Size of the smallest piece that exceeds it.
        limit_bytes: The limit.
        where: Names the piece.
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
        reason: The construct outside the subset.
    """

    code = "overlay-query"

    def __init__(self, query: str, reason: str) -> None:
        super().__init__(query, reason)
        self.query = query
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.query}: {self.reason}"


class UnknownNode(OverlayError, KeyError):
    """A reference to a node that is not alive.

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
    """A trace of a simulation that cannot be run or read.

    Args:
        reason: Its fault.
    """

    code = "overlay-trace"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
