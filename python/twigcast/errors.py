"""Every error and warning that Twigcast raises on purpose.

::

    TwigcastError
    ├── QueryError                    a query was refused               .text .column .reason .expected
    │   ├── QuerySyntaxError          it is not in the language
    │   ├── UnsupportedQuery          it uses a construct that this version does not evaluate
    │   ├── UndeclaredPrefix          it uses a prefix without a namespace
    │   └── QueryLimitExceeded        it is over a limit                (also a LimitExceeded)
    ├── RejectedMessage               a message was rejected            .reason .line .column
    │   ├── MalformedMessage          it is not well-formed XML
    │   ├── UnreadableMessage         its bytes could not be read
    │   ├── MessageLimitExceeded      it is over a limit                (also a LimitExceeded)
    │   └── NeedsConversion           it has to be converted first (internal)
    ├── LimitExceeded                 base of the two above             .limit .value
    ├── SubscriptionError             a subscription set was used wrongly
    │   ├── DuplicateKey              the key is taken                  .key
    │   ├── InvalidKey                the key cannot be used            .key .reason
    │   ├── InvalidContext            namespaces or dialect cannot be   .reason
    │   ├── UnknownKey                no subscription has the key       .key
    │   ├── SubscriptionChanged       it was changed after the match    .key
    │   ├── UndecidedSubscription     it was not decided on a message   .key .reason
    │   ├── SubscriptionFileError     a subscription file is wrong      .path .line .reason
    │   └── RefusedSubscriptions      some subscriptions were refused   .refused
    ├── SnapshotError                 a snapshot cannot be used         .path .reason
    ├── SourceError                   messages cannot be found          .path .reason
    ├── ReadOptionError               messages cannot be read so        .option .reason
    ├── LifecycleProfileError         a profile of a source is wrong    .profile .part .reason
    ├── WindowError                   a window cannot be used         .word .reason
    ├── OutputError                   results cannot be written         .path .reason
    ├── EnvelopeError                 an envelope cannot use a name     .name .reason
    ├── MissingDependency             something has to be installed
    │   ├── MissingExtra              a Python package                  .package .extra
    │   └── MissingJava               a Java runtime                    .reason
    ├── PipelineError                 a pipeline could not run          .reason
    └── InternalError                 a fault of Twigcast itself        .reason

    UserWarning
    ├── QueryWarning                  a query was accepted, but looks wrong
    └── SubscriptionFileWarning       a file was read, but something in it was not

Each class has a stable ``code`` by which programs distinguish errors; the wording of ``str(error)`` may change. All
classes take plain positional arguments (the compiled module raises them too) and can be pickled. Two errors are equal
if their classes and arguments are.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import ClassVar, Final

from twigcast.installing import install_line
from twigcast.limits import Limits

__all__ = [
    "DuplicateKey",
    "EnvelopeError",
    "InternalError",
    "InvalidContext",
    "InvalidKey",
    "LifecycleProfileError",
    "LimitExceeded",
    "MalformedMessage",
    "MessageLimitExceeded",
    "MissingDependency",
    "MissingExtra",
    "MissingJava",
    "NeedsConversion",
    "OutputError",
    "PipelineError",
    "QueryError",
    "QueryLimitExceeded",
    "QuerySyntaxError",
    "QueryWarning",
    "ReadOptionError",
    "RefusedSubscriptions",
    "RejectedMessage",
    "SnapshotError",
    "SourceError",
    "SubscriptionChanged",
    "SubscriptionError",
    "SubscriptionFileError",
    "SubscriptionFileWarning",
    "TwigcastError",
    "UndecidedSubscription",
    "UndeclaredPrefix",
    "UnknownKey",
    "UnreadableMessage",
    "UnsupportedQuery",
    "WindowError",
    "caret",
]

_EXCERPT_WIDTH_MAX: Final = 100
"""The longest part of a query that is shown above the caret."""

_NAME = re.compile(r"[\w.\-]*")


class TwigcastError(Exception):
    """Base of all errors. Catch it to catch everything that Twigcast raises on purpose."""

    code: ClassVar[str] = "error"
    """Stable identifier of the kind of error."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TwigcastError) and (type(other), other.args) == (type(self), self.args)

    def __hash__(self) -> int:
        return hash((type(self), self.args))

    def details(self) -> dict[str, str | int | None]:
        """Returns the error as plain values: ``code``, ``reason``, and ``line`` and ``column`` if it has a position."""
        details: dict[str, str | int | None] = {"code": self.code, "reason": str(getattr(self, "reason", self))}
        for name in ("line", "column"):
            value = getattr(self, name, None)
            if value is not None:
                details[name] = value
        return details


class QueryError(TwigcastError, ValueError):
    """A query was refused.

    Args:
        text: The whole query.
        column: Position in ``text``, in characters from 1. One past its end if something is missing there.
        reason: What is wrong, in one sentence.
        expected: What could stand there instead, most likely first; may be empty.
    """

    code = "query"

    def __init__(self, text: str, column: int, reason: str, expected: Sequence[str] = ()) -> None:
        super().__init__(text, column, reason, tuple(expected))
        self.text = text
        self.column = column
        self.reason = reason
        self.expected = tuple(expected)

    def __str__(self) -> str:
        return f"{self._sentence()}\n{caret(self.text, self.column)}"

    def _sentence(self) -> str:
        sentence = f"column {self.column}: {self.reason}"
        if self.expected:
            sentence += f"; expected {_alternatives(self.expected)}"
        return sentence


class QuerySyntaxError(QueryError):
    """A query that is not in the language. Arguments as for :class:`QueryError`."""

    code = "query-syntax"


class UnsupportedQuery(QueryError):
    """A query that uses a construct of a larger language: a later XPath, all of XQuery, XSLT.

    ``reason`` names the construct. If there is an equivalent, ``reason`` or ``expected`` says what to write instead.
    Other arguments as for :class:`QueryError`.
    """

    code = "query-unsupported"

    def _sentence(self) -> str:
        sentence = f"column {self.column}: {self.reason}"
        if self.expected:
            sentence += f"; write {_alternatives(self.expected)} instead"
        return sentence


class UndeclaredPrefix(QueryError):
    """A query that uses a prefix without a namespace. Arguments as for :class:`QueryError`."""

    code = "query-undeclared-prefix"

    @property
    def prefix(self) -> str:
        """The prefix at ``column``."""
        result = _NAME.match(self.text, max(self.column - 1, 0))
        return result.group() if result else ""


class RejectedMessage(TwigcastError, ValueError):
    """A message was rejected. It is kept with the reason, and processing goes on with the next message.

    Args:
        reason: What is wrong, in one sentence.
        line: Line of the error, from 1; ``None`` if it has no position.
        column: Column of the error, in characters from 1; ``None`` if it has no position.
    """

    code = "message"

    reason: str
    line: int | None
    column: int | None


class MalformedMessage(RejectedMessage):
    """A message that is not well-formed, namespace-well-formed XML.

    Args:
        line: Line of the error, from 1.
        column: Column of the error, in characters from 1.
        reason: What is wrong, in one sentence.
    """

    code = "message-malformed"

    def __init__(self, line: int, column: int, reason: str) -> None:
        super().__init__(line, column, reason)
        self.line = line
        self.column = column
        self.reason = reason

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.reason}"


class UnreadableMessage(RejectedMessage):
    """A message whose bytes could not be read: the file vanished, the archive is damaged, permission is missing.

    Args:
        reason: What happened, in one sentence.
    """

    code = "message-unreadable"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = None
        self.column = None

    def __str__(self) -> str:
        return self.reason


class LimitExceeded(TwigcastError):
    """A message or a query is over a limit. Raised as one of its two subclasses."""

    code = "limit"

    limit: str
    """Name of the limit: a field of :class:`twigcast.Limits`, or a fixed limit."""

    value: int
    """Value of the limit."""

    @property
    def remedy(self) -> str:
        """The limit with its value, and how to raise it unless it is fixed."""
        if self.limit not in Limits.__dataclass_fields__:
            return f"the limit is {self.limit} = {self.value:,}, which is fixed"
        return f"the limit is {self.limit} = {self.value:,}; raise it with limits=Limits({self.limit}=...)"


class QueryLimitExceeded(LimitExceeded, QueryError):
    """A query over a limit.

    Args:
        limit: Name of the limit, a field of :class:`twigcast.Limits`.
        value: Value of the limit.
        reason: What is too large, in one sentence.
        text: The whole query.
        column: Position at which the limit was exceeded, in characters from 1.
    """

    code = "query-limit"

    def __init__(self, limit: str, value: int, reason: str, text: str, column: int = 1) -> None:
        Exception.__init__(self, limit, value, reason, text, column)
        self.limit = limit
        self.value = value
        self.reason = reason
        self.text = text
        self.column = column
        self.expected = ()

    def _sentence(self) -> str:
        return f"column {self.column}: {self.reason} ({self.remedy})"


class MessageLimitExceeded(LimitExceeded, RejectedMessage):
    """A message over a limit.

    Args:
        limit: Name of the limit: a field of :class:`twigcast.Limits`, or ``entity_amplification_max`` or
            ``entities_with_references_max``, which are fixed.
        value: Value of the limit.
        reason: What is too large, in one sentence.
        line: Line at which the limit was exceeded, from 1; ``None`` if there is no position.
        column: Column of that position, in characters from 1.
    """

    code = "message-limit"

    def __init__(self, limit: str, value: int, reason: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(limit, value, reason, line, column)
        self.limit = limit
        self.value = value
        self.reason = reason
        self.line = line
        self.column = column

    def __str__(self) -> str:
        position = "" if self.line is None else f"line {self.line}, column {self.column}: "
        return f"{position}{self.reason} ({self.remedy})"


class NeedsConversion(MalformedMessage):
    """A message that :func:`twigcast.reading.conversion.to_utf8` has to convert before the engine can read it.

    It never reaches callers of the library. Arguments as for :class:`MalformedMessage`.
    """

    code = "message-needs-conversion"


class SubscriptionError(TwigcastError):
    """A subscription set was used wrongly."""

    code = "subscription"


class DuplicateKey(SubscriptionError, ValueError):
    """The key of a new subscription is taken. `SubscriptionSet.replace` changes the query of an existing one.

    Args:
        key: The key.
    """

    code = "subscription-duplicate-key"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"there is a subscription with the key {self.key!r} already"


class InvalidKey(SubscriptionError, ValueError):
    """A key that is not valid.

    Args:
        key: The key.
        reason: What is wrong, in one sentence.
    """

    code = "subscription-invalid-key"

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        return f"the key {self.key!r} cannot be used: {self.reason}"


class InvalidContext(SubscriptionError, ValueError):
    """Namespaces or a dialect with which no query can be read.

    Args:
        reason: What is wrong and what to write instead, in one sentence.
    """

    code = "subscription-invalid-context"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class UnknownKey(SubscriptionError, KeyError):
    """No subscription has that key.

    Args:
        key: The key.
    """

    code = "subscription-unknown-key"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"there is no subscription with the key {self.key!r}"


class SubscriptionChanged(SubscriptionError):
    """A subscription was replaced or removed since a message was matched.

    Args:
        key: The key.
    """

    code = "subscription-changed"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"the subscription {self.key!r} was replaced or removed since the message was matched; match it again"


class UndecidedSubscription(SubscriptionError):
    """A subscription that could not be decided, or not rewritten, on one message. All others were.

    Args:
        key: The key.
        reason: What happened, in one sentence.
    """

    code = "subscription-undecided"

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        return f"the subscription {self.key!r} could not be decided on this message: {self.reason}"


class SubscriptionFileError(SubscriptionError):
    """A file of subscriptions cannot be read, or one of its rows is not a subscription.

    Args:
        path: The file.
        line: Line of a text file or row of a Parquet file, from 1; ``None`` for the whole file.
        reason: What is wrong, in one sentence.
        key: Its key, if it has one that can be read.
    """

    code = "subscription-file"

    def __init__(self, path: str, line: int | None, reason: str, key: str | None = None) -> None:
        super().__init__(path, line, reason, key)
        self.path = path
        self.key = key
        self.line = line
        self.reason = reason

    def details(self) -> dict[str, str | int | None]:
        """Returns the error as plain values, with ``path``, and with ``key`` if it has one that can be read."""
        return {**super().details(), "path": self.path} | ({} if self.key is None else {"key": self.key})

    def __str__(self) -> str:
        position = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{position}: {self.reason}" if self.key is None else f"{position}: {self.key}: {self.reason}"


class RefusedSubscriptions(SubscriptionError):
    """Some subscriptions were refused, and the caller requested all or none.

    Args:
        refused: Key and error of each, in order.
    """

    code = "subscription-refused"

    _SHOWN_MAX: ClassVar[int] = 5

    def __init__(self, refused: Sequence[tuple[str, TwigcastError]]) -> None:
        super().__init__(tuple(refused))
        self.refused = tuple(refused)

    def __str__(self) -> str:
        count = len(self.refused)
        lines = [f"{count:,} subscription{'s were' if count != 1 else ' was'} refused"]
        lines += [
            # An error in a file begins with its position already.
            str(error) if isinstance(error, SubscriptionFileError) else f"{key}: {error}"
            for key, error in self.refused[: self._SHOWN_MAX]
        ]
        if count > self._SHOWN_MAX:
            lines.append(f"... and {count - self._SHOWN_MAX:,} more")
        return "\n".join(lines)


class _PathError(TwigcastError):
    """An error about one path."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class SnapshotError(_PathError):
    """A snapshot cannot be written, is damaged, or comes from a version that this one cannot read.

    Args:
        path: The file.
        reason: What is wrong, in one sentence.
    """

    code = "snapshot"


class SourceError(_PathError):
    """Messages cannot be found at the path that was named.

    Args:
        path: The file, folder or archive.
        reason: What is wrong, in one sentence.
    """

    code = "source"


class ReadOptionError(TwigcastError, ValueError):
    """An option of reading messages has a value that is not valid.

    Args:
        option: The option.
        reason: What is wrong with its value, and what can be written.
    """

    code = "read-option"

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(option, reason)
        self.option = option
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.option}: {self.reason}"


class LifecycleProfileError(TwigcastError, ValueError):
    """A profile of a source cannot be used.

    Args:
        profile: Its name.
        part: The part of it that is wrong.
        reason: What is wrong with that part, and what can be written.
    """

    code = "lifecycle-profile"

    def __init__(self, profile: str, part: str, reason: str) -> None:
        super().__init__(profile, part, reason)
        self.profile = profile
        self.part = part
        self.reason = reason

    def __str__(self) -> str:
        return f"the profile {self.profile!r}, {self.part}: {self.reason}"


class WindowError(TwigcastError, ValueError):
    """A window of a subscription cannot be used.

    Args:
        word: The word of it that is wrong, such as ``within``.
        reason: What is wrong with that, and what can be written.
    """

    code = "window"

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(word, reason)
        self.word = word
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}"


class OutputError(_PathError):
    """Results cannot be written to their path.

    Args:
        path: The file or folder.
        reason: What is wrong, in one sentence.
    """

    code = "output"


class EnvelopeError(TwigcastError, ValueError):
    """An envelope cannot use a name.

    Args:
        name: The name.
        reason: What is wrong with it.
    """

    code = "envelope"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"an envelope cannot use the name {self.name!r}: {self.reason}"


class MissingDependency(TwigcastError):
    """A dependency of this operation is not installed."""

    code = "missing"


class MissingExtra(MissingDependency, ImportError):
    """An optional Python package is not installed.

    Args:
        package: The package that is missing.
        extra: The extra of Twigcast that installs it.
    """

    code = "missing-extra"

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f"this needs the package {self.package}: {install_line(self.extra)}"


class MissingJava(MissingDependency):
    """No Java runtime was found that Spark can use.

    Args:
        reason: Where a runtime was searched for and what was there, in one sentence.
    """

    code = "missing-java"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.reason}; install a Java runtime, version 17 or newer (on Debian and Ubuntu: "
            "apt-get install openjdk-17-jre-headless), or point JAVA_HOME at one"
        )


class PipelineError(TwigcastError):
    """A pipeline could not start or continue.

    Args:
        reason: What happened and what to do, in one sentence.
    """

    code = "pipeline"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InternalError(TwigcastError):
    """A fault of Twigcast itself. Please report it with the message and the query that caused it.

    Args:
        reason: What happened, in one sentence.
    """

    code = "internal"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"internal error, please report it: {self.reason}"


class QueryWarning(UserWarning):
    """A query was accepted, but can never match, always matches, or otherwise looks wrong."""


class SubscriptionFileWarning(UserWarning):
    """A file of subscriptions was read, but something in it is not used although it looks as if it should be."""


def caret(text: str, column: int) -> str:
    """Returns the line of ``text`` around a position and a caret below that position, as two indented lines.

    Args:
        text: A query, of any length and any number of lines.
        column: The position, in characters of the whole text from 1.
    """
    position = min(max(column - 1, 0), len(text))
    line_start = max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1
    line_end = min(
        (end for end in (text.find("\n", position), text.find("\r", position)) if end >= 0), default=len(text)
    )
    start = max(line_start, min(position - _EXCERPT_WIDTH_MAX // 2, line_end - _EXCERPT_WIDTH_MAX))
    end = min(line_end, start + _EXCERPT_WIDTH_MAX)
    head = "..." if start > line_start else ""
    tail = "..." if end < line_end else ""
    before = head + _printable(text[start:position])
    return f"    {before}{_printable(text[position:end])}{tail}\n    {' ' * _width(before)}^"


def _printable(text: str) -> str:
    """Returns ``text`` without the characters that would move the cursor."""
    return "".join(" " if c == "\t" else c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _width(text: str) -> int:
    """Returns how many terminal cells ``text`` takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _alternatives(choices: Sequence[str]) -> str:
    if len(choices) < 2:
        return "".join(choices)
    return f"{', '.join(choices[:-1])} or {choices[-1]}"
