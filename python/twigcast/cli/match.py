"""``twigcast match``: lists the subscriptions that each message matches."""

import sys
from functools import lru_cache
from typing import Annotated

import typer

from twigcast.answers import Match
from twigcast.cli import common
from twigcast.errors import RejectedMessage


def match(
    messages: common.MessagesArgument,
    subscriptions: common.SubscriptionsOption,
    nodes: Annotated[bool, typer.Option("--nodes", help="Count the nodes that each query selects.")] = False,
    record: common.RecordOption = None,
    include: common.IncludeOption = None,
    namespace: common.NamespaceOption = None,
    dialect: common.DialectOption = common.DialectName.XPATH,
    on_bad_subscription: common.OnBadOption = common.OnBadSubscription.FAIL,
    errors: common.ErrorsOption = common.ErrorFormat.TEXT,
) -> int:
    r"""List which subscriptions each message matches, as JSON lines.

    \b
    Examples:
      twigcast match -s subscriptions.jsonl inbox/
      twigcast match -s subscriptions.jsonl --nodes feed.zip story.xml
      twigcast match -s subscriptions.jsonl --record item channel.xml.gz
      curl ... | twigcast match -s subscriptions.jsonl -

    Exit status: 0 done, 1 nothing matched, 2 bad usage or query, 3 some messages rejected.
    """
    population = common.load(subscriptions, namespaces=namespace, dialect=dialect, on_bad=on_bad_subscription)
    inbox = common.MessageInput(messages, record, include, errors)
    matched = False
    for message in inbox:
        try:
            result = population.match(message.xml)
        except RejectedMessage as error:
            inbox.reject(message.id, error)
            continue
        matched = matched or bool(result)
        sys.stdout.write("".join(_lines(result, message.id, nodes=nodes)))
        inbox.report_undecided(message.id, result.undecided)
    return inbox.status or (0 if matched else common.NOTHING_MATCHED)


def _lines(results: Match, message_id: str, *, nodes: bool) -> list[str]:
    head = f'{{"message": {_quoted(message_id)}, "key": '
    if nodes:
        return [f'{head}{_quoted(key)}, "nodes": {count}}}\n' for key, count in results.node_counts().items()]
    return [f"{head}{_quoted(key)}}}\n" for key in results.keys]


@lru_cache(maxsize=1 << 20)
def _quoted(text: str) -> str:
    return common.as_json(text)
