"""``twigcast deliver``: writes the deliveries of each subscriber."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated

import typer

from twigcast.answers import Delivery
from twigcast.cli import common
from twigcast.errors import OutputError, RejectedMessage
from twigcast.reading.conversion import to_utf8


def deliver(
    messages: common.MessagesArgument,
    subscriptions: common.SubscriptionsOption,
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for deliveries.jsonl; - for standard output."),
    ],
    whole: common.WholeOption = False,
    envelope: common.EnvelopeOption = None,
    envelope_query: common.EnvelopeQueryOption = False,
    record: common.RecordOption = None,
    include: common.IncludeOption = None,
    namespace: common.NamespaceOption = None,
    dialect: common.DialectOption = common.DialectName.XPATH,
    on_bad_subscription: common.OnBadOption = common.OnBadSubscription.FAIL,
    errors: common.ErrorsOption = common.ErrorFormat.TEXT,
) -> int:
    r"""Write what each subscriber gets of each message.

    The output is JSON lines. A For-Where-Return query delivers its result as payload. Any other query delivers the
    message itself, and its payload is null to avoid repeating the message, unless --whole is given. With --envelope
    each payload is put into an element of that name, with the message and the key in attributes, with
    --envelope-query the query too.

    \b
    Examples:
      twigcast deliver -s subscriptions.jsonl -o outbox inbox/
      twigcast deliver -s subscriptions.jsonl -o - --record item channel.xml

    Exit status: 0 done, 2 bad usage or query, 3 some messages rejected.
    """
    wrapping = common.parse_envelope(envelope, namespace, query=envelope_query)
    population = common.load(subscriptions, namespaces=namespace, dialect=dialect, on_bad=on_bad_subscription)
    inbox = common.MessageInput(messages, record, include, errors)
    with _open_output(output) as out:
        for message in inbox:
            try:
                deliveries = population.deliver(message.xml, envelope=wrapping, message_id=message.id, whole=whole)
            except RejectedMessage as error:
                inbox.reject(message.id, error)
                continue
            out.write("".join(_line(message.id, delivery, whole=whole) for delivery in deliveries))
            inbox.report_undecided(message.id, deliveries.undecided)
    return inbox.status


def _line(message_id: str, delivery: Delivery, *, whole: bool) -> str:
    row = {"message": message_id, "key": delivery.key, "payload": _payload(delivery, whole=whole)}
    return common.as_json(row) + "\n"


def _payload(delivery: Delivery, *, whole: bool) -> str | None:
    if delivery.rewritten:
        return delivery.payload.decode()
    return to_utf8(delivery.payload).decode() if whole else None


@contextmanager
def _open_output(output: str) -> Iterator[IO[str]]:
    """Opens the output. A file gets its name only when it is complete."""
    if output == "-":
        yield sys.stdout
        return
    path = Path(output, "deliveries.jsonl")
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise OutputError(str(path), f"it cannot be written: {error.strerror}") from error
    finally:
        # If the folder cannot be written, there is nothing to remove.
        with suppress(OSError):
            partial.unlink()
