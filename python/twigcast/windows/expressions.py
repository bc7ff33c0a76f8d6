"""Expressions of windows: the engine reads keys, times, values and conditions of messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from twigcast.errors import QueryError, TwigcastError, WindowError
from twigcast.lifecycle.times import seconds_of
from twigcast.limits import Limits
from twigcast.message_expressions import ExpressionValues, MessageExpressions, bounded
from twigcast.windows.declarations import Window
from twigcast.windows.states import Handle, WindowEvent

K = TypeVar("K", str, int)

_CONDITIONS: Final = ("sequence",)
"""The words whose expressions are conditions."""


@dataclass(frozen=True, slots=True)
class RegisteredWindow:
    """A window whose expressions are registered, under keys that equal expressions share; ``""`` stands for none."""

    window: Window
    by: str = ""
    at: str = ""
    value: str = ""
    second: str = ""


class KeyedEvent(NamedTuple):
    """An event of a window, with its key."""

    key: str | None
    """``None``: it does not count, since its key could not be found."""
    event: WindowEvent
    trouble: str | None = None
    """What could not be read of it."""


class WindowExpressions:
    """The expressions of the windows of many subscriptions, evaluated in one reading of each message."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._expressions = MessageExpressions(limits)
        self._keys: dict[tuple[bool, str, tuple[tuple[str, str], ...]], str] = {}
        self._uses: dict[str, int] = {}
        self._names: dict[str, tuple[bool, str, tuple[tuple[str, str], ...]]] = {}
        self._next = 0

    def add(self, window: Window, namespaces: Mapping[str, str]) -> RegisteredWindow:
        """Registers the expressions of a window.

        Raises:
            WindowError: One is refused.
        """
        keys: dict[str, str] = {}
        try:
            for word, expression in window.expressions.items():
                keys[word] = self._key(word, expression, namespaces)
        except WindowError:
            for key in keys.values():
                self._release(key)
            raise
        by, at, value, second = (keys.get(word, "") for word in ("by", "at", "changed", "sequence"))
        return RegisteredWindow(window, by, at, value, second)

    def remove(self, registered: RegisteredWindow) -> None:
        """Removes the expressions of a window that no other one has."""
        for key in (registered.by, registered.at, registered.value, registered.second):
            if key:
                self._release(key)

    def _key(self, word: str, expression: str, namespaces: Mapping[str, str]) -> str:
        """Returns the key of an expression, which is registered if it was not."""
        name = (word in _CONDITIONS, expression, tuple(sorted(namespaces.items())))
        key = self._keys.get(name)
        if key is None:
            key, self._next = str(self._next + 1), self._next + 1
            try:
                if word in _CONDITIONS:
                    self._expressions.add_condition(key, expression, namespaces)
                else:
                    self._expressions.add_values(key, expression, namespaces)
            except QueryError as error:
                raise WindowError(word, str(error)) from error
            except TwigcastError as error:
                raise WindowError("namespaces", str(error)) from error
            self._keys[name], self._names[key] = key, name
        self._uses[key] = self._uses.get(key, 0) + 1
        return key

    def _release(self, key: str) -> None:
        self._uses[key] -= 1
        if not self._uses[key]:
            del self._uses[key]
            del self._keys[self._names.pop(key)]
            self._expressions.discard(key)

    def read(self, message: bytes) -> MessageValues:
        """Returns what a message says to the windows.

        Raises:
            RejectedMessage: The message is not well-formed, or over a limit.
        """
        return MessageValues(self._expressions.read(message))


class MessageValues:
    """The values of the expressions of windows in one message."""

    def __init__(self, values: ExpressionValues) -> None:
        self._values = values
        self._undecided = {failure.key: failure.reason for failure in values.undecided}

    @property
    def held(self) -> Iterable[str]:
        """The keys of the conditions that it meets, among those of other expressions."""
        return self._values.held

    def is_second(self, registered: RegisteredWindow) -> bool:
        """Returns whether the message meets the condition of a sequence."""
        return bool(registered.second) and self._values.holds(registered.second)

    def event(
        self, registered: RegisteredWindow, handle: Handle, arrived: float, *, is_first: bool = True, size: int = 0
    ) -> KeyedEvent:
        """Returns what the message says to one window.

        Args:
            registered: The window.
            handle: What the message is called.
            arrived: When it came, in seconds since 1970.
            is_first: Whether the query of the subscription matches it.
            size: Bytes of what the subscription would get of it.
        """
        key = bounded(self._first(registered.by) or "")
        at, trouble = self._time(registered, arrived)
        value = self._first(registered.value)
        is_second = self.is_second(registered)
        event = WindowEvent(handle, arrived, at, None if value is None else bounded(value), is_first, is_second, size)
        keys = (registered.by, registered.value, registered.second)
        failed = next((self._undecided[one] for one in keys if one in self._undecided), None)
        if failed is not None:
            return KeyedEvent(None, event, f"the window could not be decided: {failed}")
        return KeyedEvent(key, event, trouble)

    def _first(self, key: str) -> str | None:
        return next(iter(self._values.of(key)), None) if key else None

    def _time(self, registered: RegisteredWindow, arrived: float) -> tuple[float, str | None]:
        """Returns when the message happened, and what is wrong with the time that it names."""
        if not registered.at:
            return arrived, None
        if registered.at in self._undecided:
            return arrived, f"its time could not be decided, so it counts as of now: {self._undecided[registered.at]}"
        text = self._first(registered.at)
        at = None if text is None else seconds_of(text)
        if at is None:
            named = "it names no time" if text is None else f"it happened at {text[:100]!r}, which is no time"
            return arrived, f"{named}, so it counts as of now"
        return at, None


class WindowTable(Generic[K]):
    """The windows of subscriptions, under their keys."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._expressions = WindowExpressions(limits)
        self._windows: dict[K, RegisteredWindow] = {}
        self._by_condition: dict[str, dict[K, None]] = {}
        """The subscriptions to sequences, by the condition that the second message meets."""

    def __len__(self) -> int:
        return len(self._windows)

    def __contains__(self, key: K) -> bool:
        return key in self._windows

    def items(self) -> Iterable[tuple[K, RegisteredWindow]]:
        """Returns the subscriptions with their windows."""
        return self._windows.items()

    def get(self, key: K) -> RegisteredWindow | None:
        """Returns the window of a subscription."""
        return self._windows.get(key)

    def put(self, key: K, window: Window, namespaces: Mapping[str, str]) -> None:
        """Sets the window of a subscription.

        Raises:
            WindowError: An expression is refused.
        """
        registered = self._expressions.add(window, namespaces)
        self.discard(key)
        self._windows[key] = registered
        if registered.second:
            self._by_condition.setdefault(registered.second, {})[key] = None

    def discard(self, key: K) -> None:
        """Removes the window of a subscription, if it has one."""
        registered = self._windows.pop(key, None)
        if registered is None:
            return
        if registered.second:
            mine = self._by_condition[registered.second]
            del mine[key]
            if not mine:
                del self._by_condition[registered.second]
        self._expressions.remove(registered)

    def read(self, message: bytes, matching: Iterable[K]) -> MessageValues | None:
        """Returns what a message says to the windows; ``None`` if it concerns none of them.

        Raises:
            RejectedMessage: The message is not well-formed, or over a limit.
        """
        if not self._windows or (not self._by_condition and not any(key in self._windows for key in matching)):
            return None
        return self._expressions.read(message)

    def values(self, message: bytes) -> MessageValues:
        """Returns what a message says to the windows, whether it concerns any or not.

        Raises:
            RejectedMessage: The message is not well-formed, or over a limit.
        """
        return self._expressions.read(message)

    def second_for(self, values: MessageValues) -> Iterator[K]:
        """Yields the subscriptions to sequences whose second message this may be."""
        if self._by_condition:
            for key in values.held:
                yield from self._by_condition.get(key, ())
