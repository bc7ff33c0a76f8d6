"""The different payloads of a message, one after the other in one buffer."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import overload

from twigcast import _core


class JoinedPayloads(Sequence[memoryview]):
    """The different results of one message, one after the other in one buffer: see :meth:`Deliveries.joined_payloads`.

    As a sequence, the bytes of each as a view of the buffer, by number. One that was over a limit is empty; no delivery
    has its number. Numbers below 0 are refused, unlike those of lists: in :attr:`Deliveries.numbers`, -1 is the message
    itself, and counted from the end it would be another subscriber's result. Once nothing looks at the buffer any more,
    its memory is used again for another message's.
    """

    __slots__ = ("data", "offsets")

    def __init__(self, data: bytes | _core.Bytes, offsets: bytes) -> None:
        self.data = memoryview(data)
        """All bytes, to be read only."""
        self.offsets = memoryview(offsets).cast("q")
        """Where each begins in ``data``, and where the last one ends: 64-bit integers, one more than the results."""

    @classmethod
    def of(cls, payloads: Sequence[bytes]) -> JoinedPayloads:
        """Payloads that are there already, copied behind each other."""
        return cls(b"".join(payloads), array("q", accumulate(map(len, payloads), initial=0)).tobytes())

    @overload
    def __getitem__(self, index: int) -> memoryview: ...
    @overload
    def __getitem__(self, index: slice) -> list[memoryview]: ...
    def __getitem__(self, index: int | slice) -> memoryview | list[memoryview]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if index < 0:
            raise IndexError(f"there is no result of the number {index}: -1 stands for the message itself")
        if index >= len(self):
            raise IndexError(f"there is no result of the number {index}: there are {len(self):,}, counted from 0")
        return self.data[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[memoryview]:
        data = self.data
        return (data[start:end] for start, end in pairwise(self.offsets))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"<JoinedPayloads: {len(self):,} of {len(self.data):,} bytes>"
