"""``twigcast explain``: explains why a message matches a query or not."""

from pathlib import Path
from typing import Annotated

import typer

from twigcast.cli import common
from twigcast.errors import RejectedMessage
from twigcast.explanation import explain as explain_query
from twigcast.registration import Subscription
from twigcast.subscription_files import find_subscription


def explain(
    messages: common.MessagesArgument,
    query: Annotated[str | None, typer.Option("-q", "--query", metavar="QUERY", help="The query.")] = None,
    subscriptions: Annotated[
        Path | None,
        typer.Option("-s", "--subscriptions", metavar="SUBSCRIPTIONS", help="With --key: the file of subscriptions."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="The key of the subscription.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON lines.")] = False,
    record: common.RecordOption = None,
    include: common.IncludeOption = None,
    namespace: common.NamespaceOption = None,
    dialect: common.DialectOption = common.DialectName.XPATH,
    errors: common.ErrorsOption = common.ErrorFormat.TEXT,
) -> int:
    r"""Explain why a message matches a query or not.

    The query is followed step by step: + marks what the message has, - where the query first fails, with what the
    message has there instead.

    \b
    Examples:
      twigcast explain -q "//story[topic = 'Sport']/title" story.xml
      twigcast explain -n a=urn:demo:alerts -q "//a:event[. = 'Flood']" inbox/
      twigcast explain -s subscriptions.jsonl --key flood-desk inbox/

    Exit status: 0 done, 2 bad usage or query, 3 some messages rejected.
    """
    subscription = _subscription(query, subscriptions, key)
    namespaces = {**common.parse_namespaces(namespace), **subscription.namespaces}
    inbox = common.MessageInput(messages, record, include, errors)
    for message in inbox:
        try:
            result = explain_query(
                subscription.query, message.xml, namespaces=namespaces, dialect=subscription.dialect or dialect.dialect
            )
        except RejectedMessage as error:
            inbox.reject(message.id, error)
            continue
        if as_json:
            print(common.as_json({"message": message.id, **result.as_dict()}))
        else:
            print(f"{message.id} {result}")
    return inbox.status


def _subscription(query: str | None, subscriptions: Path | None, key: str | None) -> Subscription:
    """Returns the query to explain, as a subscription."""
    if query is not None and subscriptions is None and key is None:
        return Subscription("", query)
    if query is None and subscriptions is not None and key is not None:
        return find_subscription(subscriptions, key)
    raise typer.BadParameter("give either -q QUERY or -s SUBSCRIPTIONS --key KEY", param_hint="--query")
