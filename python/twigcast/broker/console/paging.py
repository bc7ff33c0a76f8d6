"""Pages of long lists: the place where one begins or ends is all that the next one needs to know, either way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from twigcast.broker.console.forms import FormFields

T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """What a page shows."""

    items: list[T]
    is_first: bool
    has_next: bool


async def turn(
    size: int, past: P | None, back: P | None, read: Callable[[P | None, P | None, int], Awaitable[list[T]]]
) -> Page[T]:
    """The page that begins past a place, or that ends right before one; without either, the first.

    Args:
        size: Entries of a page.
        past: Where the page before ends.
        back: Where the page after begins.
        read: Reads so many entries past the first place, in order, or back from the second one, the other way round.
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
    """The places that a form names in a list whose newest entry comes first: before one, or after one."""
    return form.number("before", 0) or None, form.number("after", 0) or None
