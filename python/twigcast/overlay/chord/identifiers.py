"""The identifier circle (Chord; Miliaraki 2008, section 2): SHA-1 of addresses and keys, modulo 2^bits.

Distances are always clockwise. An interval `(a, b]` runs clockwise from a, without a, to b; `(a, a]` is the whole
circle.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

from twigcast.overlay.core import Address


class Ref(NamedTuple):
    """A reference to a ring node: its place on the circle and its address."""

    identifier: int
    address: Address


@lru_cache(maxsize=1 << 18)
def identifier_of_key(key: str, bits: int) -> int:
    """Returns the identifier of a key: SHA-1 of its UTF-8 bytes modulo 2^bits."""
    return int.from_bytes(hashlib.sha1(key.encode(), usedforsecurity=False).digest(), "big") % (1 << bits)


def identifier_of_address(address: Address, bits: int) -> int:
    """Returns the identifier of a ring node. Anyone can compute it, so a node cannot lie about its position."""
    return identifier_of_key(f"node/{address}", bits)


def distance(start: int, end: int, bits: int) -> int:
    """Returns the clockwise distance from `start` to `end`."""
    return (end - start) % (1 << bits)


def between(identifier: int, low: int, high: int, bits: int) -> bool:
    """Returns whether `identifier` lies in the open interval (low, high); (a, a) is everything but a."""
    circle = 1 << bits
    span = (high - low) % circle or circle
    return 0 < (identifier - low) % circle < span
