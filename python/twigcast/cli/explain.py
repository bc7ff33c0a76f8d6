"""``twigcast explain``: explains why a message matches a query or not, and which subscriptions nearly match."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from twigcast.cli import common, windows
from twigcast.cli.colours import painted, painted_explanation
from twigcast.errors import RejectedMessage
from twigcast.explanation import Explanation
from twigcast.explanation import explain as explain_query
from twigcast.explanation.rendering import window_lines
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
    window: windows.WindowFlags,
    errors: common.ErrorsOption = common.ErrorFormat.TEXT,
) -> int:
    r"""Explain why a message matches a query or not.

    The query is followed step by step: + marks what the message has, - where the query first fails, with what the
    message has there instead. For a whole file of subscriptions, those that match are listed, and those that do not
    are explained, the nearest first.

    Of a subscription with a window ("when" in the file, or --when), the explanation says what the window holds of the
    messages before, and why its subscriber is told of this one or not. --window-state is read, and not written.

    \b
    Examples:
      twigcast explain -q "//story[topic = 'Sport']/title" story.xml
      twigcast explain -n a=urn:demo:alerts -q "//a:event[. = 'Flood']" inbox/
      twigcast explain -s subscriptions.jsonl --key flood-desk inbox/
      twigcast explain -s subscriptions.jsonl --nearest 3 inbox/flood.xml
      twigcast explain -s gauges.jsonl --key high --time /gauge/@at gauges/

    Exit status: 0 done, 2 bad usage or query, 3 some messages rejected.
    """
    common.check_standard_input(messages, subscriptions)
    inbox = common.MessageInput(messages, reading, errors, queries.namespaces)
    declared: dict[str, object] = {}
    if query is None and subscriptions is not None and key is None:
        population = queries.load(subscriptions, when=declared)
        run = window.open(population, declared, queries.namespaces, is_plain=True)
        for message in inbox:
            try:
                _show_population(population, message, inbox, nearest, run, as_json=as_json)
            except RejectedMessage as error:
                inbox.reject(message, error)
        return inbox.status
    subscription = _subscription(query, subscriptions, key, declared)
    explain_one = _explainer(subscription, queries, window, declared)
    for message in inbox:
        try:
            result = explain_one(message)
        except RejectedMessage as error:
            inbox.reject(message, error)
            continue
        if as_json:
            print(common.as_json({"message": message.id, **result.as_dict()}))
        else:
            print(painted_explanation(f"{message.id} {result}", matches=result.matches))
    return inbox.status


def _explainer(
    subscription: Subscription, queries: common.QueryFlags, window: windows.WindowFlags, declared: dict[str, object]
) -> Callable[[Message], Explanation]:
    """Returns what explains a subscription on a message, after the messages before it."""
    namespaces = {**queries.namespaces, **subscription.namespaces}
    limits, dialect = queries.limits, subscription.dialect or queries.query_dialect
    if declared or window.is_used:
        alone = SubscriptionSet(limits=limits, dialect=dialect)
        alone.add(subscription.key, subscription.query, namespaces=namespaces, params=subscription.params)
        run = window.open(alone, declared, queries.namespaces, is_plain=True)
        if run is not None:
            return partial(run.explain, subscription.key)

    def explain_one(message: Message) -> Explanation:
        return explain_query(
            subscription.query,
            message.xml,
            namespaces=namespaces,
            dialect=dialect,
            params=subscription.params,
            limits=limits,
        )

    return explain_one


def _subscription(
    query: str | None, subscriptions: Path | None, key: str | None, when: dict[str, object]
) -> Subscription:
    """Returns the query to explain, as a subscription; `when` receives when it is told, if it says so."""
    if query is not None and subscriptions is None and key is None:
        return Subscription(query, query)
    if query is None and subscriptions is not None and key is not None:
        return find_subscription(subscriptions, key, when=when)
    raise typer.BadParameter("give either -q QUERY or -s SUBSCRIPTIONS", param_hint="--query")


def _show_population(
    population: SubscriptionSet,
    message: Message,
    inbox: common.MessageInput,
    nearest: int,
    run: windows.WindowedRun | None,
    *,
    as_json: bool,
) -> None:
    """Shows which subscriptions a message matches, and explains those that it nearly matches."""
    matching = population.match(message.xml).keys
    misses = population.nearest(message.xml, nearest, progress=True)
    told = {} if run is None else run.explain_all(matching, message)
    inbox.report_undecided(message.id, misses.undecided)
    if as_json:
        for key in matching:
            window = {"window": told[key]} if key in told else {}
            print(common.as_json({"message": message.id, "key": key, "matches": True, **window}))
        for key, result in misses.explanations.items():
            print(common.as_json({"message": message.id, "key": key, **result.as_dict()}))
        return
    print(painted(f"{message.id}: {len(matching):,} of {len(population):,} subscriptions match", "bold"))
    for key in matching:
        print(f"  {painted('+', 'green')} {key}")
        if key in told:
            print("\n".join(f"  {line}" for line in window_lines(told[key])))
    for key, result in misses.explanations.items():
        head, *rest = str(result).split("\n")
        text = "\n".join([f"  - {key} {head}", *(f"    {line}" for line in rest)])
        print(painted_explanation(text, matches=False))
    if more := misses.count - len(misses.explanations):
        print(painted(f"  {more:,} more do not match; --nearest N shows more", "dim"))
