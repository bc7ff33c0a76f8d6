"""The commands ``twigcast consumers``: who is behind, and what an operator can do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from twigcast.cli import common
from twigcast.cli.client import connection
from twigcast.cli.client.output import as_row, print_rows
from twigcast.cli.client.profiles import BrokerFlags

if TYPE_CHECKING:
    from twigcast.client import Consumer

SubscriberArgument = Annotated[str, typer.Argument(metavar="SUBSCRIBER", help="The subscriber.")]


def list_consumers(
    behind: Annotated[
        bool, typer.Option("--behind", help="Only those with pending deliveries, the oldest first; at most 100.")
    ] = False,
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    """List the subscribers: what waits for each and since when, and who fetches it."""
    with connection.connected(broker) as client:
        found = list(client.furthest_behind() if behind else client.consumers())
    print_rows([as_row(one) if as_json else _summary_of(one) for one in found], json=as_json)
    return 0


def _summary_of(one: Consumer) -> dict[str, Any]:
    """Returns what a line of the list shows of a subscriber."""
    age = one.oldest_pending_seconds
    return {
        "subscriber": one.subscriber,
        "kind": one.kind,
        "pending": one.pending,
        "oldest": None if age is None else f"{age:,.0f} s",
        "in_flight": one.in_flight,
        "attempts": one.attempts,
        "next_retry": one.next_retry,
        "readers": one.readers,
        "connected_since": one.connected_since,
    }


def purge(
    subscriber: SubscriberArgument,
    *,
    broker: BrokerFlags,
) -> int:
    """Count all that waits for a subscriber as done. Nothing of it comes again."""
    with connection.connected(broker) as client:
        count = client.purge(subscriber)
    print(f"{subscriber}: {count:,} purged")
    return 0


def skip(
    subscriber: SubscriberArgument,
    count: Annotated[int, typer.Option("--count", metavar="NUMBER", min=1, help="How many.")] = 1,
    drop: Annotated[bool, typer.Option("--drop", help="Drop them, instead of making dead letters of them.")] = False,
    *,
    broker: BrokerFlags,
) -> int:
    """Take the oldest deliveries that wait for a subscriber out of the way, as dead letters."""
    with connection.connected(broker) as client:
        skipped = client.skip(subscriber, count, dead_letter=not drop)
    print(f"{subscriber}: {skipped:,} skipped")
    return 0


def redrive(
    subscriber: SubscriberArgument,
    *,
    broker: BrokerFlags,
) -> int:
    """Deliver all dead letters of a subscriber again."""
    with connection.connected(broker) as client:
        count = client.redrive(subscriber)
    print(f"{subscriber}: {count:,} redriven")
    return 0


app = typer.Typer(no_args_is_help=True, help="The subscribers of a broker: who is behind; purge, skip, redrive.")
app.command("list")(common.guarded(list_consumers))
app.command("purge")(common.guarded(purge))
app.command("skip")(common.guarded(skip))
app.command("redrive")(common.guarded(redrive))
