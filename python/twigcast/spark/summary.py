"""What a pipeline did, in numbers."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final

from twigcast.spark.parts import TaskReport

RATE_MESSAGES_MIN: Final = 100
"""Of fewer messages, the time says how long it takes to start a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a pipeline did. A stream counts all its runs together."""

    messages: int = 0
    """Messages that came in."""

    matches: int = 0
    """Pairs of a message and a subscription that it matches."""

    deliveries: int = 0
    """Messages rewritten for a subscription."""

    rejected: int = 0
    """Messages that could not be processed."""

    subscriptions: int = 0
    """Subscriptions in force; of a stream, at its last micro-batch."""

    refused: int = 0
    """Subscriptions that were left out because they are wrong."""

    bytes: int = 0
    """Bytes of the messages."""

    seconds: float = 0.0
    """Time spent, without Spark's start-up."""

    def as_dict(self) -> dict[str, object]:
        """The numbers by name, as ``summary.json`` has them."""
        return asdict(self)

    def plus(self, reports: Iterable[TaskReport], seconds: float, subscriptions: int, refused: int) -> "Summary":
        """This and what some more tasks did."""
        done = list(reports)
        return replace(
            self,
            messages=self.messages + sum(report.messages for report in done),
            matches=self.matches + sum(report.matches for report in done),
            deliveries=self.deliveries + sum(report.deliveries for report in done),
            rejected=self.rejected + sum(report.rejected for report in done),
            bytes=self.bytes + sum(report.bytes for report in done),
            seconds=round(self.seconds + seconds, 3),
            subscriptions=subscriptions,
            refused=refused,
        )

    def table(self) -> str:
        """A short table for people."""
        is_telling = self.seconds and self.messages >= RATE_MESSAGES_MIN
        rate = f" ({self.messages / self.seconds:,.0f} a second)" if is_telling else ""
        rows = [
            ("messages", f"{self.messages:,}{rate}"),
            ("matches", f"{self.matches:,}"),
            ("deliveries", f"{self.deliveries:,}"),
            ("rejected", f"{self.rejected:,}"),
            ("subscriptions", f"{self.subscriptions:,}" + (f" ({self.refused:,} refused)" if self.refused else "")),
            ("bytes", f"{self.bytes:,}"),
            ("seconds", f"{self.seconds:,.1f}"),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
