"""Finds comments of XQuery, which may be nested."""

from __future__ import annotations

import re
from typing import Final

_MARK: Final = re.compile(r"\(:|:\)")


def end_of_comment(text: str, start: int) -> int | None:
    """Returns the end of the comment that begins at ``start``; ``None`` if it is not closed."""
    depth = 0
    for mark in _MARK.finditer(text, start):
        depth += 1 if mark.group() == "(:" else -1
        if not depth:
            return mark.end()
    return None
