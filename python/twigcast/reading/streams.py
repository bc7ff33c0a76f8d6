"""The least that bytes are read from."""

from typing import Protocol


class ByteStream(Protocol):
    """A stream that bytes can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Returns at most ``size`` bytes, all of them if it is negative, and none at the end."""
