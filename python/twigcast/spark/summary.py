"""The numbers of tasks and pipelines."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final

_SELDOM: Final = ("repairs", "not_repeated", "unidentified", "overdue", "untimed")
_RATE_MESSAGES_MIN: Final = 100
"""With fewer messages, the time says how long it takes to start a job."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The numbers of one task."""

    partition: int
    attempt: int
    messages: int
    matches: int
    deliveries: int
    rejected: int
    bytes: int
    repairs: int = 0
    not_repeated: int = 0
    unidentified: int = 0
    overdue: int = 0
    untimed: int = 0

    def rows(self, kind: str) -> int:
        """Returns how many rows of a kind of output the task wrote."""
        return {"matches": self.matches, "deliveries": self.deliveries, "rejected": self.rejected}[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers of a pipeline. A stream counts all its runs together."""

    messages: int = 0
    """Messages that came in."""

    matches: int = 0
    """Pairs of a message and a subscription that matches it."""

    deliveries: int = 0
    """Messages rewritten for a subscription."""

    rejected: int = 0
    """Messages that could not be processed."""

    subscriptions: int = 0
    """Subscriptions in force; of a stream, at its last micro-batch."""

    refused: int = 0
    """Subscriptions that were refused and left out."""

    bytes: int = 0
    """Bytes of the messages."""

    repairs: int = 0
    """Repairs of messages, if those are repaired: see :attr:`ReadOptions.tolerant`."""

    not_repeated: int = 0
    """Messages that were not delivered again, if life cycles are followed: duplicates, and those that later ones had
    overtaken."""

    unidentified: int = 0
    """Messages that do not say which they are, or something else that could not be read of them, if life cycles are
    followed."""

    overdue: int = 0
    """Messages that came too late to count for a window, of each subscription for which they did."""

    untimed: int = 0
    """Messages that do not say when they came or happened, and so count as of now, if subscriptions have windows."""

    seconds: float = 0.0
    """Time spent, without Spark's start-up."""

    def as_dict(self) -> dict[str, object]:
        """Returns the numbers by name, as ``summary.json`` has them: repairs and the like only if there are any."""
        return {name: number for name, number in asdict(self).items() if number or name not in _SELDOM}

    def plus(self, reports: Iterable[TaskReport], seconds: float, subscriptions: int, refused: int) -> "Summary":
        """Returns these numbers with those of more tasks."""
        tasks = list(reports)
        names = ("messages", "matches", "deliveries", "rejected", "bytes", *_SELDOM)
        return replace(
            self,
            **{name: getattr(self, name) + sum(getattr(report, name) for report in tasks) for name in names},
            seconds=round(self.seconds + seconds, 3),
            subscriptions=subscriptions,
            refused=refused,
        )

    def table(self) -> str:
        """Returns a short table for people."""
        has_rate = self.seconds and self.messages >= _RATE_MESSAGES_MIN
        rate = f" ({self.messages / self.seconds:,.0f} a second)" if has_rate else ""
        rows = [
            ("messages", f"{self.messages:,}{rate}"),
            ("matches", f"{self.matches:,}"),
            ("deliveries", f"{self.deliveries:,}"),
            ("rejected", f"{self.rejected:,}"),
            ("subscriptions", f"{self.subscriptions:,}" + (f" ({self.refused:,} refused)" if self.refused else "")),
            ("bytes", f"{self.bytes:,}"),
            *((name.replace("_", " "), f"{getattr(self, name):,}") for name in _SELDOM if getattr(self, name)),
            ("seconds", f"{self.seconds:,.1f}"),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
