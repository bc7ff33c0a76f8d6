"""The tickets by which the publisher of a message learns that all it led to is done (`publication`)."""

from __future__ import annotations

_MASK = (1 << 64) - 1


class Tickets:
    """Numbers for what an expansion leads to, a function of its own number; all zero where nobody counts.

    Attributes:
        drawn: All numbers drawn, combined by exclusive or.
    """

    __slots__ = ("_count", "_own", "drawn")

    def __init__(self, own: int) -> None:
        self._own = own
        self._count = 0
        self.drawn = 0

    def draw(self) -> int:
        """Returns the next number: 64 well-mixed bits (the finaliser of splitmix64)."""
        if not self._own:
            return 0
        self._count += 1
        mixed = (self._own + self._count * 0x9E3779B97F4A7C15) & _MASK
        mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & _MASK
        ticket = (mixed ^ mixed >> 31) or 1
        self.drawn ^= ticket
        return ticket
