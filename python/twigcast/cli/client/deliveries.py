"""``twigcast pull`` and ``twigcast tail``: fetch what a broker has for a subscriber."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from twigcast.cli import common
from twigcast.cli.client import connection
from twigcast.cli.client.output import print_delivery
from twigcast.cli.client.profiles import BrokerFlags

if TYPE_CHECKING:
    from twigcast.client import Client, Retries

_PULLED_AT_ONCE: Final = 100
_LEASED_MAX: Final = 1_000
"""Deliveries that one request pulls: more of a subscription come only when these are done."""
_FOLLOW_SECONDS: Final = 20.0
_VISIBLE_SECONDS: Final = 60.0

SubscriberArgument = Annotated[
    str, typer.Argument(metavar="SUBSCRIBER", help="The subscriber, by default the key of the subscription.")
]
NoAckOption = Annotated[
    bool, typer.Option("--no-ack", help="Do not acknowledge: whoever comes next gets the same deliveries.")
]


def pull(
    subscriber: SubscriberArgument,
    no_ack: NoAckOption = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="NUMBER", min=1, help="Stop after so many; by default all.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C or the limit.")] = False,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, max=300, help="Wait so long for the first one.")
    ] = 0.0,
    lease: Annotated[
        float,
        typer.Option("--lease", metavar="SECONDS", min=1, max=86_400, help="Nobody else gets them in this time."),
    ] = _VISIBLE_SECONDS,
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    r"""Pull what waits for a subscriber, and acknowledge it when it is printed.

    \b
    Examples:
      twigcast pull floods
      twigcast pull floods --no-ack --limit 5
      twigcast pull floods --follow --json | jq .message

    Exit status: 0 done, 2 bad usage or the broker did not do it, 4 nothing was waiting.
    """
    if no_ack and follow:
        raise typer.BadParameter("it would get the same again; use twigcast tail --no-ack", param_hint="--no-ack")
    if no_ack and (limit or 0) > _LEASED_MAX:
        raise typer.BadParameter(f"with --no-ack it is at most {_LEASED_MAX:,}", param_hint="--limit")
    with connection.connected(broker) as client:
        if no_ack:
            count = _look(client, subscriber, limit or _LEASED_MAX, wait, lease, json=as_json)
        else:
            wait = _FOLLOW_SECONDS if follow else wait
            count = _take(client, subscriber, limit, wait, lease, follow=follow, json=as_json)
    return 0 if count else common.NOTHING_MATCHED


def _look(client: Client, subscriber: str, limit: int, wait: float, lease: float, *, json: bool) -> int:
    """Prints deliveries and gives them back."""
    batch = client.pull(subscriber, wait=wait, limit=limit, visibility=lease)
    try:
        for delivery in batch:
            print_delivery(delivery, json=json)
    finally:
        client.give_back(subscriber, batch)
    return len(batch)


def _take(
    client: Client, subscriber: str, limit: int | None, wait: float, lease: float, *, follow: bool, json: bool
) -> int:
    """Prints deliveries and acknowledges them, and returns how many there were."""
    count = 0
    while limit is None or count < limit:
        most = _PULLED_AT_ONCE if limit is None else min(limit - count, _PULLED_AT_ONCE)
        batch = client.pull(subscriber, wait=wait, limit=most, visibility=lease)
        if not batch and not follow:
            break
        printed = 0
        try:
            for delivery in batch:
                print_delivery(delivery, json=json)
                printed += 1
        finally:
            # What was not printed, for instance after Ctrl-C, comes again.
            client.acknowledge(subscriber, batch[:printed])
            client.give_back(subscriber, batch[printed:])
        count += len(batch)
        wait = _FOLLOW_SECONDS if follow else 0.0
    return count


def tail(
    subscriber: SubscriberArgument,
    no_ack: NoAckOption = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="NUMBER", min=1, help="Stop after so many; by default never.")
    ] = None,
    last: Annotated[
        str | None,
        typer.Option("--last", metavar="ID", help="Go on after this delivery; all before it count as done."),
    ] = None,
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    r"""Print what a subscriber gets, as it comes, until Ctrl-C. It connects again if the connection breaks.

    \b
    Examples:
      twigcast tail floods
      twigcast tail floods --json --no-ack

    Exit status: 0 the limit is reached, 2 bad usage or the broker did not do it, 130 after Ctrl-C.
    """
    with connection.connected(broker) as client:
        client.identity()  # what is wrong from the start is said at once, and not waited for
    with (
        connection.connected(broker, retries=_unlimited()) as client,
        _shown_breaks(),
        closing(client.stream(subscriber, last=last, acknowledge=not no_ack)) as deliveries,
    ):
        for count, delivery in enumerate(deliveries, 1):
            print_delivery(delivery, json=as_json)
            if count == limit:
                # The generator acknowledges what its caller has come back from.
                if not no_ack:
                    client.acknowledge(subscriber, [delivery])
                break
    return 0


def _unlimited() -> Retries:
    from twigcast.client import Retries

    return Retries(attempts=sys.maxsize)


class _Complaints(logging.Handler):
    """A handler of the client's log that tells the user that a stream broke."""

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a record."""
        common.complain(f"{record.getMessage()}; connecting again")


@contextmanager
def _shown_breaks() -> Iterator[None]:
    log = logging.getLogger("twigcast.client")
    handler = _Complaints()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
