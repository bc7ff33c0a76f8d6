"""The options of urgency: what goes first, and what is too late."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

PriorityOption = Annotated[
    int | None,
    typer.Option("--priority", metavar="NUMBER", min=0, max=9, help="From 0 to 9, usually 4: what goes first."),
]

PeriodOption = Annotated[
    str | None,
    typer.Option(
        "--deadline",
        metavar="PERIOD",
        help="How long after a message was received its delivery is of use, such as '5 min'.",
    ),
]


class LateName(StrEnum):
    """A choice of what happens to deliveries that are too late, as an option."""

    MARK = "mark"
    DROP = "drop"


LateOption = Annotated[
    LateName | None,
    typer.Option("--late", help="What happens to deliveries that are too late; by default they are marked."),
]


class OrderName(StrEnum):
    """A choice of which delivery is next, as an option."""

    PUBLICATION = "publication"
    URGENCY = "urgency"


OrderOption = Annotated[
    OrderName | None,
    typer.Option(
        "--order", help="Which delivery is next; by default the first one published. Needs --shared or --webhook."
    ),
]


def urgency_fields(priority: int | None, deadline: str | None, late: LateName | None) -> dict[str, Any] | None:
    """Returns what options say of the urgency of a subscription; `None` if they say nothing."""
    given = {"priority": priority, "deadline": deadline, "late": late and late.value}
    return {name: value for name, value in given.items() if value is not None} or None


def with_order(delivery: dict[str, Any] | None, order: OrderName | None) -> dict[str, Any] | None:
    """Returns delivery settings with an order.

    Raises:
        typer.BadParameter: Deliveries that are in order have no other one.
    """
    if order is None:
        return delivery
    if delivery is None:
        raise typer.BadParameter("it is for --shared, or for --webhook", param_hint="--order")
    return {**delivery, "order": order.value}
