"""``twigcast match``: lists the subscriptions that each message matches."""

import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final

import typer

from twigcast.answers import Match, Node
from twigcast.cli import common
from twigcast.errors import RejectedMessage, UndecidedSubscription
from twigcast.subscriptions import SubscriptionSet


class _Shown(StrEnum):
    """What is shown of the nodes that a query selects."""

    NODES = "nodes"
    PATHS = "paths"
    TEXT = "text"


_MEMBERS: Final[dict[_Shown, tuple[str, Callable[[Node], str]]]] = {
    _Shown.NODES: ("markup", lambda node: node.markup.decode()),
    _Shown.PATHS: ("paths", lambda node: node.path),
    _Shown.TEXT: ("text", lambda node: node.text),
}
"""The member of a line of output, and what it says of each node."""


def match(
    messages: common.MessagesArgument,
    subscriptions: common.OptionalSubscriptionsOption = None,
    query: common.QueriesOption = None,
    nodes: Annotated[bool, typer.Option("--nodes", help="Count the nodes that each query selects.")] = False,
    show: Annotated[
        list[_Shown] | None,
        typer.Option(
            "--show", help="Show the nodes that each query selects, paths to them, or their text; repeatable."
        ),
    ] = None,
    *,
    reading: common.ReadingFlags,
    queries: common.QueryFlags,
    errors: common.ErrorsOption = common.ErrorFormat.TEXT,
) -> int:
    r"""List which subscriptions each message matches.

    \b
    Examples:
      twigcast match -s subscriptions.jsonl inbox/
      twigcast match -q "//story[topic = 'Sport']" --show paths inbox/
      twigcast match -s subscriptions.jsonl --nodes feed.zip story.xml
      twigcast match -s subscriptions.jsonl --record item channel.xml.gz
      curl ... | twigcast match -s subscriptions.jsonl -

    Exit status: 0 done, 2 bad usage or query, 3 some messages rejected, 4 nothing matched.
    """
    common.check_standard_input(messages, subscriptions)
    population = queries.load(subscriptions, query)
    inbox = common.MessageInput(messages, reading, errors, queries.namespaces)
    if not show and not nodes and reading.record_id is None and inbox.options.cuts:
        matched = _match_records(population, inbox)
        return inbox.status or (0 if matched else common.NOTHING_MATCHED)
    matched = False
    for message in inbox:
        try:
            result = population.match(message.xml)
        except RejectedMessage as error:
            inbox.reject(message, error)
            continue
        matched = matched or bool(result)
        if show:
            sys.stdout.writelines(_lines_with_nodes(result, message.id, dict.fromkeys(show), inbox, count=nodes))
        else:
            sys.stdout.write("".join(_lines(result, message.id, nodes=nodes)))
        inbox.report_undecided(message.id, result.undecided)
    return inbox.status or (0 if matched else common.NOTHING_MATCHED)


def _match_records(population: SubscriptionSet, inbox: common.MessageInput) -> bool:
    """Lists what the records of the messages match, and returns whether any does."""
    matched = False
    for message_id, keys in inbox.matched_records(population):
        head = f'{{"message": {common.as_json(message_id)}, "key": '
        sys.stdout.write("".join(f"{head}{_quoted(key)}}}\n" for key in keys))
        matched = True
    return matched


def _lines(results: Match, message_id: str, *, nodes: bool) -> list[str]:
    head = f'{{"message": {_quoted(message_id)}, "key": '
    if nodes:
        return [f'{head}{_quoted(key)}, "nodes": {count}}}\n' for key, count in results.node_counts().items()]
    return [f"{head}{_quoted(key)}}}\n" for key in results.keys]


def _lines_with_nodes(
    results: Match, message_id: str, show: dict[_Shown, None], inbox: common.MessageInput, *, count: bool
) -> Iterator[str]:
    """Yields the lines of a message, with what is shown of the nodes that each query selects."""
    for key in results:
        row: dict[str, object] = {"message": message_id, "key": key}
        try:
            selected = results.nodes(key)
        except UndecidedSubscription as failure:
            inbox.report_undecided(message_id, [failure])
            continue
        if count:
            row["nodes"] = len(selected)
        for shown in show:
            name, of_node = _MEMBERS[shown]
            row[name] = [of_node(node) for node in selected]
        yield common.as_json(row) + "\n"


@lru_cache(maxsize=1 << 20)
def _quoted(text: str) -> str:
    return common.as_json(text)
