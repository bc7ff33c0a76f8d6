"""The settings of a node of the cooperative tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from twigcast.overlay.core import LinkSettings
from twigcast.overlay.errors import ImpossibleSetting


@dataclass(frozen=True, slots=True)
class CoddSettings:
    """The settings of a node of the cooperative tree. Times are in the driver's unit."""

    fan_out: int = 6  #: Most children that a node accepts.
    window: int = 400  #: Documents over which statistics are kept; older ones are forgotten.
    cold_start: int = 10  #: Documents below which overlap is estimated from the queries alone.
    #: Compare queries below `cold_start`; without it nothing is known then, and all children tie.
    structural_match: bool = True
    #: Of children with equal overlap take the one whose subtree asks for less; without it the first.
    balance_ties: bool = True
    join_timeout: float = 20.0  #: Time to wait for candidates.
    attempts_max: int = 12  #: Times a join is tried.
    reorganise: bool = True  #: Move subtrees to better parents.
    reorganise_after: int = 200  #: Documents a node must have received between two requests (the source's timeout r).
    threshold: float = 0.0  #: Overhead from which a node requests (r_thresh).
    #: Least relative decrease of the overhead of the node that requests (as it perceives it: the gain of the move as a
    #: share of all it received lately and did not want) that is worth a move.
    delta: float = 0.0
    top: int = 0  #: Of a batch of requests, how many are served (top-c); 0 for all.
    batch: int = 1  #: Documents over which the root gathers requests before it serves them.
    prune_factor: float = 2.0  #: Children of a full node are asked if this times its cost is below the best cost.
    marginal_cost: bool = False  #: Count as the present cost of a child only what no other child needs.
    deep_search: bool = False  #: Also ask children of nodes that are not full (the source does not).
    filter_max: int = 0  #: Most queries that a node announces to its parent; more are widened. 0 for no limit.
    heartbeat: int = 0  #: Documents between two heartbeats of the root; 0 for none, where nothing fails.
    silence: int = 4  #: Heartbeats missed before a parent is taken for dead, measured in `heartbeat_time`.
    heartbeat_time: float = 20.0  #: Time in which a heartbeat is expected.
    replay: int = 5000  #: Documents the root keeps for those who lost their parent.
    link: LinkSettings = field(default_factory=LinkSettings)  #: How the links behave.

    def __post_init__(self) -> None:
        if self.fan_out < 1:
            raise ImpossibleSetting("fan_out", self.fan_out, "at least 1: with 0 only the producer could take part")
        for name in ("window", "attempts_max", "reorganise_after", "batch", "replay"):
            if getattr(self, name) < 1:
                raise ImpossibleSetting(name, getattr(self, name), "at least 1")
        for name in ("threshold", "delta"):
            if not 0 <= getattr(self, name) <= 1:
                raise ImpossibleSetting(name, getattr(self, name), "from 0 to 1")
        if self.prune_factor <= 0:
            raise ImpossibleSetting("prune_factor", self.prune_factor, "above 0")
        if self.filter_max < 0 or self.heartbeat < 0 or self.top < 0:
            raise ImpossibleSetting("filter_max, heartbeat, top", "negative", "at least 0")
