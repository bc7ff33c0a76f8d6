"""The engine's answers to batches, with those of Saxon in them.

For a query in XQuery the engine only says on which messages it may have a result. Here those are evaluated: what has
none is no match, what fails is told like any other subscription that could not be decided, and the rest of the answer
stays as it is.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from twigcast._core import BatchResult, Engine, Numbers
from twigcast.errors import TwigcastError, UndecidedSubscription
from twigcast.xquery.exchange import Reply
from twigcast.xquery.saxon import shared


@dataclass(frozen=True, slots=True)
class Patched:
    """Answers that were put together again; see ``_core.BatchResult``."""

    keys: tuple[bytes, bytes] | None
    more_keys: tuple[bytes, bytes] | None
    key_offsets: bytes
    slots: bytes
    node_counts: bytes
    payload_numbers: bytes
    payload_validity: bytes
    payload_offsets: bytes
    payloads: bytes
    errors: list[tuple[int, TwigcastError]]
    failures: list[tuple[int, TwigcastError]]
    needs_conversion: list[int]


Evaluate = Callable[[str, Mapping[str, str], bytes], Reply]
"""Evaluates a query, with its namespaces, on a message in UTF-8; whatever goes wrong is told in the reply."""

Answers = BatchResult | Patched
"""Answers to one batch, as raw little-endian Arrow buffers."""


def match_count(answers: Answers) -> int:
    """How many matches there are in all messages."""
    return len(answers.matches) if isinstance(answers, BatchResult) else len(answers.slots) // 4


def match_batch(
    engine: Engine,
    offsets: bytes,
    data: bytes | memoryview,
    count: int,
    *,
    deliver: bool,
    nodes: bool,
    threads: int,
    known: tuple[int, int, int] | None = None,
    evaluate: Evaluate | None = None,
) -> Answers:
    """Ask the engine, and Saxon where it takes Saxon. Arguments as for the engine.

    ``evaluate`` is what asks Saxon; by default the one of this process is asked.

    Raises:
        MissingExtra: There are queries in XQuery, and Saxon is not installed.
    """
    result = engine.match_batch(offsets, data, count, None, deliver, nodes, threads, known)
    if not engine.has_external:
        return result
    external = _queries(engine, result)
    if not external:
        return result
    positions = array("q", offsets[: 8 * (count + 1)])
    return _Patching(
        result,
        external,
        evaluate or shared().evaluate,
        lambda row: bytes(data[positions[row] - positions[0] : positions[row + 1] - positions[0]]),
        deliver=deliver,
    ).patched()


@dataclass(frozen=True, slots=True)
class _Query:
    key: str
    text: str
    namespaces: dict[str, str]


def _queries(engine: Engine, results: Answers) -> dict[int, _Query]:
    """The queries in XQuery, by what stands for them in the answers: slots, or places among the keys."""
    queries = {slot: _Query(key, text, namespaces) for slot, key, text, namespaces in engine.external()}
    if results.keys is None:
        return queries
    by_key = {query.key: query for query in queries.values()}
    ends, text = array("i", results.keys[0]), results.keys[1]
    keys = [text[start:end].decode() for start, end in pairwise(ends)]
    return {position: by_key[key] for position, key in enumerate(keys) if key in by_key}


@dataclass(slots=True)
class _Patching:
    answers: Answers
    external: dict[int, _Query]
    evaluate: Evaluate
    message: Callable[[int], bytes]
    deliver: bool
    kept: list[int] = field(default_factory=list)
    """Places of the matches that stay."""
    numbers: list[int] = field(default_factory=list)
    """Numbers of the payloads of those."""
    results: list[bytes] = field(default_factory=list)
    failures: list[tuple[int, TwigcastError]] = field(default_factory=list)

    def patched(self) -> Answers:
        """The answers, if there is anything to change in them."""
        slots = integers("i", self.answers.slots)
        ends = integers("i", self.answers.key_offsets)
        if self.external.keys().isdisjoint(slots):
            return self.answers
        numbers = integers("i", self.answers.payload_numbers)
        before = len(self.answers.payload_offsets) // 8 - 1
        key_offsets = array("i", [0])
        for row, (start, end) in enumerate(pairwise(ends)):
            for position in range(start, end):
                if self._stays(row, slots[position], numbers[position] if self.deliver else -1, before):
                    self.kept.append(position)
            key_offsets.append(len(self.kept))
        counts = integers("i", self.answers.node_counts)
        offsets = array("q", self.answers.payload_offsets)
        for payload in self.results:
            offsets.append(offsets[-1] + len(payload))
        return Patched(
            keys=self.answers.keys,
            more_keys=self.answers.more_keys,
            key_offsets=key_offsets.tobytes(),
            slots=array("i", (slots[index] for index in self.kept)).tobytes(),
            node_counts=array("i", (counts[index] for index in self.kept)).tobytes() if counts else b"",
            payload_numbers=array("i", self.numbers).tobytes() if self.deliver else b"",
            payload_validity=_bits(self.numbers) if self.deliver else b"",
            payload_offsets=offsets.tobytes(),
            payloads=b"".join([self.answers.payloads, *self.results]),
            errors=self.answers.errors,
            failures=[*self.answers.failures, *self.failures],
            needs_conversion=self.answers.needs_conversion,
        )

    def _stays(self, row: int, slot: int, number: int, before: int) -> bool:
        query = self.external.get(slot)
        if query is not None:
            reply = self.evaluate(query.text, query.namespaces, self.message(row))
            if reply.error is not None:
                self.failures.append((row, UndecidedSubscription(query.key, reply.error)))
            if reply.result is None:
                return False
            number = before + len(self.results)
            self.results += [reply.result] if self.deliver else []
        self.numbers.append(number)
        return True


def _bits(numbers: list[int]) -> bytes:
    """A bit per match, set where it has a payload; empty where all have one."""
    if all(number >= 0 for number in numbers):
        return b""
    return bytes(_octets(numbers))


def _octets(numbers: list[int]) -> Iterator[int]:
    for start in range(0, len(numbers), 8):
        yield sum(1 << at for at, number in enumerate(numbers[start : start + 8]) if number >= 0)


def integers(typecode: Literal["i", "q"], data: bytes | Numbers) -> list[int]:
    """The integers of a buffer, of 32 (``i``) or 64 bits (``q``)."""
    return memoryview(data).cast(typecode).tolist()
