"""What only batches can be asked, about one message."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import pairwise

from twigcast import _core
from twigcast.engine.external import integers, match_batch
from twigcast.engine.key_tables import KeyTable, KeyTableCache
from twigcast.errors import NeedsConversion, UndecidedSubscription


@dataclass(frozen=True, slots=True)
class Single:
    """The engine's answer to a batch of one message, as Python values."""

    slots: list[int]
    node_counts: list[int]
    payload_numbers: memoryview
    """By match, the number of its payload; -1 for the message."""
    payloads: list[bytes]
    failures: list[tuple[str, str]]
    """Keys and reasons."""
    table: KeyTable
    """What the slots stand for."""

    def keys(self) -> list[str]:
        """The keys of the matches."""
        return self.table.keys_of(self.slots)

    def numbers(self) -> memoryview:
        """The numbers of the payloads of the matches."""
        return self.payload_numbers


def ask_single(
    engine: _core.Engine, tables: KeyTableCache, xml: bytes, *, deliver: bool = False, nodes: bool = False
) -> Single:
    """Ask about one message what only batches can be asked.

    Raises:
        RejectedMessage: The message is rejected.
        NeedsConversion: It is to be converted first.
    """
    offsets = array("q", [0, len(xml)]).tobytes()
    table = tables.keys()
    result = match_batch(engine, offsets, xml, 1, deliver=deliver, nodes=nodes, threads=1, known=table.at_hand)
    for _, error in result.errors:
        raise error
    if result.needs_conversion:
        raise NeedsConversion(1, 1, "the message is to be converted")
    ends = integers("q", result.payload_offsets)
    payloads = memoryview(result.payloads)
    return Single(
        integers("i", result.slots),
        integers("i", result.node_counts),
        memoryview(result.payload_numbers).cast("i"),
        [bytes(payloads[start:end]) for start, end in pairwise(ends)],
        [(error.key, error.reason) for _, error in result.failures if isinstance(error, UndecidedSubscription)],
        tables.of_answer(table, result),
    )
