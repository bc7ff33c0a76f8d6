"""Options, input and error reports that the commands share."""

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, ParamSpec

import typer

from twigcast.envelope import Envelope
from twigcast.errors import RefusedSubscriptions, RejectedMessage, TwigcastError, UndecidedSubscription
from twigcast.reading.messages import Message, read_messages
from twigcast.reading.text import half_pair
from twigcast.registration import DIALECTS, Dialect
from twigcast.subscription_files import load_subscriptions
from twigcast.subscriptions import SubscriptionSet

NOTHING_MATCHED: Final = 1
BAD_USAGE: Final = 2
SOME_REJECTED: Final = 3
INTERRUPTED: Final = 130
READER_GONE: Final = 141

P = ParamSpec("P")


class OnBadSubscription(StrEnum):
    """The choice between stopping at refused subscriptions and skipping them."""

    FAIL = "fail"
    SKIP = "skip"


class ErrorFormat(StrEnum):
    """The format in which rejected messages are reported."""

    TEXT = "text"
    JSON = "json"


class DialectName(StrEnum):
    """A dialect of queries, as an option."""

    XPATH = "xpath"
    LEGACY = "legacy"
    XQUERY = "xquery"

    @property
    def dialect(self) -> Dialect:
        """The dialect as the library names it."""
        return DIALECTS[self.value]


# --- options ----------------------------------------------------------------------------------------------------------

SubscriptionsOption = Annotated[
    Path,
    typer.Option(
        "-s",
        "--subscriptions",
        metavar="SUBSCRIPTIONS",
        help="File of subscriptions: JSON lines, .csv, .parquet or a snapshot; - for JSON lines on standard input.",
    ),
]
MessagesArgument = Annotated[
    list[str],
    typer.Argument(metavar="MESSAGE...", help="Files, folders, .zip, .tar.gz, .gz, or - for standard input."),
]
RecordOption = Annotated[
    str | None,
    typer.Option(
        "--record",
        metavar="NAME",
        help="Cut each document into messages at this element: name, prefix:name or {namespace}name.",
    ),
]
IncludeOption = Annotated[
    str | None,
    typer.Option(
        "--include", metavar="PATTERN", help="In folders and archives, only names that match, such as '*.xml'."
    ),
]
NamespaceOption = Annotated[
    list[str] | None,
    typer.Option(
        "-n",
        "--namespace",
        metavar="PREFIX=URI",
        help="Namespace of a prefix in all queries; =URI for names without a prefix. May be repeated.",
    ),
]
DialectOption = Annotated[
    DialectName,
    typer.Option(
        "--dialect", help="How queries are read; legacy: also spellings of older papers; xquery: also all of XQuery."
    ),
]
EnvelopeOption = Annotated[
    str | None,
    typer.Option(
        "--envelope",
        metavar="NAME",
        help="Put each result into an element of this name; a prefix must be declared with --namespace.",
    ),
]
EnvelopeQueryOption = Annotated[
    bool,
    typer.Option("--envelope-query", help="Add the query of the subscription to the envelope, in the attribute query."),
]
WholeOption = Annotated[
    bool, typer.Option("--whole", help="Deliver the message itself as payload if a query does not rewrite.")
]
OnBadOption = Annotated[
    OnBadSubscription,
    typer.Option("--on-bad-subscription", help="Stop at subscriptions that are refused, or go on without them."),
]
ErrorsOption = Annotated[
    ErrorFormat, typer.Option("--errors", help="The format of rejected messages on standard error.")
]


def parse_namespaces(values: list[str] | None) -> dict[str, str]:
    """Parses namespaces of the form ``PREFIX=URI``."""
    namespaces = {}
    for value in values or []:
        prefix, equals, uri = value.partition("=")
        if not equals:
            raise typer.BadParameter(f"{value!r} is not PREFIX=URI", param_hint="--namespace")
        namespaces[prefix] = uri
    return namespaces


def parse_envelope(name: str | None, namespaces: list[str] | None, *, query: bool) -> Envelope | None:
    """Returns the envelope of a name, if there is one, with the query of the subscription if that is requested.

    Raises:
        EnvelopeError: An envelope cannot have this name.
        typer.BadParameter: The query is requested without an envelope.
    """
    if name is None:
        if query:
            raise typer.BadParameter(
                "there is no envelope to put it in: use --envelope NAME", param_hint="--envelope-query"
            )
        return None
    return Envelope.named(name, parse_namespaces(namespaces), "query" if query else None)


# --- errors -----------------------------------------------------------------------------------------------------------


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """Wraps a command: its errors are reported in a line, and its result becomes the exit status."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            status = command(*args, **kwargs)
            sys.stdout.flush()
        except TwigcastError as error:
            complain(str(error))
            status = BAD_USAGE
        except BrokenPipeError:
            # Python flushes standard output once more at its end, which would fail with a traceback.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = READER_GONE
        except KeyboardInterrupt:
            status = INTERRUPTED
        raise typer.Exit(status)

    return run


def as_json(value: object) -> str:
    """Returns a value as JSON, in ASCII if UTF-8 cannot hold it because of halves of surrogate pairs."""
    text = json.dumps(value, ensure_ascii=False)
    return text if half_pair(text) is None else json.dumps(value)


_IN_PYTHON: Final = re.compile(r'namespaces=\{"([^"]*)": "urn:\.\.\."\}')
"""The advice of errors to declare a namespace, as an argument of the library."""


def advice(text: str) -> str:
    """Returns the text of an error with its advice in terms of the command line."""
    return _IN_PYTHON.sub(r"-n \1=URI", text)


def complain(text: str) -> None:
    """Reports an error to the user, after all output so far."""
    sys.stdout.flush()
    print(f"twigcast: {advice(text)}", file=sys.stderr)


# --- subscriptions and messages ---------------------------------------------------------------------------------------


def load(
    path: Path, *, namespaces: list[str] | None, dialect: DialectName, on_bad: OnBadSubscription
) -> SubscriptionSet:
    """Loads the subscriptions of a file. Refused ones are reported.

    Raises:
        RefusedSubscriptions: Some were refused, and the command does not skip them.
    """
    subscriptions, refused = load_subscriptions(path, namespaces=parse_namespaces(namespaces), dialect=dialect.dialect)
    if refused and on_bad is OnBadSubscription.FAIL:
        raise RefusedSubscriptions([(row.label, row.error) for row in refused])
    for row in refused:
        complain(f"left out: {row}")
    return subscriptions


@dataclass(slots=True)
class MessageInput:
    """The messages of a command: counts them, and reports those that are rejected."""

    arguments: list[str]
    record: str | None
    include: str | None
    errors: ErrorFormat
    count: int = field(default=0, init=False)
    rejected: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[Message]:
        """Yields the messages that can be read."""
        for item in read_messages(self.arguments, record=self.record, include=self.include):
            self.count += 1
            if isinstance(item, Message):
                yield item
            else:
                self.reject(item.id, item.error)
        if not self.count:
            complain("there are no messages" if self.record is None else f"there are no {self.record} elements")

    def reject(self, message_id: str, error: RejectedMessage) -> None:
        """Reports a rejected message."""
        self.rejected += 1
        if self.errors is ErrorFormat.JSON:
            print(as_json({"message": message_id, **error.details()}), file=sys.stderr)
        else:
            complain(f"rejected {message_id}: {error}")

    def report_undecided(self, message_id: str, undecided: Iterable[UndecidedSubscription]) -> None:
        """Reports subscriptions that could not be decided on a message."""
        for failure in undecided:
            if self.errors is ErrorFormat.JSON:
                print(as_json({"message": message_id, "key": failure.key, **failure.details()}), file=sys.stderr)
            else:
                complain(f"undecided on {message_id}: the subscription {failure.key!r}: {failure.reason}")

    @property
    def status(self) -> int:
        """The exit status, as far as it depends on messages."""
        return SOME_REJECTED if self.rejected else 0
