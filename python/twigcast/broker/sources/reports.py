"""The reports of polls: what each took, updated, skipped and refused, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from twigcast.errors import RejectedMessage

LISTED_MAX: Final = 20
"""Refusals and warnings of a poll that are listed; more are counted."""

REPORTS_MAX: Final = 10
"""Reports of a source that are kept. Those of polls that brought nothing take the place of each other."""

_REASON_CHARACTERS_MAX: Final = 300


@dataclass(slots=True)
class Refusal:
    """Something that a poll could not publish."""

    id: str
    """The id of the entry, the name of the file, or the address of the linked document."""
    reason: str
    line: int | None = None
    """In the feed; of a linked document, in that."""
    column: int | None = None


@dataclass(slots=True)
class PollReport:
    """The report of one poll."""

    at: float
    """Seconds since the epoch."""
    seconds: float = 0.0
    status: int | None = None
    """Status of the answer; ``None`` if there was none."""
    bytes: int = 0
    """Unpacked bytes of the feed or listing, and of the documents that were fetched."""
    took: int = 0
    """Messages published that are new."""
    updated: int = 0
    """Messages published that are updates."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Number of entries by the reason why they were not published."""
    refused: list[Refusal] = field(default_factory=list)
    refused_count: int = 0
    warnings: list[str] = field(default_factory=list)
    """What was wrong with the feed, and was read nevertheless."""
    error: str | None = None
    """Why the poll failed."""
    next_poll: float | None = None

    def refuse(self, entry_id: str, reason: str | RejectedMessage) -> None:
        """Records something that cannot be published."""
        self.refused_count += 1
        if len(self.refused) >= LISTED_MAX:
            return
        line, column = None, None
        if isinstance(reason, RejectedMessage):
            line, column, reason = reason.line, reason.column, reason.reason
        self.refused.append(Refusal(_cut(entry_id), _cut(reason), line, column))

    def warn(self, warnings: list[str]) -> None:
        """Records what is wrong with the feed."""
        self.warnings += [_cut(warning) for warning in warnings[: LISTED_MAX - len(self.warnings)]]

    @property
    def is_eventful(self) -> bool:
        """Returns whether anything but what is usual happened."""
        return bool(self.took or self.updated or self.refused_count or self.error)

    def as_dict(self) -> dict[str, Any]:
        """Returns it as it is stored."""
        return asdict(self) | {"skipped": dict(self.skipped)}

    def summary(self) -> str:
        """Returns it as a line of a log."""
        parts = [f"took {self.took}", f"updated {self.updated}"]
        parts.append(f"skipped {sum(self.skipped.values())}")
        if self.skipped:
            parts[-1] += f" ({', '.join(f'{reason}: {count}' for reason, count in sorted(self.skipped.items()))})"
        parts.append(f"refused {self.refused_count}")
        if self.refused:
            first = self.refused[0]
            where = "" if first.line is None else f"line {first.line}, column {first.column}: "
            parts[-1] += f" ({first.id}: {where}{first.reason})"
        parts.append(f"{self.bytes:,} bytes, status {self.status}")
        return ", ".join(parts)


def with_report(reports: list[Mapping[str, Any]], report: PollReport) -> list[Mapping[str, Any]]:
    """Returns the reports of a source, newest first, with one more."""
    if reports and not report.is_eventful and not _is_eventful(reports[0]):
        reports = reports[1:]
    return [report.as_dict(), *reports][:REPORTS_MAX]


def _is_eventful(report: Mapping[str, Any]) -> bool:
    return any(report.get(name) for name in ("took", "updated", "refused_count", "error"))


def _cut(text: str) -> str:
    return text if len(text) <= _REASON_CHARACTERS_MAX else text[: _REASON_CHARACTERS_MAX - 1] + "…"
