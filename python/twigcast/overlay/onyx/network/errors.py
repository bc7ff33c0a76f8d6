"""The errors of the network driver.

::

    OverlayError
    └── NetworkError
        ├── FrameError              bytes that are no packet of a broker            .reason
        ├── PeerRefused             a broker that is not talked to                  .kind .reason
        └── CertificateError        certificates that cannot be used                .reason
"""

from __future__ import annotations

from twigcast.overlay.errors import OverlayError


class NetworkError(OverlayError):
    """Something that the driver could not do.

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
    """Bytes that are no packet of a broker: damaged, cut off, or beyond a bound.

    Args:
        reason: What is wrong with them.
    """

    code = "overlay-frame"


class PeerRefused(NetworkError):
    """A broker that is not talked to.

    Args:
        kind: What for, as in the counter of refusals: one of those in :mod:`~twigcast.overlay.onyx.network.greeting`.
        reason: The same for people.
    """

    code = "overlay-peer"

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.args = (kind, reason)
        self.kind = kind


class CertificateError(NetworkError):
    """Certificates that cannot be used.

    Args:
        reason: Which file, and what is wrong with it.
    """

    code = "overlay-certificate"
