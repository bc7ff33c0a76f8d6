"""Pages of items that may be large: bounded by their number, and by their bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_BYTES_MAX: Final = 16 << 20
"""A page ends when it has so many bytes, however short it is."""
_FIRST_STEP: Final = 8


def page(limit: int, read: Callable[[T | None, int], list[T]], size: Callable[[T], int]) -> tuple[list[T], bool]:
    """Returns a page, and whether there are more items behind it.

    Args:
        limit: The largest number of items.
        read: Reads so many items after one of them (``None``: from the start).
        size: Returns the bytes of an item.
    """
    results: list[T] = []
    total, step = 0, _FIRST_STEP
    while True:
        requested = min(step, limit - len(results))
        # One item more shows whether there is a next page.
        some = read(results[-1] if results else None, requested + 1)
        results += some[:requested]
        total += sum(map(size, some))
        if len(some) <= requested:
            return results, False
        if len(results) >= limit or total >= _BYTES_MAX:
            return results, True
        step *= 2
