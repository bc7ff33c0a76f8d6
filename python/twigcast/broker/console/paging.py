"""Pages of long lists: the first or last entry of a page determines the next page in either direction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from twigcast.broker.console.forms import FormFields

T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list."""

    items: list[T]
    is_first: bool
    has_next: bool


async def turn(
    size: int, past: P | None, back: P | None, read: Callable[[P | None, P | None, int], Awaitable[list[T]]]
) -> Page[T]:
    """Returns the page after one entry, or the one before another; without either, the first.

    Args:
        size: Entries of a page.
        past: Last entry of the page before.
        back: First entry of the page after.
        read: Reads so many entries after the first position, in order, or before the second one, in reverse order.
    """
    if back is not None:
        results = await read(None, back, size + 1)
        if len(results) > size:
            return Page(results[:size][::-1], is_first=False, has_next=True)
        # Less than a page is left: that is the first one.
        past = None
    results = await read(past, None, size + 1)
    return Page(results[:size], is_first=past is None, has_next=len(results) > size)


def positions(form: FormFields) -> tuple[int | None, int | None]:
    """Returns the positions in a form for a list whose newest entry comes first: before one entry, or after one."""
    return form.number("before", 0) or None, form.number("after", 0) or None
