"""The errors of the overlays.

::

    TwigcastError
    └── OverlayError                an error of an overlay
        ├── ImpossibleSetting       a setting has an impossible value         .setting .value .allowed
        ├── EmptyNetwork            there is no live node
        ├── IdentifierClash         two nodes have one identifier             .identifier .reason
        ├── MessageTooLarge         a message cannot be split small enough    .size_bytes .limit_bytes .where
        ├── UndistributableQuery    a query is outside the overlay's subset   .query .reason
        ├── UnknownNode             there is no such live node                .address
        ├── TraceError              a trace cannot be run or read             .reason
        ├── OrderError              a peer cannot carry out an order          .reason
        ├── WireError               a body cannot be read in its form         .form .reason
        ├── RemoteProtocolError     a neighbour breaks the protocol           .kind .reason
        └── NetworkError            the driver cannot do something            .reason
            ├── FrameError          bytes are no valid packet                 .reason
            ├── PeerRefused         a broker may not have a link              .kind .reason
            └── CertificateError    certificates are unusable                 .reason

As with :mod:`twigcast.errors`, all take plain positional arguments and keep them in ``args``.
"""

from __future__ import annotations

from dataclasses import dataclass

from twigcast.errors import TwigcastError


class OverlayError(TwigcastError):
    """The base of the errors of overlays."""

    code = "overlay"


@dataclass(eq=False, repr=False)
class ImpossibleSetting(OverlayError, ValueError):
    """A setting with an impossible value."""

    code = "overlay-setting"

    setting: str  #: Its name.
    value: object
    allowed: str  #: The allowed values, as the end of "must be ...".

    def __str__(self) -> str:
        return f"{self.setting} = {self.value!r}: must be {self.allowed}"


class EmptyNetwork(OverlayError):
    """The lack of a live node, where one is needed."""

    code = "overlay-empty"


@dataclass(eq=False, repr=False)
class IdentifierClash(OverlayError):
    """The collision of two nodes on one identifier of the ring."""

    code = "overlay-identifier"

    identifier: int
    reason: str  #: Names the nodes.

    def __str__(self) -> str:
        return f"identifier {self.identifier}: {self.reason}"


@dataclass(eq=False, repr=False)
class MessageTooLarge(OverlayError):
    """A message that cannot be split into fragments within a node's limit."""

    code = "overlay-message-size"

    size_bytes: int  #: Size of the smallest piece that exceeds the limit.
    limit_bytes: int
    where: str  #: Names the piece.

    def __str__(self) -> str:
        return f"{self.where} takes {self.size_bytes:,} bytes; a node accepts at most {self.limit_bytes:,}"


@dataclass(eq=False, repr=False)
class UndistributableQuery(OverlayError, ValueError):
    """A query outside the subset that the overlay can distribute."""

    code = "overlay-query"

    query: str  #: Its text.
    reason: str  #: The construct outside the subset.

    def __str__(self) -> str:
        return f"{self.query}: {self.reason}"


@dataclass(eq=False, repr=False)
class UnknownNode(OverlayError, KeyError):
    """A reference to a node that is not alive."""

    code = "overlay-node"

    address: int

    def __str__(self) -> str:
        return f"there is no live node {self.address}"


@dataclass(eq=False, repr=False)
class TraceError(OverlayError, ValueError):
    """A trace of a simulation that cannot be run or read."""

    code = "overlay-trace"

    reason: str


@dataclass(eq=False, repr=False)
class OrderError(OverlayError, ValueError):
    """An order to a peer that it cannot carry out."""

    code = "overlay-order"

    reason: str  #: In one sentence.

    def __str__(self) -> str:
        return self.reason


# ONYX.


@dataclass(eq=False, repr=False)
class WireError(OverlayError):
    """A body that cannot be read in the form that it claims to have."""

    code = "wire-error"

    form: str  #: Name of the form.
    reason: str

    def __str__(self) -> str:
        return f"a message in the form {self.form!r} cannot be read: {self.reason}"


@dataclass(eq=False, repr=False)
class RemoteProtocolError(OverlayError):
    """A message that breaks the protocol. It costs the neighbour its link, and nothing else."""

    code = "overlay-misbehaviour"

    kind: str  #: In a word.
    reason: str  #: In a sentence.

    def __str__(self) -> str:
        return self.reason


@dataclass(eq=False, repr=False)
class NetworkError(OverlayError):
    """An action that the driver could not carry out."""

    code = "overlay-network"

    reason: str  #: What happened and what to do, in one sentence.

    def __str__(self) -> str:
        return self.reason


class FrameError(NetworkError):
    """Bytes that are no valid packet: damaged, cut off, or over a bound."""

    code = "overlay-frame"


class PeerRefused(NetworkError):
    """The refusal of a link to a broker."""

    code = "overlay-peer"

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind  #: One of the kinds in :mod:`twigcast.overlay.onyx.network.greeting`.


class CertificateError(NetworkError):
    """Unusable certificates. The reason names the file and its fault."""

    code = "overlay-certificate"
