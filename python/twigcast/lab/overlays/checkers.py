"""Checkers: read a journal and a trace, and say what went wrong. An empty answer means that nothing did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from twigcast.lab.overlays.journal import Entry, Fate, Journal
from twigcast.lab.overlays.trace import TraceStep
from twigcast.overlay.chord.identifiers import distance
from twigcast.overlay.chord.messages import Notification, Published, RingFailure, Subscribed
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.core import Address


class Violation(NamedTuple):
    """Something that must not happen, with when, where and what."""

    rule: str
    time: float
    node: Address
    what: str


class _Life:
    """What a trace and a journal say of subscriptions and publications."""

    def __init__(self, journal: Journal, trace: Sequence[TraceStep]) -> None:
        self.gone = {step.node: step.time for step in trace if step.what in ("crash", "leave")}
        self.queries: dict[tuple[Address, str], Any] = {}
        self.asked_out: dict[tuple[Address, str], float] = {}
        for step in trace:
            if step.what == "subscribe":
                self.queries[step.node, step.argument[0]] = step.argument[1]
            elif step.what == "unsubscribe":
                self.asked_out.setdefault((step.node, step.argument), step.time)
        self.confirmed: dict[tuple[Address, str], float] = {}
        self.withdrawn: dict[tuple[Address, str], float] = {}
        self.notified: Counter[tuple[Address, str, str]] = Counter()
        self.published: set[str] = set()
        self.abandoned: list[Entry] = []
        for entry in journal.delivered():
            self._note(entry)

    def _note(self, entry: Entry) -> None:
        item = entry.item
        if isinstance(item, Subscribed):
            position = self.confirmed if item.present else self.withdrawn
            position.setdefault((entry.receiver, item.subscription.key), entry.time)
        elif isinstance(item, Notification):
            self.notified[entry.receiver, item.key, item.name] += 1
        elif isinstance(item, Published):
            self.published.add(item.name)
        elif isinstance(item, RingFailure):
            self.abandoned.append(entry)


def check_notifications(
    journal: Journal,
    trace: Sequence[TraceStep],
    matches: Callable[[Any, Any], bool],
    settled: Callable[[float], bool] = lambda time: True,
) -> list[Violation]:
    """Checks whether each subscriber gets each message that matches exactly once, and no other.

    Args:
        journal: What happened; must have been kept.
        trace: What was asked for. The argument of a publication has a `name`.
        matches: The oracle: does this query match this message?
        settled: Whether messages published at a time must reach everybody (false during a partition).

    Returns:
        `lost`: a subscription was confirmed before the message was published, its subscriber and the publisher live
        to the end, it was not withdrawn, and nothing arrived. `doubled`: the application heard twice. `false`: the
        query does not match, or had been withdrawn for good before. `incomplete`: a publication was not confirmed.
    """
    life = _Life(journal, trace)
    violations: list[Violation] = []
    for step in trace:
        if step.what != "publish":
            continue
        message = step.argument
        for (node, key), query in life.queries.items():
            count = life.notified[node, key, message.name]
            matching = matches(query, message)
            if count > 1:
                violations.append(Violation("doubled", step.time, node, f"{key} of {message.name}, {count} times"))
            withdrawn = life.withdrawn.get((node, key))
            if count and (not matching or (withdrawn is not None and withdrawn < step.time)):
                violations.append(Violation("false", step.time, node, f"{key} {query} of {message.name}"))
            requested = (
                matching
                and life.confirmed.get((node, key), float("inf")) < step.time
                and (node, key) not in life.asked_out
                and node not in life.gone
                and step.node not in life.gone
                and settled(step.time)
            )
            if requested and not count:
                violations.append(Violation("lost", step.time, node, f"{key} {query} of {message.name}"))
        if step.node not in life.gone and message.name not in life.published and settled(step.time):
            violations.append(Violation("incomplete", step.time, step.node, message.name))
    return violations


def check_ring(peers: Iterable[Peer]) -> list[Violation]:
    """Checks whether all live peers form one ring: successors and predecessors are nearest, and all ranges verified."""
    ordered = sorted(peers, key=lambda peer: peer.ref.identifier)
    violations: list[Violation] = []
    for index, peer in enumerate(ordered):
        after, before = ordered[(index + 1) % len(ordered)], ordered[index - 1]
        if not peer.active:
            violations.append(Violation("not joined", peer.now, peer.address, "still outside the ring"))
            continue
        if peer.table.successor != after.ref:
            violations.append(
                Violation("successor", peer.now, peer.address, f"{peer.table.successor} instead of {after.ref}")
            )
        if peer.table.predecessor != before.ref:
            violations.append(
                Violation("predecessor", peer.now, peer.address, f"{peer.table.predecessor} instead of {before.ref}")
            )
        span = distance(before.ref.identifier, peer.ref.identifier, peer.settings.bits) or 1 << peer.settings.bits
        if peer.table.verified_span < span:
            violations.append(Violation("range", peer.now, peer.address, "not verified"))
        if peer.waiting:
            violations.append(Violation("waiting", peer.now, peer.address, f"{len(peer.waiting)} messages"))
    return violations


def check_copies(peers: Iterable[Peer], replicas: int) -> list[Violation]:
    """Checks whether each state that somebody owns is held by its owner and the next peers on the ring."""
    ordered = sorted(peers, key=lambda peer: peer.ref.identifier)
    violations: list[Violation] = []
    for index, peer in enumerate(ordered):
        low = ordered[index - 1].ref.identifier
        for state in peer.store.in_range(low, peer.ref.identifier):
            holders = [ordered[(index + step) % len(ordered)] for step in range(min(replicas, len(ordered)))]
            for holder in holders:
                copy = holder.store.get(state.key)
                if not state.is_empty() and (copy is None or copy.record() != state.record()):
                    violations.append(Violation("copy", peer.now, holder.address, state.key))
    return violations


def check_conservation(journal: Journal) -> list[Violation]:
    """Checks whether each message received or dropped was sent, and each message sent had one fate, or is under way."""
    balance: Counter[tuple[Address, Address, int]] = Counter()
    violations: list[Violation] = []
    for entry in journal.entries:
        key = (entry.sender, entry.receiver, id(entry.item))
        if entry.fate in (Fate.SENT, Fate.DOUBLED):
            balance[key] += 1
        elif entry.fate in (Fate.RECEIVED, Fate.DROPPED, Fate.LOST, Fate.BLOCKED):
            balance[key] -= 1
            if balance[key] < 0:
                violations.append(Violation("invented", entry.time, entry.receiver, repr(entry.item)))
    return violations
