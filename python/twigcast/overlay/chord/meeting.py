"""The meeting points of the parts of a branching query (NP-Filter of Diao 2005, section 5.2, distributed; ours).

Each part reports its path matches to one peer: the owner of the subscription's key on the ring, or the subscriber. A
path match is reduced to the elements at its *joints*: its own anchor, and the anchors of the parts that hang on it. A
match of a part counts if, for every part that hangs on it, a match that counts has the same element at the anchor. The
query matches when a match of the main path counts. All conditions are monotone, so the answer can be given as soon as
it is known, in whatever order and from whatever fragments the matches arrive.
"""

from __future__ import annotations

from collections.abc import Iterable

from twigcast.overlay.chord.messages import Branched, Notify, PartMatch
from twigcast.overlay.chord.peer import REMEMBERED_PUBLICATIONS, Peer
from twigcast.overlay.chord.states import PartClaim, SubscriptionRef
from twigcast.overlay.chord.tickets import Tickets
from twigcast.overlay.core import TOKENS_OF_A_LIFE, Address, KeyRoutedMessage

#: Meetings of one publication that a peer keeps open, on average.
_MEETINGS = 64


def key_of_meeting(subscription: SubscriptionRef) -> str:
    """Returns the key of the meeting point of a subscription's parts."""
    return f"meet/{subscription.subscriber}/{subscription.key}"


def joints(claim: PartClaim) -> list[int]:
    """Returns the steps of a part at which others hang on it, after the step where it hangs itself."""
    own = [claim.plan[claim.part][1]] if claim.part else []
    return own + [anchor for parent, anchor in claim.plan if parent == claim.part]


class Meeting:
    """The matches of the parts of one subscription on one message, so far."""

    __slots__ = ("done", "matches")

    def __init__(self, parts: int) -> None:
        self.matches: list[set[tuple[int, ...]]] = [set() for _ in range(parts)]
        self.done = False

    def add(self, claim: PartClaim, matches: Iterable[tuple[int, ...]]) -> None:
        """Notes matches of a part, and whether the query matches now."""
        if not self.done:
            self.matches[claim.part].update(matches)
            self.done = all(self.matches) and self._matches(claim.plan)

    def _matches(self, plan: tuple[tuple[int, int], ...]) -> bool:
        # Parents come before the parts that hang on them: go backwards, from the leaves to the main path.
        anchored: list[set[int]] = [set() for _ in plan]
        for part in range(len(plan) - 1, -1, -1):
            hanging = [child for child, (parent, _) in enumerate(plan) if parent == part]
            own = 1 if part else 0
            surviving = [
                match
                for match in self.matches[part]
                if all(match[own + index] in anchored[child] for index, child in enumerate(hanging))
            ]
            if part == 0:
                return bool(surviving)
            anchored[part] = {match[0] for match in surviving}
        return False


def on_part_match(peer: Peer, sender: Address, message: PartMatch) -> None:
    """Notes matches of a part at the meeting point, and notifies the subscriber of a match of the query."""
    subscription, attempt = message.claim.subscription, (message.publisher, message.attempt)
    key = (message.publisher, message.name, subscription, message.version)
    meeting = peer.meetings.get(key)
    if meeting is None:
        meeting = peer.meetings[key] = Meeting(len(message.claim.plan))
        if len(peer.meetings) > REMEMBERED_PUBLICATIONS * _MEETINGS:
            peer.meetings.popitem(last=False)
    meeting.add(message.claim, message.matches)
    tickets = Tickets(message.ticket)
    # Each attempt notifies once more, since it may not be known whether the notification of the last one arrived.
    if meeting.done and peer.reported.is_first(attempt, (subscription, message.version)):
        keys = ((subscription.key, message.version),)
        notice = Notify(message.name, message.publisher, keys, message.attempt, tickets.draw())
        peer.send(subscription.subscriber, notice)
    if message.ticket:
        peer.send(message.publisher, Branched(message.name, message.attempt, message.ticket, tickets.drawn))


def on_routed_part_match(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Notes matches of a part that arrived through the ring."""
    on_part_match(peer, routed.origin, routed.payload)


def on_lost_part_match(peer: Peer, address: Address, message: PartMatch) -> None:
    """Informs the publisher that the subscriber, at whom the parts meet, could not be reached."""
    report_failed(peer, message, [(message.claim.subscription, message.version)])


def on_lost_notify(peer: Peer, address: Address, message: Notify) -> None:
    """Informs the publisher that a subscriber could not be notified."""
    report_failed(peer, message, [(SubscriptionRef(address, key), version) for key, version in message.subscriptions])


def report_failed(peer: Peer, message: Notify | PartMatch, lost: list[tuple[SubscriptionRef, int]]) -> None:
    """Reports what did not arrive as failed, but for the subscriptions of a subscriber's former life."""
    if message.ticket:
        failed = tuple(s for s, version in lost if not peer.is_outdated(s.subscriber, version // TOKENS_OF_A_LIFE))
        peer.send(message.publisher, Branched(message.name, message.attempt, message.ticket, 0, failed))
