"""The facts of a message: what it is, what it refers to, when it expires, as a profile finds them by the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from twigcast.errors import LifecycleProfileError, QueryError, TwigcastError
from twigcast.lifecycle.profiles import LifecycleProfile
from twigcast.lifecycle.times import seconds_of
from twigcast.limits import Limits
from twigcast.message_expressions import ExpressionValues, MessageExpressions, bounded, text_digest

NAMES_MAX: Final = 1_000
"""How many messages one may refer to; what is beyond that is left out."""


class MessageKind(StrEnum):
    """The intention of a message towards earlier ones."""

    NEW = "new"
    """Nothing, unless an earlier one is known under its identity."""
    UPDATE = "update"
    CANCEL = "cancel"
    END = "end"
    APART = "apart"
    """It takes no part in life cycles."""


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """The facts of a message, as it says them itself."""

    identity: str | None
    """``None``: it does not say which message it is."""
    kind: MessageKind = MessageKind.NEW
    version: str = ""
    names: tuple[str, ...] = ()
    """Further names of it."""
    refers: tuple[str, ...] = ()
    """The identities of messages that it refers to."""
    expires: float | None = None
    """When it expires, in seconds since 1970."""
    trouble: str | None = None
    """What could not be read of it, such as a time that is none."""

    @property
    def takes_part(self) -> bool:
        """Returns whether it has a life cycle."""
        return self.identity is not None and self.kind is not MessageKind.APART


class ProfileReader:
    """Reads the facts of messages, with an engine of its own: that is where its expressions are evaluated.

    Raises:
        LifecycleProfileError: An expression is refused.
    """

    def __init__(self, profile: LifecycleProfile, limits: Limits | None = None) -> None:
        self.profile = profile
        self._expressions = MessageExpressions(limits)
        for kind, condition in profile.conditions.items():
            self._add(self._expressions.add_condition, kind, condition)
        for index, expression in enumerate(profile.identity):
            self._add(self._expressions.add_values, f"identity {index}", expression)
        values = {"also": profile.also, "refers": profile.refers, "version": profile.version}
        for part, expression in {**values, "expires": profile.expires}.items():
            if expression:
                self._add(self._expressions.add_values, part, expression)

    def _add(self, add: Callable[[str, str, Mapping[str, str]], None], part: str, expression: str) -> None:
        try:
            add(part, expression, self.profile.namespaces)
        except QueryError as error:
            raise LifecycleProfileError(self.profile.name, part.split()[0], str(error)) from error
        except TwigcastError as error:
            raise LifecycleProfileError(self.profile.name, "namespaces", str(error)) from error

    def read(self, message: bytes) -> MessageFacts:
        """Returns the facts of a message.

        Raises:
            RejectedMessage: The message is not well-formed, or over a limit.
        """
        values = self._expressions.read(message)
        undecided = "; ".join(f"{error.key}: {error.reason}" for error in values.undecided)
        kind = next((MessageKind(kind) for kind in self.profile.conditions if values.holds(kind)), MessageKind.NEW)
        identity = self._identity(values)
        refers, trouble = values.of("refers"), undecided or None
        if len(usable := [one for one in refers if one.strip(",")]) < len(refers):
            # What it refers to without naming it would be one thing for all that do so.
            trouble, refers = trouble or "it refers to a message without an identity", usable
        if len(refers) > NAMES_MAX:
            trouble = f"it refers to {len(refers):,} messages, of which {NAMES_MAX:,} count"
        expires, wrong = _latest(values.of("expires"))
        return MessageFacts(
            identity,
            kind,
            self._version(values, message),
            _names(values.of("also")),
            _names(refers),
            expires,
            trouble or wrong,
        )

    def _version(self, read: ExpressionValues, message: bytes) -> str:
        """Returns the version; where messages should name one and this does not, other content is another version."""
        if not self.profile.version:
            return ""
        values = read.of("version")
        return bounded(values[0]) if values else f"~{text_digest(b' '.join(message.split()))[:32]}"

    def _identity(self, read: ExpressionValues) -> str | None:
        firsts = [next(iter(read.of(f"identity {i}")), "") for i in range(len(self.profile.identity))]
        return bounded(",".join(firsts)) if all(firsts) else None


def _names(values: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(bounded(value) for value in values[:NAMES_MAX]))


def _latest(texts: list[str]) -> tuple[float | None, str | None]:
    """Returns the latest time, and what is wrong: with one that cannot be read, the end is not known."""
    times = [seconds_of(text) for text in texts]
    for text, time in zip(texts, times, strict=True):
        if time is None:
            return None, f"it expires at {text[:100]!r}, which is no time"
    return max((time for time in times if time is not None), default=None), None
