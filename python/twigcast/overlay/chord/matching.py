"""Matching of a state and an element: the next states, and the satisfied claims.

Predicates are evaluated after the structure has matched, on the path match that led to the accepting state. Claims with
equal predicates are listed together, and one condition on one element is evaluated once for all the predicates it
occurs in during an expansion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twigcast.overlay.chord import indexing, meeting
from twigcast.overlay.chord.messages import Notify, PartMatch, Publication
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.states import PartClaim, Registration, State
from twigcast.overlay.chord.tickets import Tickets
from twigcast.overlay.core import TOKENS_OF_A_LIFE, Address
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


class MatchReporter:
    """Reports what an expansion finds to the subscribers of accepting states, or to where the parts of a query meet.

    Args:
        peer: Where the expansion takes place.
        publication: The message.
        tickets: Those of the expansion.
    """

    def __init__(self, peer: Peer, publication: Publication, tickets: Tickets) -> None:
        self._peer = peer
        self._publication = publication
        self._tickets = tickets
        self._memo: dict[tuple[Condition, int], bool] = {}

    def __call__(self, state: State, paths: Iterable[tuple[int, ...]]) -> None:
        """Reports the path matches that lead to a state."""
        if not state.accepted:
            return
        publication, is_first = self._publication, self._peer.reported.is_first
        attempt = publication.publisher, publication.attempt
        whole: dict[Address, list[tuple[str, int]]] = {}
        parts: dict[tuple[PartClaim, int], list[tuple[int, ...]]] = {}
        for path in paths:
            found = satisfied_claims(state.accepted, publication.document, path, self._memo)
            for predicates, claim, version in found:
                subscription = claim.subscription
                if self._peer.is_outdated(subscription.subscriber, version // TOKENS_OF_A_LIFE):
                    if is_first(attempt, (claim, version)):
                        indexing.end_former_life(self._peer, state.key, predicates, claim, version)
                elif claim.plan:
                    lefts = tuple(publication.document.elements[path[step]].left for step in meeting.joints(claim))
                    if is_first(attempt, (subscription, version, claim.part, lefts)):
                        parts.setdefault((claim, version), []).append(lefts)
                elif is_first(attempt, (subscription, version)):
                    whole.setdefault(subscription.subscriber, []).append((subscription.key, version))
        self._send(whole, parts)

    def _send(
        self,
        whole: dict[Address, list[tuple[str, int]]],
        parts: dict[tuple[PartClaim, int], list[tuple[int, ...]]],
    ) -> None:
        publication = self._publication
        for (claim, version), matches in parts.items():
            self._send_part(claim, version, tuple(matches))
        for subscriber, keys in whole.items():
            ticket = self._tickets.draw()
            notice = Notify(publication.name, publication.publisher, tuple(keys), publication.attempt, ticket)
            self._peer.send(subscriber, notice)

    def _send_part(self, claim: PartClaim, version: int, matches: tuple[tuple[int, ...], ...]) -> None:
        name, publisher, attempt = self._publication.name, self._publication.publisher, self._publication.attempt
        match = PartMatch(name, publisher, claim, version, matches, attempt, self._tickets.draw())
        if self._peer.settings.meet_at_subscriber:
            self._peer.send(claim.subscription.subscriber, match)
        else:
            self._peer.route_to_key(meeting.key_of_meeting(claim.subscription), match)
