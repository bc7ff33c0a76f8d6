"""Checkers, which read a journal and a trace and return what went wrong; nothing, if the run was right."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from twigcast.lab.overlays.journal import Entry, Fate, Journal
from twigcast.lab.overlays.trace import TraceStep
from twigcast.overlay.chord.messages import Notification, Published, Subscribed
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.table import distance
from twigcast.overlay.core import Address


class Violation(NamedTuple):
    """A violation: what must not have happened, when and where."""

    rule: str
    time: float
    node: Address
    what: str


class _Interest(NamedTuple):
    """What an application asked for under a key, from one step of the trace to the next one that ends it."""

    node: Address
    key: str
    query: Any
    begin: float
    end: float


class _Run:
    """What a trace and a journal say of subscriptions and publications."""

    def __init__(self, journal: Journal, trace: Sequence[TraceStep]) -> None:
        self.interests: list[_Interest] = []
        #: By node, when it left, or crashed, the last time.
        self.gone: dict[Address, float] = {}
        self._read(trace)
        self.confirmed: dict[tuple[Address, str], list[float]] = defaultdict(list)
        self.notified: dict[tuple[Address, str, Address, str], list[float]] = defaultdict(list)
        self.published: dict[tuple[Address, str], float] = {}
        self.failed: set[tuple[Address, str, Address, str]] = set()
        for entry in journal.delivered():
            self._note(entry)

    def _read(self, trace: Sequence[TraceStep]) -> None:
        open_ones: dict[tuple[Address, str], tuple[Any, float]] = {}
        for step in trace:
            ended: list[tuple[Address, str]] = []
            if step.what == "subscribe":
                ended = [(step.node, step.argument[0])]
                # The query that a key has already goes on.
                if open_ones.get(ended[0], (None, 0.0))[0] == step.argument[1]:
                    continue
            elif step.what == "unsubscribe":
                ended = [(step.node, step.argument)]
            elif step.what in ("crash", "leave"):
                self.gone[step.node] = step.time
                # A node that leaves is notified until its farewells are out.
                ended = [key for key in open_ones if key[0] == step.node and step.what == "crash"]
            for key in ended:
                if key in open_ones:
                    query, begin = open_ones.pop(key)
                    self.interests.append(_Interest(*key, query, begin, step.time))
            if step.what == "subscribe":
                open_ones[ended[0]] = step.argument[1], step.time
        self.interests.extend(_Interest(*key, *one, math.inf) for key, one in open_ones.items())

    def _note(self, entry: Entry) -> None:
        item, node = entry.item, entry.receiver
        if isinstance(item, Subscribed) and item.present:
            self.confirmed[node, item.subscription.key].append(entry.time)
        elif isinstance(item, Notification):
            self.notified[node, item.key, item.publisher, item.name].append(entry.time)
        elif isinstance(item, Published):
            self.published[node, item.name] = entry.time
            self.failed.update((subscriber, key, node, item.name) for subscriber, key in item.failed)

    def is_due(self, interest: _Interest, step: TraceStep) -> bool:
        """Returns whether an interest was confirmed before a publication, and it and the publisher last to the end."""
        confirmed = self.confirmed[interest.node, interest.key]
        return (
            interest.end == math.inf
            and self.gone.get(interest.node, -math.inf) <= interest.begin
            and any(interest.begin <= time < step.time for time in confirmed)
            and self.gone.get(step.node, -math.inf) < step.time
        )


def check_notifications(
    journal: Journal,
    trace: Sequence[TraceStep],
    matches: Callable[[Any, Any], bool],
    settled: Callable[[float], bool] = lambda time: True,
) -> list[Violation]:
    """Checks whether each subscriber gets each message that matches exactly once, and no other.

    Args:
        journal: What happened; must have been kept.
        trace: The steps of the run. The argument of a publication has a `name`, by which its publisher knows it.
        matches: The oracle: does this query match this message?
        settled: Whether messages published at a time must reach everybody (false during a partition).

    Returns:
        `lost`: a subscription was confirmed before the message was published, its subscriber and the publisher live
        to the end, it was not withdrawn or replaced, nothing arrived, and the publisher was not told of a failure.
        `doubled`: the application got it twice. `false`: the query that the key had at that time does not match, or it
        had none. `incomplete`: a publication was not confirmed.
    """
    run = _Run(journal, trace)
    violations: list[Violation] = []
    messages = {(step.node, step.argument.name): step.argument for step in trace if step.what == "publish"}
    for (node, key, publisher, name), times in run.notified.items():
        of_key = [interest for interest in run.interests if (interest.node, interest.key) == (node, key)]
        for interest in of_key:
            count = sum(interest.begin <= time <= interest.end for time in times)
            if count > 1:
                violations.append(Violation("doubled", times[-1], node, f"{key} of {name}, {count} times"))
        violations.extend(
            Violation("false", time, node, f"{key} of {name}")
            for time in times
            if not any(i.begin <= time <= i.end and matches(i.query, messages[publisher, name]) for i in of_key)
        )
    for step in trace:
        if step.what != "publish" or not settled(step.time):
            continue
        name = step.argument.name
        for interest in run.interests:
            if run.is_due(interest, step) and matches(interest.query, step.argument):
                way = interest.node, interest.key, step.node, name
                if way not in run.failed and not any(time >= interest.begin for time in run.notified.get(way, ())):
                    violations.append(Violation("lost", step.time, interest.node, f"{interest.key} of {name}"))
        if run.gone.get(step.node, -math.inf) < step.time and run.published.get((step.node, name), -1) < step.time:
            violations.append(Violation("incomplete", step.time, step.node, name))
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
    """Checks whether each state that has an owner is held by this owner and the next peers on the ring."""
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
