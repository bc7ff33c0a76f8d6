"""Putting what is drawn into the pages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from twigcast.lab.reference.draw import comparison, paths, twigs

_DRAWN = re.compile(r"(<!-- drawn: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


@cache
def figures() -> dict[str, str]:
    """Returns everything that can be drawn: Markdown by name, pictures by file name."""
    return {**paths.figures(), **twigs.figures(), **comparison.figures()}


def redraw(folder: Path, *, write: bool) -> list[str]:
    """Updates the pages in a folder, and the pictures in its ``figures``.

    Args:
        folder: Where the pages are.
        write: Write what has changed; otherwise only find it.

    Returns:
        The names of the files that were not up to date.

    Raises:
        KeyError: A page refers to something that is not drawn.
    """
    drawn = figures()
    requested: dict[Path, str] = {
        folder / "figures" / name: text for name, text in drawn.items() if name.endswith(".svg")
    }
    for page in sorted(folder.glob("*.md")):
        requested[page] = _DRAWN.sub(
            lambda result: f"{result[1]}\n{drawn[result['name']]}\n\n{result[3]}", page.read_text(encoding="utf-8")
        )
    stale = [path for path, text in requested.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale if write else ():
        path.parent.mkdir(exist_ok=True)
        path.write_text(requested[path], encoding="utf-8")
    return [str(path.relative_to(folder)) for path in stale]
