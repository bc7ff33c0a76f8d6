"""Times and bounds of a broker in an overlay. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass

from twigcast.overlay.errors import ImpossibleSetting
from twigcast.overlay.onyx.messages import DISJUNCTS_PER_DELTA_MAX, Root


@dataclass(frozen=True, slots=True)
class OnyxSettings:
    """How a node behaves.

    Attributes:
        flush_delay: Changes of wishes, links and attachments are gathered that long before neighbours are told.
        silence_delay: A broker that was sent nothing is told so after it.
        report_delay: Between two reports of what is stored.
        attach_delay: An attachment that was not confirmed is asked for again after it.
        recover_delay: A gap that is still there after it is closed by asking the root.
        recover_retry: Where nothing of an answer arrived for that long, it is asked for again.
        forget_delay: A broker that could not be reached for that long is not waited for any more.
        gaps_max: Gaps of one root that are asked for at once.
        hops_max: Links that a message, an attachment or a question may pass.
        disjuncts_per_delta: More of them are told in several pieces.
        disjuncts_max: That one neighbour may want; with more it is refused.
        members_max: Brokers that are known; others are not heard.
        sources_max: Entries of the catalogue; more are refused.
        shared_tree: One tree for all roots.
        roots: The brokers that have sources; `None`: all.
        reduces: Tell neighbours what part of messages suffices here, and send them no more than suffices there.
        trace: Tell the application of each message where it went, and where not.
    """

    flush_delay: float = 0.02
    silence_delay: float = 0.5
    report_delay: float = 5.0
    attach_delay: float = 5.0
    recover_delay: float = 0.5
    recover_retry: float = 3.0
    forget_delay: float = 30 * 86_400.0
    gaps_max: int = 16
    hops_max: int = 200
    disjuncts_per_delta: int = 2_000
    disjuncts_max: int = 4_000_000
    members_max: int = 10_000
    sources_max: int = 100_000
    shared_tree: bool = False
    roots: frozenset[Root] | None = None
    reduces: bool = False
    trace: bool = False

    def __post_init__(self) -> None:
        for name in ("flush_delay", "silence_delay", "report_delay", "attach_delay", "recover_delay", "recover_retry"):
            if getattr(self, name) <= 0:
                raise ImpossibleSetting(name, getattr(self, name), "positive")
        for name in ("gaps_max", "hops_max", "disjuncts_per_delta", "disjuncts_max", "members_max", "sources_max"):
            if getattr(self, name) < 1:
                raise ImpossibleSetting(name, getattr(self, name), "at least 1")
        if self.disjuncts_per_delta > DISJUNCTS_PER_DELTA_MAX:
            raise ImpossibleSetting(
                "disjuncts_per_delta", self.disjuncts_per_delta, f"at most {DISJUNCTS_PER_DELTA_MAX:,}"
            )
