"""``twigcast explain``: explains why a message matches a query or not, and which subscriptions nearly match."""

from pathlib import Path
from typing import Annotated

import typer

from twigcast.cli import common
from twigcast.cli.colours import painted, painted_explanation
from twigcast.errors import RejectedMessage
from twigcast.explanation import explain as explain_query
from twigcast.reading.messages import Message
from twigcast.registration import Subscription
from twigcast.subscription_files import find_subscription
from twigcast.subscriptions import SubscriptionSet


def explain(
    messages: common.MessagesArgument,
    query: Annotated[str | None, typer.Option("-q", "--query", metavar="QUERY", help="The query.")] = None,
    subscriptions: Annotated[
        Path | None,
        typer.Option(
            "-s",
            "--subscriptions",
            metavar="SUBSCRIPTIONS",
            help="The file of subscriptions: shows which of them match each message, and which nearly match.",
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="With -s: only the subscription with this key.")
    ] = None,
    nearest: Annotated[
        int, typer.Option("--nearest", metavar="N", min=0, help="With -s: explain this many that nearly matched.")
    ] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON lines.")] = False,
    *,
    reading: common.ReadingFlags,
    queries: common.QueryFlags,
    errors: common.ErrorsOption = common.ErrorFormat.TEXT,
) -> int:
    r"""Explain why a message matches a query or not.

    The query is followed step by step: + marks what the message has, - where the query first fails, with what the
    message has there instead. For a whole file of subscriptions, those that match are listed, and those that do not
    are explained, the nearest first.

    \b
    Examples:
      twigcast explain -q "//story[topic = 'Sport']/title" story.xml
      twigcast explain -n a=urn:demo:alerts -q "//a:event[. = 'Flood']" inbox/
      twigcast explain -s subscriptions.jsonl --key flood-desk inbox/
      twigcast explain -s subscriptions.jsonl --nearest 3 inbox/flood.xml

    Exit status: 0 done, 2 bad usage or query, 3 some messages rejected.
    """
    common.check_standard_input(messages, subscriptions)
    inbox = common.MessageInput(messages, reading, errors, queries.namespaces)
    limits, dialect = queries.limits, queries.query_dialect
    if query is None and subscriptions is not None and key is None:
        population = queries.load(subscriptions)
        for message in inbox:
            try:
                _show_population(population, message, inbox, nearest, as_json=as_json)
            except RejectedMessage as error:
                inbox.reject(message, error)
        return inbox.status
    subscription = _subscription(query, subscriptions, key)
    namespaces = {**queries.namespaces, **subscription.namespaces}
    for message in inbox:
        try:
            result = explain_query(
                subscription.query,
                message.xml,
                namespaces=namespaces,
                dialect=subscription.dialect or dialect,
                params=subscription.params,
                limits=limits,
            )
        except RejectedMessage as error:
            inbox.reject(message, error)
            continue
        if as_json:
            print(common.as_json({"message": message.id, **result.as_dict()}))
        else:
            print(painted_explanation(f"{message.id} {result}", matches=result.matches))
    return inbox.status


def _subscription(query: str | None, subscriptions: Path | None, key: str | None) -> Subscription:
    """Returns the query to explain, as a subscription."""
    if query is not None and subscriptions is None and key is None:
        return Subscription("", query)
    if query is None and subscriptions is not None and key is not None:
        return find_subscription(subscriptions, key)
    raise typer.BadParameter("give either -q QUERY or -s SUBSCRIPTIONS", param_hint="--query")


def _show_population(
    population: SubscriptionSet, message: Message, inbox: common.MessageInput, nearest: int, *, as_json: bool
) -> None:
    """Shows which subscriptions a message matches, and explains those that it nearly matches."""
    matching = population.match(message.xml).keys
    misses = population.nearest(message.xml, nearest, progress=True)
    inbox.report_undecided(message.id, misses.undecided)
    if as_json:
        for key in matching:
            print(common.as_json({"message": message.id, "key": key, "matches": True}))
        for key, result in misses.explanations.items():
            print(common.as_json({"message": message.id, "key": key, **result.as_dict()}))
        return
    print(painted(f"{message.id}: {len(matching):,} of {len(population):,} subscriptions match", "bold"))
    for key in matching:
        print(f"  {painted('+', 'green')} {key}")
    for key, result in misses.explanations.items():
        head, *rest = str(result).split("\n")
        text = "\n".join([f"  - {key} {head}", *(f"    {line}" for line in rest)])
        print(painted_explanation(text, matches=False))
    if more := misses.count - len(misses.explanations):
        print(painted(f"  {more:,} more do not match; --nearest N shows more", "dim"))
