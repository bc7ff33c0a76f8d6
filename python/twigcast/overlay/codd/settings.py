"""The settings of a node of the cooperative tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from twigcast.overlay.core import LinkSettings
from twigcast.overlay.errors import ImpossibleSetting


@dataclass(frozen=True, slots=True)
class CoddSettings:
    """The settings of a node of the cooperative tree. Times are in the driver's unit.

    Attributes:
        fan_out: Most children that a node accepts.
        window: Documents over which statistics are kept; older ones are forgotten.
        cold_start: Documents below which overlap is estimated from the queries alone.
        structural_match: Compare queries below `cold_start`; without it nothing is known then, and all children tie.
        balance_ties: Of children with equal overlap take the one whose subtree asks for less; without it the first.
        join_timeout: Time to wait for candidates.
        attempts_max: Times a join is tried.
        reorganise: Move subtrees to better places.
        reorganise_after: Documents a node must have received between two requests (the source's timeout r).
        threshold: Overhead from which a node requests (r_thresh).
        delta: Least relative decrease of the overhead of the node that requests (as it perceives it: the gain of the
            move as a share of all it received lately and did not want) that is worth a move.
        top: Of a batch of requests, how many are served (top-c); 0 for all.
        batch: Documents over which the root gathers requests before it serves them.
        prune_factor: A full node's children are looked at if this times its cost is below the best cost.
        marginal_cost: Count as the present cost of a child only what no other child needs.
        deep_search: Look at the children of nodes with room, too (the source does not).
        filter_max: Most queries that a node announces to its parent; more are widened. 0 for no limit.
        heartbeat: Documents between two heartbeats of the root; 0 for none, where nothing fails.
        silence: Heartbeats missed before a parent is taken for dead, measured in `heartbeat_time`.
        heartbeat_time: Time in which a heartbeat is expected.
        replay: Documents the root keeps for those who lost their parent.
        link: How the links behave.
    """

    fan_out: int = 6
    window: int = 400
    cold_start: int = 10
    structural_match: bool = True
    balance_ties: bool = True
    join_timeout: float = 20.0
    attempts_max: int = 12
    reorganise: bool = True
    reorganise_after: int = 200
    threshold: float = 0.0
    delta: float = 0.0
    top: int = 0
    batch: int = 1
    prune_factor: float = 2.0
    marginal_cost: bool = False
    deep_search: bool = False
    filter_max: int = 0
    heartbeat: int = 0
    silence: int = 4
    heartbeat_time: float = 20.0
    replay: int = 5000
    link: LinkSettings = field(default_factory=LinkSettings)

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
