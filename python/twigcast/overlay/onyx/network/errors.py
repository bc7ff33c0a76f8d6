"""The errors of the network driver.

::

    OverlayError
    └── NetworkError
        ├── FrameError              bytes that are no valid packet                  .reason
        ├── PeerRefused             a broker without permission for a link          .kind .reason
        └── CertificateError        unusable certificates                           .reason
"""

from __future__ import annotations

from twigcast.overlay.errors import OverlayError


class NetworkError(OverlayError):
    """An action that the driver could not carry out.

    Args:
        reason: What happened and what to do, in one sentence.
    """

    code = "overlay-network"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class FrameError(NetworkError):
    """Bytes that are no valid packet: damaged, cut off, or over a bound.

    Args:
        reason: What is wrong with them.
    """

    code = "overlay-frame"


class PeerRefused(NetworkError):
    """The refusal of a link to a broker.

    Args:
        kind: One of the kinds in :mod:`~twigcast.overlay.onyx.network.greeting`.
        reason: The reason in a sentence.
    """

    code = "overlay-peer"

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.args = (kind, reason)
        self.kind = kind


class CertificateError(NetworkError):
    """Unusable certificates.

    Args:
        reason: The file and its fault.
    """

    code = "overlay-certificate"
