"""A converged Chord ring as arrays: who owns a key, and how many hops a lookup takes."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from twigcast.lab.overlays.chord.automaton import Integers, Numbers
from twigcast.overlay.chord.table import identifier_of_address

_CHUNK = 1 << 17
"""Lookups that are followed at once, to bound memory."""


class RingPositions:
    """A converged ring.

    Args:
        hosts: Number of hosts.
        virtual_nodes: Places of each.
        bits: Size of the circle.

    Attributes:
        identifiers: In order; nodes are numbered by their place in it.
        host: For every node its host.
        index_of: For every address its node.
    """

    def __init__(self, hosts: int, virtual_nodes: int = 1, bits: int = 160) -> None:
        self.bits = bits
        self.hosts = hosts
        self.virtual_nodes = virtual_nodes
        refs = sorted((identifier_of_address(address, bits), address) for address in range(hosts * virtual_nodes))
        self.identifiers = [identifier for identifier, _ in refs]
        self.index_of = {address: index for index, (_, address) in enumerate(refs)}
        self.host: Numbers = np.array([address // virtual_nodes for _, address in refs], np.int32)
        self._fingers: Numbers | None = None

    def __len__(self) -> int:
        return len(self.identifiers)

    def owner(self, key: str) -> int:
        """Returns the node that owns a key."""
        return int(self.owners([hashlib.sha1(key.encode(), usedforsecurity=False).digest()])[0])

    def owners(self, digests: Iterable[bytes]) -> Numbers:
        """Returns the nodes that own the keys with these SHA-1 digests."""
        identifiers, circle, count = self.identifiers, 1 << self.bits, len(self)
        result = (bisect_left(identifiers, int.from_bytes(digest, "big") % circle) % count for digest in digests)
        return np.fromiter(result, np.int32)

    def hops(self, starts: npt.ArrayLike, ends: npt.ArrayLike) -> Numbers:
        """Returns the hops of lookups from nodes for keys of others. Between nodes of one host none is counted."""
        first, last = np.broadcast_arrays(np.asarray(starts, np.int64), np.asarray(ends, np.int64))
        result = np.zeros(first.size, np.int32)
        for begin in range(0, first.size, _CHUNK):
            part = slice(begin, begin + _CHUNK)
            result[part] = self._follow(first.ravel()[part], last.ravel()[part])
        return result.reshape(first.shape)

    def _follow(self, starts: Integers, ends: Integers) -> Numbers:
        fingers, count = self._finger_gaps(), len(self)
        hops = np.zeros(len(starts), np.int32)
        going = np.flatnonzero(starts != ends)
        at = starts[going]
        while len(going):
            gaps = (ends[going] - at) % count
            # The last finger strictly before the owner is next, or the successor.
            reach = fingers[at]
            step = np.where(reach < gaps[:, None], reach, 1).max(axis=1)
            following = (at + step) % count
            hops[going] += self.host[at] != self.host[following]
            missing = following != ends[going]
            going, at = going[missing], following[missing]
        return hops

    def _finger_gaps(self) -> Numbers:
        """The distinct fingers of every node, as the number of nodes that each is further; padded with 1."""
        if self._fingers is None:
            rows = [self._gaps_of(start) for start in range(len(self))]
            self._fingers = np.ones((len(rows), max(1, *map(len, rows)) if rows else 1), np.int32)
            for row, gaps in zip(self._fingers, rows, strict=True):
                row[: len(gaps)] = gaps
        return self._fingers

    def _gaps_of(self, start: int) -> list[int]:
        circle, count = 1 << self.bits, len(self)
        own = self.identifiers[start]
        gaps: list[int] = []
        power = 0
        while power < self.bits:
            index = bisect_left(self.identifiers, (own + (1 << power)) % circle) % count
            gap = (index - start) % count
            if gap == 0:
                break
            gaps.append(gap)
            power = ((self.identifiers[index] - own) % circle).bit_length()
        return gaps
