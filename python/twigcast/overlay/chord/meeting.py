"""The meeting points of the parts of a branching query (NP-Filter of Diao 2005, section 5.2, distributed; ours).

Every part reports its path matches to one place: the owner of the subscription's key on the ring, or the subscriber. A
path match is reduced to the elements at its *joints*: its own anchor, and the anchors of the parts that hang on it. A
match of a part counts if, for every part that hangs on it, a match that counts has the same element at the anchor. The
query matches when a match of the main path counts. All conditions are monotone, so the answer can be given as soon as
it is known, in whatever order and from whatever fragments the matches arrive.
"""

from __future__ import annotations

from twigcast.overlay.chord.messages import Branched, Notify, PartMatch
from twigcast.overlay.chord.peer import REMEMBERED_PUBLICATIONS, Peer
from twigcast.overlay.chord.states import PartClaim, SubscriptionRef
from twigcast.overlay.core import Address, KeyRoutedMessage

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

    def add(self, claim: PartClaim, elements: tuple[int, ...]) -> bool:
        """Notes a match of a part. Returns whether the query matches now and did not before."""
        if self.done:
            return False
        self.matches[claim.part].add(elements)
        if all(self.matches) and self._matches(claim.plan):
            self.done = True
        return self.done

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
    """Notes a match of a part at the meeting point, and notifies the subscriber of a match of the query."""
    key = (message.name, message.claim.subscription)
    meeting = peer.meetings.get(key)
    if meeting is None:
        meeting = peer.meetings[key] = Meeting(len(message.claim.plan))
        if len(peer.meetings) > REMEMBERED_PUBLICATIONS * _MEETINGS:
            peer.meetings.popitem(last=False)
    repeated = meeting.done and peer.first_time(message.name, message.attempt, message.claim.subscription)
    if meeting.add(message.claim, message.elements) or repeated:
        peer.first_time(message.name, message.attempt, message.claim.subscription)
        subscription = message.claim.subscription
        peer.send(subscription.subscriber, Notify(message.name, (subscription.key,)))
    if message.publisher >= 0:
        peer.send(message.publisher, Branched(message.name, message.attempt, message.ticket, 0))


def on_routed_part_match(peer: Peer, routed: KeyRoutedMessage) -> None:
    """Notes a match of a part that arrived through the ring."""
    on_part_match(peer, routed.origin, routed.payload)


def on_lost_part_match(peer: Peer, address: Address, message: PartMatch) -> None:
    """Reports the part as done: the subscriber is gone, and nobody else waits for it."""
    if message.publisher >= 0:
        peer.send(message.publisher, Branched(message.name, message.attempt, message.ticket, 0))
