"""The options of urgency: what goes first, and what is too late."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from twigcast.cli.option_groups import OptionGroup

_PriorityOption = Annotated[
    int | None,
    typer.Option("--priority", metavar="NUMBER", min=0, max=9, help="From 0 to 9, usually 4: what goes first."),
]


class OverdueName(StrEnum):
    """A choice of what happens to deliveries that are too late, as an option."""

    MARK = "mark"
    DROP = "drop"


class OrderName(StrEnum):
    """A choice of which delivery is next, as an option."""

    PUBLICATION = "publication"
    URGENCY = "urgency"


@dataclass(frozen=True, slots=True)
class MessageUrgencyFlags(OptionGroup):
    """The options of the urgency of messages."""

    priority: _PriorityOption = None
    deadline: Annotated[
        str | None,
        typer.Option(
            "--deadline", metavar="TIME", help="When it is of no use any more: a time, or a period such as '5 min'."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class UrgencyFlags(OptionGroup):
    """The options of the urgency of a subscription."""

    priority: _PriorityOption = None
    deadline: Annotated[
        str | None,
        typer.Option(
            "--deadline",
            metavar="PERIOD",
            help="How long after a message was received its delivery is of use, such as '5 min'.",
        ),
    ] = None
    overdue: Annotated[
        OverdueName | None,
        typer.Option("--overdue", help="What happens to deliveries that are too late; by default they are marked."),
    ] = None
    order: Annotated[
        OrderName | None,
        typer.Option(
            "--order", help="Which delivery is next; by default the first one published. Needs --shared or --webhook."
        ),
    ] = None

    def fields(self) -> dict[str, Any] | None:
        """Returns what the options say of the urgency of a subscription; `None` if they say nothing."""
        given = {
            "priority": self.priority,
            "deadline": self.deadline,
            "overdue": self.overdue and self.overdue.value,
        }
        return {name: value for name, value in given.items() if value is not None} or None

    def ordered(self, delivery: dict[str, Any] | None) -> dict[str, Any] | None:
        """Returns delivery settings with the order.

        Raises:
            typer.BadParameter: Deliveries that are in order have no other one.
        """
        if self.order is None:
            return delivery
        if delivery is None:
            raise typer.BadParameter("it is for --shared, or for --webhook", param_hint="--order")
        return {**delivery, "order": self.order.value}
