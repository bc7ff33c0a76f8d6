"""Publishing, iteratively (Miliaraki 2008, section 5.1): the publisher keeps the runtime stack and asks for every step.

For every start tag the publisher asks the owner of each active state which states follow; the answers are the active
states below. A state's claims come with the answer. States that are not asked about any more, because the message has
nothing below the element, are asked only for their claims, and counted apart: the published procedure overlooks them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from twigcast.overlay.chord import matching
from twigcast.overlay.chord.messages import (
    Accepted,
    CollectAccepted,
    Collected,
    Expanded,
    ExpandState,
    Publication,
    Published,
    Visited,
)
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.publication import PublicationProgress, complete_if_done
from twigcast.overlay.chord.states import State
from twigcast.overlay.chord.tickets import Tickets
from twigcast.overlay.core import Address, KeyRoutedMessage
from twigcast.overlay.documents import Document


@dataclass(slots=True, eq=False)
class Iteration:
    """The publication of one message, at its publisher."""

    document: Document
    publication: Publication
    tickets: Tickets
    report: matching.MatchReporter
    order: list[int]  #: Elements that are left, the last one first.
    #: Active states at each element, -1 for the document node: by key, the paths by which a state was reached.
    stacks: dict[int, dict[str, list[tuple[int, ...]]]] = field(default_factory=lambda: {-1: {"start": [()]}})
    missing: dict[int, tuple[str, int]] = field(default_factory=dict)  #: By token, questions without an answer.
    steps: int = 0  #: Questions so far that had to wait for each other.
    hops: int = 0  #: Hops of these questions and of their answers.
    round_hops: int = 0  #: Most hops of one of the present questions.
    seen: set[tuple[str, int]] = field(default_factory=set)


def publish_iteratively(peer: Peer, document: Document) -> None:
    """Publishes a message of this peer's application by the iterative method."""
    progress = PublicationProgress([])
    tickets = progress.begin_attempt(peer, document.name)
    if peer.settings.confirm:
        peer.publications[document.name] = progress
        # Drawn first and taken back at the end: until then the publication is not complete.
        progress.open = tickets.draw()
    attempt = Publication(document.name, peer.address, progress.attempt, peer.settings.confirm, document)
    report = matching.MatchReporter(peer, attempt, tickets)
    order = list(range(len(document.elements) - 1, -1, -1))
    _next_element(peer, Iteration(document, attempt, tickets, report, order))


def _next_element(peer: Peer, iteration: Iteration) -> None:
    """Asks all active states about the next element that has any."""
    document = iteration.document
    while iteration.order:
        element = iteration.order.pop()
        active = iteration.stacks.get(document.elements[element].parent)
        if active:
            iteration.stacks[element] = {}
            _ask(peer, iteration, element, list(active))
            return
    _collect_rest(peer, iteration)


def _ask(peer: Peer, iteration: Iteration, element: int, keys: list[str]) -> None:
    label = iteration.document.elements[element].label
    iteration.steps += 1
    iteration.round_hops = 0
    for key in keys:
        token = peer.new_token()
        iteration.missing[token] = (key, element)
        peer.iterations[token] = iteration
        peer.route_to_key(key, ExpandState(key, label, token))


def on_expand_state(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Answers with the states that follow, and the claims that this one accepts."""
    message: ExpandState = routed.payload
    peer.filtering_load += 1
    state = peer.store.get(message.key)
    targets = tuple(state.targets(message.label, state)) if state is not None else ()
    peer.send(routed.origin, Expanded(message.token, targets, _accepted(state), routed.hops))


def on_collect(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Answers with the claims that a state accepts."""
    message: CollectAccepted = routed.payload
    state = peer.store.get(message.key)
    peer.send(routed.origin, Collected(message.token, _accepted(state), routed.hops))


def _accepted(state: State | None) -> Accepted:
    if state is None or not state.accepted:
        return ()
    return tuple(
        (predicates, tuple((claim, made) for claim, made in claims.items() if made.present))
        for predicates, claims in state.accepted.items()
    )


def on_expanded(peer: Peer, sender: Address, message: Expanded) -> None:
    """Processes one answer. The last answer for an element starts the next element."""
    iteration: Iteration | None = peer.iterations.pop(message.token, None)
    if iteration is None:
        return
    key, element = iteration.missing.pop(message.token)
    above = iteration.document.elements[element].parent
    paths = iteration.stacks[above][key]
    _report(iteration, key, above, message.accepted)
    reached = iteration.stacks[element]
    for target, consumed in message.targets:
        onward = [(*path, element) for path in paths] if consumed else paths
        reached.setdefault(target, []).extend(onward)
    iteration.round_hops = max(iteration.round_hops, message.hops + (peer.host(sender) != peer.host(peer.address)))
    if not iteration.missing:
        iteration.hops += iteration.round_hops
        _next_element(peer, iteration)


def _report(iteration: Iteration, key: str, element: int, accepted: Accepted) -> None:
    """Notifies the subscribers of a state reached by this element."""
    if not accepted or (key, element) in iteration.seen:
        return
    iteration.seen.add((key, element))
    state = State(key)
    for predicates, claims in accepted:
        for claim, registration in claims:
            state.register(predicates, claim, registration)
    iteration.report(state, [path for path in iteration.stacks[element][key] if path and path[-1] == element])


def _collect_rest(peer: Peer, iteration: Iteration) -> None:
    """Asks the states that were reached but never expanded for their claims."""
    rest = [
        (key, element)
        for element, reached in iteration.stacks.items()
        if element >= 0 and not iteration.document.children[element]
        for key, paths in reached.items()
        if any(path and path[-1] == element for path in paths)
    ]
    if not rest:
        _finish(peer, iteration)
        return
    for key, element in rest:
        token = peer.new_token()
        iteration.missing[token] = (key, element)
        peer.iterations[token] = iteration
        peer.route_to_key(key, CollectAccepted(key, token))


def on_collected(peer: Peer, sender: Address, message: Collected) -> None:
    """Processes the claims of a state that was not expanded."""
    iteration: Iteration | None = peer.iterations.pop(message.token, None)
    if iteration is None:
        return
    key, element = iteration.missing.pop(message.token)
    _report(iteration, key, element, message.accepted)
    if not iteration.missing:
        _finish(peer, iteration)


def _finish(peer: Peer, iteration: Iteration) -> None:
    if peer.settings.observe:
        peer.deliver(Visited(iteration.document.name, "iterative", iteration.steps, iteration.hops))
    progress: PublicationProgress | None = peer.publications.get(iteration.document.name)
    if not peer.settings.confirm:
        peer.deliver(Published(iteration.document.name, 1))
    elif progress is not None and progress.attempt == iteration.publication.attempt:
        progress.open ^= iteration.tickets.drawn
        complete_if_done(peer, iteration.document.name, progress)
