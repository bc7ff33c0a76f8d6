"""``twigcast explain``: why does a message match a query or not."""

from typing import Annotated

import typer

from twigcast.cli import common
from twigcast.errors import RejectedMessage
from twigcast.explanation import explain as explain_query


def explain(
    messages: common.MessagesArgument,
    query: Annotated[str, typer.Option("-q", "--query", metavar="QUERY", help="The query.")],
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON lines.")] = False,
    record: common.RecordOption = None,
    include: common.IncludeOption = None,
    namespace: common.NamespaceOption = None,
    dialect: common.DialectOption = common.DialectName.XPATH,
    errors: common.ErrorsOption = common.ErrorFormat.TEXT,
) -> int:
    r"""Tell why a message matches a query, or where the query first fails and what the message has there.

    The query is followed step by step: + marks what the message has, - where it fails.

    \b
    Examples:
      twigcast explain -q "//story[topic = 'Sport']/title" story.xml
      twigcast explain -n a=urn:demo:alerts -q "//a:event[. = 'Flood']" inbox/

    Exit status: 0 done, 2 bad usage or query, 3 some messages rejected.
    """
    namespaces = common.parse_namespaces(namespace)
    inbox = common.Inbox(messages, record, include, errors)
    for message in inbox:
        try:
            found = explain_query(query, message.xml, namespaces=namespaces, dialect=dialect.dialect)
        except RejectedMessage as error:
            inbox.reject(message.id, error)
            continue
        if as_json:
            print(common.as_json({"message": message.id, **found.as_dict()}))
        else:
            print(f"{message.id} {found}")
    return inbox.status
