"""``twigcast deliver``: writes the deliveries of each subscriber."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated

import typer

from twigcast.answers import Delivery
from twigcast.cli import common, lifecycles, windows
from twigcast.errors import OutputError, RejectedMessage


def deliver(
    messages: common.MessagesArgument,
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for deliveries.jsonl; - for standard output."),
    ],
    subscriptions: common.OptionalSubscriptionsOption = None,
    query: common.QueriesOption = None,
    whole: common.WholeOption = False,
    envelope: common.EnvelopeOption = None,
    envelope_query: common.EnvelopeQueryOption = False,
    *,
    reading: common.ReadingFlags,
    queries: common.QueryFlags,
    errors: common.ErrorsOption = common.ErrorFormat.TEXT,
    lifecycle: lifecycles.LifecycleFlags,
    window: windows.WindowFlags,
) -> int:
    r"""Write what each subscriber gets of each message.

    The output is JSON lines. A For-Where-Return query delivers its result as payload. Any other query delivers the
    message itself, and its payload is null to avoid repeating the message, unless --whole is given. With --envelope
    each payload is put into an element of that name, with the message and the key in attributes, with
    --envelope-query the query too.

    With --profile, messages are delivered once, and updates and cancels go to everybody who got the original, with the
    relation: entered, updated, left, cancelled or expired. A profile that names items cuts documents into these.

    Subscriptions with a member "when" in their file, or --when for all, are told only then: of the third message in ten
    minutes, of changed values, of a digest. Lines then say in "window" of which messages they tell.

    \b
    Examples:
      twigcast deliver -s subscriptions.jsonl -o outbox inbox/
      twigcast deliver -s subscriptions.jsonl -o - --record item channel.xml
      twigcast deliver -q 'for $s in /story return <new>{ $s/title }</new>' -o - inbox/
      twigcast deliver -s gauges.jsonl --when '{"digest": "1 h"}' --time /gauge/@at -o - gauges/
      twigcast deliver -s counties.jsonl --profile cap --state alerts.state -o - alerts/

    Exit status: 0 done, 2 bad usage or query, 3 some messages rejected.
    """
    wrapping = common.parse_envelope(envelope, queries.namespace, query=envelope_query)
    common.check_standard_input(messages, subscriptions)
    run = lifecycle.open(enveloped=wrapping is not None)
    declared: dict[str, object] = {}
    population = queries.load(subscriptions, query, when=declared)
    told = window.open(population, declared, queries.namespaces, is_plain=run is None and wrapping is None)
    inbox = common.MessageInput(messages, reading, errors, queries.namespaces)
    if run is not None:
        inbox.options = run.read_options(inbox.options)
    stateful = told if run is None else run
    if stateful is not None:
        with _open_output(output, inbox) as out:
            stateful.deliver(population, inbox, out, whole=whole)
        stateful.save()
        return inbox.status
    with _open_output(output, inbox) as out:
        for message in inbox:
            try:
                deliveries = population.deliver(message.xml, envelope=wrapping, message_id=message.id, whole=whole)
            except RejectedMessage as error:
                inbox.reject(message, error)
                continue
            document = None
            if whole and wrapping is None:
                bytes_max = population.limits.message_bytes_max
                document = common.delivered_document(message, inbox.options, bytes_max, deliveries.message)
            enveloped = whole and wrapping is not None
            out.write("".join(_line(message.id, one, document, enveloped=enveloped) for one in deliveries))
            inbox.report_undecided(message.id, deliveries.undecided)
    return inbox.status


def _line(message_id: str, delivery: Delivery, document: str | None, *, enveloped: bool) -> str:
    payload = delivery.payload.decode() if delivery.rewritten or enveloped else document
    return common.as_json({"message": message_id, "key": delivery.key, "payload": payload}) + "\n"


@contextmanager
def _open_output(output: str, inbox: common.MessageInput) -> Iterator[IO[str]]:
    """Opens the output. A file gets its name only when it is complete, and replaces none if no message was read."""
    if output == "-":
        yield sys.stdout
        return
    path = Path(output, "deliveries.jsonl")
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            yield file
        if path.exists() and inbox.status and inbox.count == inbox.rejected:
            common.complain(f"{path}: the file of an earlier run is kept, as no message could be read")
            return
        if path.exists():
            common.complain(f"{path}: the file of an earlier run is replaced")
        partial.replace(path)
    except OSError as error:
        raise OutputError(str(path), f"it cannot be written: {error.strerror}") from error
    finally:
        # If the folder cannot be written, there is nothing to remove.
        with suppress(OSError):
            partial.unlink()
