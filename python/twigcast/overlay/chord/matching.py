"""Matching of a state and an element: the next states, and the satisfied claims.

Predicates are evaluated after the structure has matched, on the path match that led to the accepting state. Claims with
equal predicates are listed together, and one condition on one element is evaluated once for all the predicates it
occurs in during an expansion.
"""

from __future__ import annotations

from collections.abc import Iterator

from twigcast.overlay.chord import indexing, meeting
from twigcast.overlay.chord.messages import Notify, PartMatch, Publication
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.states import PartClaim, Registration, State
from twigcast.overlay.chord.tickets import Tickets
from twigcast.overlay.core import TOKENS_OF_A_LIFE
from twigcast.overlay.documents import Document
from twigcast.overlay.paths import Condition, Predicate, holds


def satisfied_claims(
    accepted: dict[tuple[Predicate, ...], dict[PartClaim, Registration]],
    document: Document,
    path: tuple[int, ...],
    memo: dict[tuple[Condition, int], bool],
) -> Iterator[tuple[tuple[Predicate, ...], PartClaim, int]]:
    """Yields the claims whose predicates hold on a path match, with these and with their versions.

    A path match is, by step, the index of its element.

    `memo` has the conditions on elements that were evaluated already.
    """
    for predicates, claims in accepted.items():
        if all(_holds(predicate, document, path, memo) for predicate in predicates):
            for claim, registration in claims.items():
                if registration.present:
                    yield predicates, claim, registration.version


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
    whole: dict[int, list[tuple[str, int]]] = {}
    attempt = publication.publisher, publication.attempt
    for predicates, claim, version in satisfied_claims(state.accepted, publication.document, path, memo):
        subscription = claim.subscription
        if peer.is_outdated(subscription.subscriber, version // TOKENS_OF_A_LIFE):
            if peer.reported.is_first(attempt, (claim, version)):
                indexing.end_former_life(peer, state.key, predicates, claim, version)
        elif claim.plan:
            _send_part(peer, claim, version, publication, path, tickets)
        elif peer.reported.is_first(attempt, (subscription, version)):
            whole.setdefault(subscription.subscriber, []).append((subscription.key, version))
    for subscriber, keys in whole.items():
        peer.send(subscriber, Notify(publication.name, publication.publisher, tuple(keys), attempt[1], tickets.draw()))


def _send_part(
    peer: Peer, claim: PartClaim, version: int, publication: Publication, path: tuple[int, ...], tickets: Tickets
) -> None:
    elements = publication.document.elements
    lefts = tuple(elements[path[step]].left for step in meeting.joints(claim))
    name, publisher, attempt = publication.name, publication.publisher, publication.attempt
    if not peer.reported.is_first((publisher, attempt), (claim.subscription, version, claim.part, lefts)):
        return
    match = PartMatch(name, publisher, claim, version, lefts, attempt, tickets.draw())
    if peer.settings.meet_at_subscriber:
        peer.send(claim.subscription.subscriber, match)
    else:
        peer.route_to_key(meeting.key_of_meeting(claim.subscription), match)
