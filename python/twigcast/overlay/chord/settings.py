"""The settings of a peer on the ring."""

from __future__ import annotations

from dataclasses import dataclass, field

from twigcast.overlay.core import LinkSettings
from twigcast.overlay.errors import ImpossibleSetting


@dataclass(frozen=True, slots=True)
class ChordSettings:
    """The settings of a peer on the ring. All times are in the driver's unit (the simulator: one usual latency)."""

    bits: int = 160  #: Size of the identifier circle (m); SHA-1 gives at most 160.
    successors: int = 8  #: Length of the successor list; about log2 of the network's size.
    replicas: int = 1  #: Peers that hold each state, the owner included (r). Subscriptions outlive r - 1 failures.
    virtual_nodes: int = 1  #: Places on the ring per host; their addresses are consecutive.
    fragment_levels: int = 0  #: Symbols that a peer can consume without asking another (the paper's l).
    maintain: bool = False  #: Set the timers of the protocol; off for a network that never changes.
    stabilise_period: float = 20.0  #: Time between two rounds of stabilise and fix-fingers.
    repair_period: float = 60.0  #: Time between two comparisons with the replicas.
    confirm: bool = False  #: Publishers make sure that every branch was followed, and try again otherwise.
    confirm_delay: float = 120.0  #: Time without a report after which an incomplete publication is tried again.
    attempts_max: int = 12  #: Times a publication or subscription is tried, and a join without an answer.
    cache_addresses: bool = False  #: Remember the owner of a position, and skip the hops next time.
    ship_subtrees: bool = False  #: Send on only the part of the message below the current element.
    #: One message for all branches that go on from one state, instead of one for each, as in the paper.
    bundle: bool = False
    #: Parts of a branching query meet at the subscriber, not at a position on the ring.
    meet_at_subscriber: bool = False
    message_bytes_max: int = 16 << 20  #: Largest message a peer accepts; larger documents are cut into fragments.
    shedding: bool = False  #: Replicate hot states.
    shed_share: float = 0.10  #: A state is hot with more than this share of a peer's filtering messages.
    shed_replicas: int = 10  #: Copies made of a hot state.
    shed_window: int = 100  #: Filtering messages over which a peer measures the share.
    observe: bool = False  #: Deliver a `Visited` for every expansion, for measurements.
    link: LinkSettings = field(default_factory=LinkSettings)  #: How the links behave.

    def __post_init__(self) -> None:
        if not 3 <= self.bits <= 160:
            raise ImpossibleSetting("bits", self.bits, "from 3 to 160")
        for name in ("successors", "replicas", "virtual_nodes", "attempts_max", "shed_replicas", "shed_window"):
            if getattr(self, name) < 1:
                raise ImpossibleSetting(name, getattr(self, name), "at least 1")
        if self.replicas > self.successors + 1:
            raise ImpossibleSetting("replicas", self.replicas, f"at most successors + 1 = {self.successors + 1}")
        if self.fragment_levels < 0:
            raise ImpossibleSetting("fragment_levels", self.fragment_levels, "at least 0")
        if self.message_bytes_max < 256:
            raise ImpossibleSetting("message_bytes_max", self.message_bytes_max, "at least 256")
        if not 0 < self.shed_share < 1:
            raise ImpossibleSetting("shed_share", self.shed_share, "between 0 and 1")
