"""The counts of repairs, which every session keeps; :mod:`twigcast.reading.repairs` makes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

BLANK_START: Final = "white space before the XML declaration"
HTML_ENTITIES: Final = "references to entities of HTML"
CONTROL_CHARACTERS: Final = "control characters"
WINDOWS_1252: Final = "bytes of Windows-1252"


@dataclass(slots=True)
class RepairCounts:
    """The numbers of repairs, by kind, and what else is known only at the end of the reading."""

    by_kind: Counter[str] = field(default_factory=Counter)

    inherited: set[str] = field(default_factory=set)
    """The names of ``inherit`` of which records have inherited something."""

    @property
    def total(self) -> int:
        """The number of all repairs."""
        return self.by_kind.total()

    def __str__(self) -> str:
        return ", ".join(f"{kind}: {count:,}" for kind, count in self.by_kind.items())

    def __bool__(self) -> bool:
        return bool(self.by_kind)
