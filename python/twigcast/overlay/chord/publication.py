"""Publishing, recursively (Miliaraki 2008, section 5.2), and notifying subscribers.

The publisher sends the message to the owner of the start state. A peer that receives it for a state continues with all
children of the current element at once: for each child and each target state one message to that state's owner. There
is no stack; the positions of the elements replace it. A peer runs as far as its fragment reaches (l symbols) by itself.
Peers may *bundle* branches (ours): one message to each target state, with all matches from which it goes on.

A publication can be *confirmed* (ours). Every expansion has a ticket and reports to the publisher its own ticket and
those of the expansions it led to. The publisher combines them all by exclusive or: every ticket turns up twice, once
announced and once reported, so the result is zero when every branch has been followed (the acker of Apache Storm).
Until then the publisher tries again after a while. Repeated notifications are dropped by subscribers. Counting reports
and announcements would not do: reports overtake each other. Notifications have tickets, too, which their subscribers
report, or, if they cannot be reached, the peers that tried.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from twigcast.overlay.chord import matching, shedding
from twigcast.overlay.chord.messages import (
    Branched,
    Notification,
    Notify,
    PathMatch,
    Publication,
    Published,
    RecExpand,
    RingFailure,
    Visited,
)
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.states import State, SubscriptionRef
from twigcast.overlay.chord.tickets import Tickets
from twigcast.overlay.core import Address, KeyRoutedMessage
from twigcast.overlay.documents import Document, split_document


@dataclass(slots=True, eq=False)
class PublicationProgress:
    """The state of a publication at its publisher, until every branch has been followed."""

    fragments: list[Document]  #: What to publish again; empty where the publisher follows the branches itself.
    attempt: int = 0  #: Number of the present attempt.
    attempts: int = 0
    last_report: float = 0.0  #: When something of this attempt was last reported, or it began.
    open: int = 0
    reported: set[int] = field(default_factory=set)
    failed: dict[int, tuple[SubscriptionRef, ...]] = field(default_factory=dict)  #: By ticket.

    def begin_attempt(self, peer: Peer, name: str) -> Tickets:
        """Begins the next attempt. Returns its tickets, which are all zero where nobody counts."""
        confirm = peer.settings.confirm
        self.attempt = peer.new_token()
        self.attempts += 1
        self.last_report = peer.now
        self.open = 0
        self.reported, self.failed = set(), {}
        if confirm:
            peer.set_timer(peer.settings.confirm_delay, ("publication", name, self.attempt))
        return Tickets(_first_ticket(name, self.attempt) if confirm else 0)


def publish(peer: Peer, document: Document) -> None:
    """Publishes a message of this peer's application.

    Raises:
        MessageTooLarge: It cannot be cut into fragments that peers accept.
    """
    limit = peer.settings.message_bytes_max
    progress = PublicationProgress(split_document(document, limit))
    if peer.settings.confirm:
        peer.publications[document.name] = progress
    _send_out(peer, document.name, progress)


def _send_out(peer: Peer, name: str, progress: PublicationProgress) -> None:
    tickets = progress.begin_attempt(peer, name)
    for fragment in progress.fragments:
        publication = Publication(name, peer.address, progress.attempt, peer.settings.confirm, fragment)
        send_expand(peer, RecExpand("start", publication, (PathMatch(-1, ()),), steps=1, ticket=tickets.draw()))
    progress.open = tickets.drawn


def _first_ticket(name: str, attempt: int) -> int:
    digest = hashlib.blake2b(f"{attempt} {name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") | 1


def on_publication_timer(peer: Peer, name: str, attempt: int) -> None:
    """Publishes again if not every branch was followed, and nothing has been heard of any for a while."""
    progress: PublicationProgress | None = peer.publications.get(name)
    if progress is None or progress.attempt != attempt:
        return
    rest = progress.last_report + peer.settings.confirm_delay - peer.now
    if rest > 0:
        peer.set_timer(rest, ("publication", name, attempt))
        return
    if progress.attempts >= peer.settings.attempts_max or not progress.fragments:
        del peer.publications[name]
        peer.deliver(RingFailure(f"publish {name}", "some branches could not be followed"))
        return
    _send_out(peer, name, progress)


def on_branched(peer: Peer, sender: Address, message: Branched) -> None:
    """Marks something as done, and completes the publication with the last ticket."""
    progress: PublicationProgress | None = peer.publications.get(message.name)
    if progress is None or progress.attempt != message.attempt or message.ticket in progress.reported:
        return
    progress.reported.add(message.ticket)
    progress.last_report = peer.now
    if message.failed:
        progress.failed[message.ticket] = message.failed
    progress.open ^= message.ticket ^ message.spawned
    complete_if_done(peer, message.name, progress)


def complete_if_done(peer: Peer, name: str, progress: PublicationProgress) -> None:
    """Completes a publication if all of its tickets have turned up twice."""
    if progress.open == 0:
        del peer.publications[name]
        failed = tuple(dict.fromkeys(subscription for some in progress.failed.values() for subscription in some))
        peer.deliver(Published(name, progress.attempts, failed))


def send_expand(peer: Peer, message: RecExpand) -> None:
    """Sends an expansion to the state's owner, or to one of the holders of a hot state."""
    copies = peer.copy_counts.get(message.key)
    if copies:
        copy = shedding.choose_copy(peer, message, copies)
        if copy:
            peer.route_to_key(f"{message.key}#{copy}", message._replace(copy=copy))
            return
    peer.route_to_key(message.key, message)


def on_rec_expand(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Continues a message from a state held here."""
    message: RecExpand = routed.payload
    peer.filtering_load += 1
    publication = message.publication
    hops = message.hops + routed.hops
    tickets = Tickets(message.ticket)
    if peer.settings.observe:
        peer.deliver(Visited(publication.name, message.key, message.steps, hops))
    if publication.document.size_bytes > peer.settings.message_bytes_max:
        peer.deliver(RingFailure(f"expand {message.key}", f"a message of {publication.document.size_bytes} bytes"))
    else:
        state = _state_for(peer, routed)
        if state is None and message.copy > 0:
            _send_to_owner(peer, message, hops)
            return
        if state is not None:
            expand(peer, state, message, hops, tickets)
    if publication.confirm:
        report = Branched(publication.name, publication.attempt, message.ticket, tickets.drawn)
        peer.send(publication.publisher, report)


def _state_for(peer: Peer, routed: KeyRoutedMessage) -> State | None:
    message: RecExpand = routed.payload
    if message.copy > 0:
        return peer.held.get((message.key, message.copy))
    state = peer.store.get(message.key)
    if state is not None and peer.settings.shedding:
        shedding.count(peer, state, routed.origin, lacking=-message.copy)
    return state


def _send_to_owner(peer: Peer, message: RecExpand, hops: int) -> None:
    """This holder has no copy (any more): the owner answers, and sends the copy again."""
    peer.filtering_load -= 1
    peer.route_to_key(message.key, message._replace(copy=-message.copy, hops=hops))


def expand(peer: Peer, state: State, message: RecExpand, hops: int, tickets: Tickets) -> None:
    """Matches on from a state as far as its fragment reaches, reports matches, and sends on what is left."""
    document = message.publication.document
    report = matching.MatchReporter(peer, message.publication, tickets)
    report(state, [match.path for match in message.matches if match.path])
    frontier = {state.key: (state, list(message.matches))}
    for level in range(peer.settings.fragment_levels + 1):
        reached: dict[str, list[PathMatch]] = {}
        matched: dict[str, list[tuple[int, ...]]] = {}
        for current, matches in frontier.values():
            for at, path in matches:
                for child in document.children[at]:
                    for key, consumed in current.targets(document.elements[child].label, state):
                        onward = (*path, child) if consumed else path
                        reached.setdefault(key, []).append(PathMatch(child, onward))
                        if consumed:
                            matched.setdefault(key, []).append(onward)
        if level == peer.settings.fragment_levels:
            _send_on(peer, message, reached, hops, tickets)
            return
        held = {state.key: state, **(state.fragment or {})}
        frontier = {key: (held[key], matches) for key, matches in reached.items() if key in held}
        for key, paths in matched.items():
            if key in held:
                report(held[key], paths)


def _send_on(peer: Peer, message: RecExpand, reached: dict[str, list[PathMatch]], hops: int, tickets: Tickets) -> None:
    whole = not peer.settings.ship_subtrees
    for key, matches in reached.items():
        for bundle in [tuple(matches)] if peer.settings.bundle else [(match,) for match in matches]:
            ticket = tickets.draw()
            send_expand(peer, RecExpand(key, message.publication, bundle, message.steps + 1, hops, 0, whole, ticket))


def on_notify(peer: Peer, sender: Address, message: Notify) -> None:
    """Delivers each match of a subscription of this peer's application once."""
    for key, version in message.subscriptions:
        present = peer.versions.get(key) == version and peer.requests[version].present
        if present and peer.notified.is_first((message.publisher, message.name), version):
            peer.deliver(Notification(message.name, key, message.publisher))
    if message.ticket:
        peer.send(message.publisher, Branched(message.name, message.attempt, message.ticket, 0))
