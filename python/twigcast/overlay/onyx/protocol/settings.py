"""Times and bounds of a broker in an overlay. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass

from twigcast.overlay.errors import ImpossibleSetting
from twigcast.overlay.onyx.messages import DISJUNCTS_PER_DELTA_MAX, Root


@dataclass(frozen=True, slots=True)
class OnyxSettings:
    """The times and bounds of a node."""

    #: How long changes of interests, links and attachments are collected before they are sent.
    flush_delay: float = 0.02
    silence_delay: float = 0.5  #: Time until an empty span is sent to a neighbour that was sent no message.
    report_delay: float = 5.0  #: Time between two reports of what is stored.
    attach_delay: float = 5.0  #: Time until an unconfirmed attachment is repeated.
    recover_delay: float = 0.5  #: Age of a gap at which the root is asked for it.
    recover_retry: float = 3.0  #: Time without any part of an answer until the question is repeated.
    forget_delay: float = 30 * 86_400.0  #: How long messages are retained for a broker that is unreachable.
    gaps_max: int = 16  #: Gaps of one root that are requested at once.
    hops_max: int = 200  #: Links that a message, an attachment or a question may pass.
    disjuncts_per_delta: int = 2_000  #: Disjuncts in one routing delta; more are sent in several.
    disjuncts_max: int = 4_000_000  #: Disjuncts of one neighbour; with more its link is ended.
    members_max: int = 10_000  #: Brokers in the topology; link states of further ones are ignored.
    sources_max: int = 100_000  #: Entries of the catalogue; further ones are ignored.
    shared_tree: bool = False  #: Whether all roots share one tree.
    roots: frozenset[Root] | None = None  #: The brokers that have sources; `None`: all.
    reduces: bool = False  #: Whether links carry only the parts of messages that are used behind them.
    trace: bool = False  #: Whether the application gets `MessageRouted` for each message.

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
