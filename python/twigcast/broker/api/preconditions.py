"""Evaluates preconditions (RFC 9110, section 13): a change is made only of what its sender has seen.

The entity tag of a subscription or a source stands for its settings and its state. What changes by itself, such as how
much is pending or when a feed was polled, is left out of it, or no ``If-Match`` would ever hold.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, urlencode
from weakref import WeakValueDictionary

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from twigcast.broker.api.problems import Problem
from twigcast.broker.errors import PreconditionFailed
from twigcast.broker.lookup_tables import TableSummary
from twigcast.broker.model import Source, StoredSubscription

_KEY: Final = secrets.token_bytes(32)
"""The key of tags, so that nobody can guess settings, such as secrets of webhooks, by their tag. A restart changes
it."""

_ITEM: Final = re.compile(r'[ \t]*(?:(W/)?("[\x21\x23-\x7e\x80-\xff]*")[ \t]*)?(?:,|\Z)')
"""A tag in a list, or nothing, with the comma behind it.

Items are read one by one: an expression for the whole list would try out each way to divide its spaces.
"""


def tag_of_subscription(subscription: StoredSubscription) -> str:
    """Returns the entity tag of a subscription."""
    s = subscription
    return _tag(
        *(s.id, s.key, s.subscriber, s.query, sorted(s.namespaces.items()), s.dialect, sorted(s.params.items())),
        *(s.delivery, s.state, s.reason, s.overflow, s.follow, s.window, s.urgency),
    )


def tag_of_source(source: Source) -> str:
    """Returns the entity tag of a source."""
    s = source
    return _tag(
        *(s.id, s.name, s.kind, s.url, s.interval, s.dtd, s.paused),
        *(s.updates, list(s.follow), list(s.follow_hosts), s.doctype, s.validation, s.profile),
        *([dict(one) for one in s.lookups], s.xsd),
    )


def tag_of_table(table: TableSummary) -> str:
    """Returns the entity tag of a look-up table."""
    return _tag(table.name, table.version)


def _tag(*values: object) -> str:
    return f'"{hashlib.blake2b(repr(values).encode(errors="surrogatepass"), digest_size=12, key=_KEY).hexdigest()}"'


@dataclass(frozen=True, slots=True)
class Preconditions:
    """The preconditions of a request."""

    match: str | None = None
    none_match: str | None = None
    is_reading: bool = False

    @classmethod
    def of(cls, request: Request) -> Preconditions:
        """Returns those that the fields of a request state; raises Problem if they cannot be read."""
        supplied: list[str | None] = []
        for name in ("if-match", "if-none-match"):
            value = ", ".join(request.headers.getlist(name)) or None
            if value is not None and value.strip() != "*" and not _tags(value):
                raise Problem(400, "invalid-precondition", f'{name} must be * or entity tags in quotes, such as "4f2a"')
            supplied.append(value)
        return cls(supplied[0], supplied[1], request.method in {"GET", "HEAD"})

    def check(self, tag: str | None) -> None:
        """Raises PreconditionFailed unless a change may be made of what has this tag; ``None``: it does not exist."""
        if self.match is not None and not _holds(self.match, tag, is_strong=True):
            raise _failed("if-match", tag)
        if not self.is_reading and self.none_match is not None and _holds(self.none_match, tag, is_strong=False):
            raise _failed("if-none-match", tag)

    def is_unchanged(self, tag: str) -> bool:
        """Returns whether the sender already has the version with this tag, so that the response is 304."""
        return self.none_match is not None and _holds(self.none_match, tag, is_strong=False)


def _tags(field: str) -> list[tuple[bool, str]]:
    """Returns the tags in a field, each with whether it is weak; none if the field cannot be read."""
    results: list[tuple[bool, str]] = []
    position = 0
    while position < len(field):
        item = _ITEM.match(field, position)
        if item is None:
            return []
        if item[2] is not None:
            results.append((item[1] is not None, item[2]))
        position = item.end()
    return results


def _holds(field: str, tag: str | None, *, is_strong: bool) -> bool:
    """Returns whether one of the tags in a field is this one. With a strong comparison weak tags equal none."""
    if tag is None:
        return False
    if field.strip() == "*":
        return True
    is_weak, opaque = tag.startswith("W/"), tag.removeprefix("W/")
    found = _tags(field)
    if is_strong:
        return not is_weak and (False, opaque) in found
    return any(value == opaque for _, value in found)


def _failed(name: str, tag: str | None) -> PreconditionFailed:
    now = "it does not exist" if tag is None else f"its tag is {tag}"
    return PreconditionFailed(f"{name} does not hold: {now}; nothing was changed", tag)


def _of_request(request: Request) -> Preconditions:
    return Preconditions.of(request)


Conditions = Annotated[Preconditions, Depends(_of_request)]
"""Parameter type: the preconditions of a request."""

NONE: Final = Preconditions()


class Locks:
    """Locks by name: between the check of a precondition and the change nobody else changes the same thing."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, *name: Hashable) -> AsyncIterator[None]:
        """Holds the lock of a name."""
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            yield


def answer_if_changed(conditions: Preconditions, tag: str, response: Response, make: Callable[[], Any]) -> Any:
    """Returns the body of a response with an entity tag, or a response without a body (304)."""
    conditions.check(tag)
    if conditions.is_unchanged(tag):
        return Response(status_code=304, headers={"ETag": tag})
    response.headers["ETag"] = tag
    return make()


def link_to_next(request: Request, response: Response, after: Sequence[tuple[str, object]]) -> None:
    """Adds the address of the next page to a response (RFC 8288)."""
    changed = {name for name, _ in after}
    query = [pair for pair in parse_qsl(request.url.query, keep_blank_values=True) if pair[0] not in changed]
    target = f"{request.url.path}?{urlencode([*query, *after])}"
    response.headers["Link"] = f'<{target}>; rel="next"'
