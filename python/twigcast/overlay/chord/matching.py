"""Matching of a state and an element: the next states, and the satisfied claims.

Predicates are evaluated after the structure has matched, on the path match that led to the accepting state. Claims with
equal predicates are listed together, and one condition on one element is evaluated once for all the predicates it
occurs in during an expansion.
"""

from __future__ import annotations

from collections.abc import Iterator

from twigcast.overlay.chord import meeting
from twigcast.overlay.chord.messages import Notify, PartMatch, Publication
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.states import PartClaim, Registration, State
from twigcast.overlay.documents import Document
from twigcast.overlay.paths import Condition, Predicate, holds


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


_MASK = (1 << 64) - 1


def satisfied_claims(
    accepted: dict[tuple[Predicate, ...], dict[PartClaim, Registration]],
    document: Document,
    path: tuple[int, ...],
    memo: dict[tuple[Condition, int], bool],
) -> Iterator[PartClaim]:
    """Yields the claims whose predicates hold on a path match.

    Args:
        accepted: Claims by predicates.
        document: The message.
        path: Index of the element of each step.
        memo: What is known already of conditions on elements.
    """
    for predicates, claims in accepted.items():
        if all(_holds(predicate, document, path, memo) for predicate in predicates):
            for claim, registration in claims.items():
                if registration.present:
                    yield claim


def _holds(
    predicate: Predicate, document: Document, path: tuple[int, ...], memo: dict[tuple[Condition, int], bool]
) -> bool:
    key = (predicate.test, path[predicate.step])
    existing = memo.get(key)
    if existing is None:
        existing = memo[key] = holds(predicate.test, document.elements[key[1]])
    return existing


def report(
    peer: Peer,
    state: State,
    publication: Publication,
    path: tuple[int, ...],
    memo: dict[tuple[Condition, int], bool],
    tickets: Tickets,
) -> None:
    """Reports a path match to the subscribers of an accepting state, or to the meeting points of its parts."""
    if not state.accepted:
        return
    whole: dict[int, list[str]] = {}
    for claim in satisfied_claims(state.accepted, publication.document, path, memo):
        if claim.plan:
            _send_part(peer, claim, publication, path, tickets)
        elif peer.first_time(publication.name, publication.attempt, claim.subscription):
            whole.setdefault(claim.subscription.subscriber, []).append(claim.subscription.key)
    for subscriber, keys in whole.items():
        peer.send(subscriber, Notify(publication.name, tuple(keys)))


def _send_part(peer: Peer, claim: PartClaim, publication: Publication, path: tuple[int, ...], tickets: Tickets) -> None:
    elements = publication.document.elements
    lefts = tuple(elements[path[step]].left for step in meeting.joints(claim))
    if not peer.first_time(publication.name, publication.attempt, (claim.subscription, claim.part, lefts)):
        return
    publisher = publication.publisher if publication.confirm else -1
    match = PartMatch(publication.name, claim, lefts, publisher, publication.attempt, tickets.draw())
    if peer.settings.meet_at_subscriber:
        peer.send(claim.subscription.subscriber, match)
    else:
        peer.route_to_key(meeting.key_of_meeting(claim.subscription), match)
