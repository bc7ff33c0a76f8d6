"""The error of a neighbour that breaks the protocol."""

from __future__ import annotations

from twigcast.overlay.errors import OverlayError


class RemoteProtocolError(OverlayError):
    """A message that breaks the protocol. It costs the neighbour its link, and nothing else.

    Args:
        kind: In a word.
        reason: In a sentence.
    """

    code = "overlay-misbehaviour"

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason

    def __str__(self) -> str:
        return self.reason
