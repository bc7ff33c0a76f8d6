"""Options, input and error reports that the commands share."""

import contextlib
import functools
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from twigcast.cli.colours import painted
from twigcast.cli.option_groups import OptionGroup, expanded
from twigcast.envelope import Envelope
from twigcast.errors import (
    InvalidContext,
    QueryWarning,
    ReadOptionError,
    RefusedSubscriptions,
    RejectedMessage,
    SourceError,
    SubscriptionFileWarning,
    TwigcastError,
    UndecidedSubscription,
    UnreadableMessage,
    WindowError,
)
from twigcast.limits import Limits
from twigcast.query_check import QueryReport
from twigcast.reading.conversion import to_document
from twigcast.reading.messages import DAMAGE, Message, find_message_files, open_documents, read_messages, unreadable
from twigcast.reading.options import ReadOptions
from twigcast.reading.preparation import delivered
from twigcast.reading.repair_counts import RepairCounts
from twigcast.reading.text import half_pair
from twigcast.registration import DIALECTS, Dialect
from twigcast.subscription_files import load_subscriptions
from twigcast.subscription_items import checked_namespaces, dialect_with_numbers
from twigcast.subscriptions import SubscriptionSet

FAULT: Final = 1
"""The exit status of Python after an exception that was not caught: a fault of Twigcast."""

NOTHING_MATCHED: Final = 4
BAD_USAGE: Final = 2
SOME_REJECTED: Final = 3
INTERRUPTED: Final = 130
READER_GONE: Final = 141


class OnBadSubscription(StrEnum):
    """The choice between stopping at refused subscriptions and skipping them."""

    FAIL = "fail"
    SKIP = "skip"


class ErrorFormat(StrEnum):
    """The format in which rejected messages are reported."""

    TEXT = "text"
    JSON = "json"


class EntitySetName(StrEnum):
    """A set of entities, as an option."""

    HTML = "html"


class DialectName(StrEnum):
    """A dialect of queries, as an option."""

    XPATH = "xpath"
    LEGACY = "legacy"
    DOUBLES = "doubles"
    XQUERY = "xquery"

    @property
    def dialect(self) -> Dialect:
        """The name of the dialect in the library."""
        return DIALECTS[self.value]


class NumbersName(StrEnum):
    """A way to read texts as numbers, as an option."""

    DOUBLE = "xs:double"


def dialect_reading(dialect: DialectName, numbers: NumbersName | None) -> DialectName:
    """Returns the dialect that reads numbers as an option says."""
    if numbers is None:
        return dialect
    try:
        return DialectName(dialect_with_numbers(dialect.dialect, numbers.value))
    except InvalidContext as error:
        raise typer.BadParameter(error.reason, param_hint="--numbers") from None


# --- options ----------------------------------------------------------------------------------------------------------

_SUBSCRIPTIONS_HELP: Final = (
    "File of subscriptions: JSON, .csv, .parquet, a list of queries, or a snapshot; - for standard input."
)
SubscriptionsOption = Annotated[
    Path, typer.Option("-s", "--subscriptions", metavar="SUBSCRIPTIONS", help=_SUBSCRIPTIONS_HELP)
]
OptionalSubscriptionsOption = Annotated[
    Path | None, typer.Option("-s", "--subscriptions", metavar="SUBSCRIPTIONS", help=_SUBSCRIPTIONS_HELP)
]
QueriesOption = Annotated[
    list[str] | None,
    typer.Option("-q", "--query", metavar="QUERY", help="A query, which is its own key. May be repeated."),
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
        help="Cut each document into messages at this element: name, prefix:name (with -n also for its namespace), "
        "{namespace}name or a path such as /feed/entry; several with | between.",
    ),
]
DocumentsOption = Annotated[
    bool, typer.Option("--documents", help="Read files and standard input as several documents, one after the other.")
]
RecordIdOption = Annotated[
    str | None,
    typer.Option(
        "--record-id",
        metavar="PATH",
        help="Where a record has its id: guid, header/id or @id; prefixes as for --record; else it is numbered.",
    ),
]
InheritOption = Annotated[
    list[str] | None,
    typer.Option(
        "--inherit",
        metavar="NAME",
        help="Give records the attribute or element of this name that stands around or before them; @name: the "
        "attribute alone; prefixes as for --record; repeatable.",
    ),
]
EntitiesOption = Annotated[
    EntitySetName | None,
    typer.Option("--entities", help="Read references such as &nbsp; in every message."),
]
DtdOption = Annotated[
    Path | None,
    typer.Option("--dtd", metavar="FILE", help="Read the entities and attributes that this DTD declares."),
]
TolerantOption = Annotated[
    bool,
    typer.Option(
        "--tolerant",
        help="Repair a blank line before the XML declaration, HTML entities, stray control characters and bytes of "
        "Windows-1252; standard error counts the repairs.",
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
        "--dialect",
        help="How queries are read; legacy: also spellings of older papers; doubles: numbers with exponents; "
        "xquery: also all of XQuery.",
    ),
]
NumbersOption = Annotated[
    NumbersName | None,
    typer.Option(
        "--numbers",
        help="How texts are read as numbers, instead of as in XPath 1.0: xs:double is the dialect doubles.",
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
LimitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=NUMBER",
        help="Another limit than by default: message_visits_max (what all queries may cost on a message), "
        "group_visits_max (those of one group), query_visits_max, overruns_max, result_bytes_max, "
        "message_result_bytes_max or any other that an error names. May be repeated.",
    ),
]
OnBadOption = Annotated[
    OnBadSubscription,
    typer.Option("--on-bad-subscription", help="Stop at subscriptions that are refused, or go on without them."),
]
ErrorsOption = Annotated[
    ErrorFormat, typer.Option("--errors", help="The format of rejected messages on standard error.")
]


def parse_namespaces(values: list[str] | None) -> dict[str, str]:
    """Parses namespaces of the form ``PREFIX=URI``.

    Raises:
        typer.BadParameter: One is not of this form, or its prefix cannot stand for it.
    """
    namespaces = {}
    for value in values or []:
        prefix, equals, uri = value.partition("=")
        if not equals:
            raise typer.BadParameter(f"{value!r} is not PREFIX=URI", param_hint="--namespace")
        namespaces[prefix] = uri
    try:
        return checked_namespaces(namespaces)
    except InvalidContext as error:
        raise typer.BadParameter(str(error), param_hint="--namespace") from None


def parse_limits(values: list[str] | None) -> Limits:
    """Parses limits of the form ``NAME=NUMBER``; those that are not named are as by default.

    Raises:
        typer.BadParameter: One is not of this form, there is no such limit, or the number is out of its range.
    """
    named: dict[str, int] = {}
    for value in values or []:
        name, _, number = value.partition("=")
        if name not in Limits().as_dict():
            names = ", ".join(Limits().as_dict())
            raise typer.BadParameter(f"there is no limit {name!r}, but {names}", param_hint="--limit")
        if not number.isascii() or not number.replace("_", "").isdigit():
            raise typer.BadParameter(f"{value!r} is not NAME=NUMBER", param_hint="--limit")
        named[name] = int(number)
    try:
        return Limits(**named)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--limit") from None


_PREFIXED: Final = re.compile(r"(\{[^}]*\}[^/|]*)|([^\s/|{}:@]+):([^/|{}:]+)")
"""In a path or name: a name with its namespace, which is left alone, or one with a prefix."""


def resolve_prefixes(path: str | None, namespaces: dict[str, str]) -> str | None:
    """Returns a path or name, as of records, with the namespaces of the prefixes that are declared with ``-n``.

    A prefix that is not declared stands for itself, as documents write it.
    """

    def resolved(name: re.Match[str]) -> str:
        uri = namespaces.get(name[2] or "") if name[1] is None else None
        return name[0] if uri is None else f"{{{uri}}}{name[3]}"

    return None if path is None else _PREFIXED.sub(resolved, path)


def parse_envelope(name: str | None, namespaces: list[str] | None, *, query: bool) -> Envelope | None:
    """Returns the envelope of a name, if there is one, with the query of the subscription if that is requested."""
    if name is None:
        if query:
            raise typer.BadParameter(
                "there is no envelope to put it in: use --envelope NAME", param_hint="--envelope-query"
            )
        return None
    return Envelope.named(name, parse_namespaces(namespaces), "query" if query else None)


# --- errors -----------------------------------------------------------------------------------------------------------


def guarded(command: Callable[..., int]) -> Callable[..., None]:
    """Wraps a command: its errors are reported in a line, its result is the exit status, its groups are options."""
    taking_options = expanded(command)

    @functools.wraps(taking_options)
    def run(**options: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", QueryWarning)
                warnings.simplefilter("always", SubscriptionFileWarning)
                warnings.showwarning = _show_warning
                status = taking_options(**options)
            sys.stdout.flush()
        except TwigcastError as error:
            complain(str(error))
            status = BAD_USAGE
        except BrokenPipeError:
            # Typer would make it the status of a fault.
            _give_up_output()
            status = READER_GONE
        except KeyboardInterrupt:
            status = INTERRUPTED
        raise typer.Exit(status)

    return run


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    complain(f"warning: {message}" if issubclass(category, UserWarning) else f"{category.__name__}: {message}")


def run_safely(work: Callable[[], None]) -> int:
    """Runs the whole command line, and returns its exit status.

    If an output cannot be written, it ends with a sentence; if standard output is closed, it ends quietly. An exception
    that was not caught is a fault, and is shown with its traceback.
    """
    try:
        try:
            work()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else FAULT
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_output()
        return READER_GONE
    except OSError as error:
        name = "standard output" if error.filename is None else str(error.filename)
        _give_up_output()
        print(f"twigcast: {name}: it cannot be written or read: {error.strerror or error}", file=sys.stderr)
        return BAD_USAGE
    return status


def open_closed_streams() -> None:
    """Opens the standard streams that were closed before Python began, so that using them is an error of the system.

    Python has none in their place, and what is opened next would take their number.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False)


def _give_up_output() -> None:
    """Closes standard output: Python flushes it once more at its end, which would fail again, with a traceback."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def as_json(value: object) -> str:
    """Returns a value as JSON, in ASCII if UTF-8 cannot hold it because of halves of surrogate pairs."""
    text = json.dumps(value, ensure_ascii=False)
    return text if half_pair(text) is None else json.dumps(value)


_IN_PYTHON: Final = [
    (re.compile(r'namespaces=\{"([^"]*)": "urn:\.\.\."\}'), r"-n \1=URI"),
    (re.compile(r'namespaces=\{"([^"]*)": "([^"]*)"\}'), r"-n \1=\2"),
    (re.compile(r'as in params=\{("[^"]*": "\.\.\.")\}'), r'in a file of subscriptions (-s), as in "params": {\1}'),
    (re.compile(r"limits=Limits\((\w+)=\.\.\.\)"), r"--limit \1=NUMBER"),
    (re.compile(r"windows=WindowSettings\(\)"), r"--windows"),
    (re.compile(r"lifecycle=LifecycleSettings\(\.\.\.\)"), r"--profile PROFILE"),
    (re.compile(r"""\b(dialect|numbers)=(["'])([\w:]+)\2"""), r"--\1 \3"),
    (re.compile(r'(--dtd FILE|--entities html), \w+=(?:FILE|"html")'), r"\1"),
    (
        re.compile(
            r"(found (a second root element or end tag|the XML declaration of another document)"
            r"|a DOCTYPE may not stand after the root element)$"
        ),
        r"\g<0>; if several documents follow each other, read them with --documents",
    ),
]
"""The advice of errors as it is for programs, and as options."""


def advice(text: str) -> str:
    """Returns the text of an error with its advice in terms of the command line."""
    for in_python, option in _IN_PYTHON:
        text = in_python.sub(option, text)
    return text


def check_standard_input(messages: Iterable[str], subscriptions: Path | None) -> None:
    """Raises an error if standard input is to be read twice: the second time there would be nothing left.

    Raises:
        typer.BadParameter: It is.
    """
    times = [*messages, "" if subscriptions is None else str(subscriptions)].count("-")
    if times > 1:
        raise typer.BadParameter(
            "- stands for standard input, which can be read once: give a file in place of the others",
            param_hint="MESSAGE" if str(subscriptions) != "-" else "--subscriptions",
        )


def complain(text: str) -> None:
    """Reports an error to the user, after all output so far."""
    sys.stdout.flush()
    print(f"{painted('twigcast:', 'bold', sys.stderr)} {advice(text)}", file=sys.stderr)


# --- subscriptions and messages ---------------------------------------------------------------------------------------


def parse_when(text: str | None) -> dict[str, object] | None:
    """Returns when a subscription is told, as a broker takes it.

    Raises:
        typer.BadParameter: The text is no JSON, or a word of it cannot be used.
    """
    if text is None:
        return None
    from twigcast.windows.declarations import window_of_text

    try:
        return window_of_text(text).as_mapping()
    except WindowError as error:
        raise typer.BadParameter(str(error), param_hint="--when") from None


def delivered_document(message: Message, options: ReadOptions, bytes_max: int, whole: bytes | None = None) -> str:
    """Returns a message as those get it whose queries rewrite nothing. ``whole``: as a set delivers it."""
    if message.original is None and whole is not None and whole is not message.xml:
        return whole.decode()  # without its DOCTYPE it is in UTF-8 already
    if message.original is None:
        return to_document(message.xml).decode()
    return to_document(delivered(message.original, options, bytes_max)).decode()


def running(report: QueryReport) -> Iterator[str]:
    """Yields how a query runs, line by line."""
    yield f"runs as: {report.route} ({report.reason})"
    if report.cover is not None:
        yield f"cover: {report.cover}"
    yield f"costs: {report.cost}"


@dataclass(frozen=True, slots=True)
class QueryFlags(OptionGroup):
    """The options by which subscriptions are read. What is derived from them raises `typer.BadParameter`."""

    namespace: NamespaceOption = None
    dialect: DialectOption = DialectName.XPATH
    numbers: NumbersOption = None
    on_bad_subscription: OnBadOption = OnBadSubscription.FAIL
    limit: LimitOption = None

    @property
    def namespaces(self) -> dict[str, str]:
        """The namespaces of ``-n``."""
        return parse_namespaces(self.namespace)

    @property
    def query_dialect(self) -> Dialect:
        """The dialect of queries, which reads numbers as ``--numbers`` says."""
        return dialect_reading(self.dialect, self.numbers).dialect

    @property
    def limits(self) -> Limits:
        """The limits, with those of ``--limit``."""
        return parse_limits(self.limit)

    def load(
        self, path: Path | None, queries: list[str] | None = None, *, when: dict[str, object] | None = None
    ) -> SubscriptionSet:
        """Loads the subscriptions of a file. Refused ones are reported, and end the command unless it skips them."""
        dialect, limits, namespaces = self.query_dialect, self.limits, self.namespaces
        if path is None and not queries:
            raise typer.BadParameter("give -s SUBSCRIPTIONS or -q QUERY", param_hint="--subscriptions")
        if path is None:
            subscriptions = SubscriptionSet(namespaces=namespaces, dialect=dialect, limits=limits)
        else:
            subscriptions, refused = load_subscriptions(
                path, namespaces=namespaces, dialect=dialect, limits=limits, when=when
            )
            if refused and self.on_bad_subscription is OnBadSubscription.FAIL:
                raise RefusedSubscriptions([(row.label, row.error) for row in refused])
            for row in refused:
                complain(f"left out: {row}")
        for query in dict.fromkeys(queries or []):
            subscriptions.add(query, query)
        return subscriptions


@dataclass(frozen=True, slots=True)
class ReadingFlags(OptionGroup):
    """The options by which messages are read."""

    record: RecordOption = None
    documents: DocumentsOption = False
    record_id: RecordIdOption = None
    inherit: InheritOption = None
    include: IncludeOption = None
    entities: EntitiesOption = None
    dtd: DtdOption = None
    tolerant: TolerantOption = False

    def options(self, namespaces: dict[str, str]) -> ReadOptions:
        """Returns the options of reading, with prefixes in names looked up in the namespaces of ``-n``.

        Raises:
            typer.BadParameter: One of the options has no meaning, or none beside the others.
        """
        try:
            return ReadOptions(
                record=resolve_prefixes(self.record, namespaces),
                documents=self.documents,
                record_id=resolve_prefixes(self.record_id, namespaces),
                inherit=tuple(resolve_prefixes(name, namespaces) or "" for name in self.inherit or ()),
                include=self.include,
                entities=None if self.entities is None else "html",
                dtd=None if self.dtd is None else str(self.dtd.absolute()),
                tolerant=self.tolerant,
            )
        except ReadOptionError as error:
            option = f"--{error.option.replace('_', '-')}"
            raise typer.BadParameter(error.reason, param_hint=option) from None


@dataclass(slots=True)
class MessageInput:
    """The messages of a command: counts them, and reports those that are rejected."""

    arguments: list[str]
    reading: ReadingFlags
    errors: ErrorFormat
    namespaces: dict[str, str] = field(default_factory=dict)
    """Those of ``-n``, in which prefixes of records, of their ids and of what they inherit are looked up."""

    count: int = field(default=0, init=False)
    rejected: int = field(default=0, init=False)
    repairs: RepairCounts = field(default_factory=RepairCounts, init=False)
    missing: int = field(default=0, init=False)
    """Arguments that do not exist; the others are read."""

    options: ReadOptions = field(init=False)

    def __post_init__(self) -> None:
        self.options = self.reading.options(self.namespaces)

    def __iter__(self) -> Iterator[Message]:
        """Yields the messages that can be read."""
        existing = [argument for argument in self.arguments if self._exists(argument)]
        items = read_messages(existing, self.options, repairs=self.repairs)
        for item in items if existing else ():
            self.count += 1
            if isinstance(item, Message):
                yield item
            else:
                self.reject(item.id, item.error)
        self._report_reading(existing)

    def matched_records(self, population: SubscriptionSet) -> Iterator[tuple[str, list[str]]]:
        """Yields the id of each record that subscriptions match, and their keys. Reports the faults of other records.

        The messages must be records without ids of their own.
        """
        existing = [argument for argument in self.arguments if self._exists(argument)]
        documents = open_documents(existing, self.options)
        for name, stream in documents if existing else ():
            if isinstance(stream, UnreadableMessage):
                self.count += 1
                self.reject(name, stream)
                continue
            answers = population.match_records(stream, self.options, repairs=self.repairs)
            try:
                for record in answers:
                    message_id = f"{name}#{record.number}"
                    if record.keys:
                        yield message_id, record.keys
                    if record.error is not None:
                        self.reject(message_id, record.error)
                    self.report_undecided(message_id, record.undecided)
                self.count += answers.count
            except DAMAGE as error:
                self.count += answers.count + 1
                self.reject(f"{name}#{answers.count + 1}", unreadable(error))
        self._report_reading(existing)

    def _report_reading(self, existing: list[str]) -> None:
        """Reports if there was nothing to read, inherited names that occur nowhere, and repairs."""
        if existing and not self.count:
            record = self.reading.record
            complain("there are no messages" if record is None else f"there are no {record} elements")
        if self.count:
            for name, resolved in zip(self.reading.inherit or (), self.options.inherit, strict=True):
                if resolved not in self.repairs.inherited:
                    complain(f"warning: --inherit {name}: nothing of this name stands around or before a record")
        if self.repairs:
            complain(f"repaired: {self.repairs}")

    def _exists(self, argument: str) -> bool:
        """Returns whether there is a file or folder; if not, that is reported."""
        if argument == "-" or os.path.exists(argument):  # noqa: PTH110 - Path drops a slash at the end of a file's name
            return True
        try:
            find_message_files([argument])
        except SourceError as error:
            self.missing += 1
            complain(str(error))
            return False
        return True

    def reject(self, message: Message | str, error: RejectedMessage) -> None:
        """Reports a rejected message, or its id if it could not be read."""
        if isinstance(message, Message):
            message_id, error = message.id, message.located(error)
        else:
            message_id = message
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
        if self.missing:
            return BAD_USAGE
        return SOME_REJECTED if self.rejected else 0
