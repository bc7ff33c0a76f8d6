"""Steps by which files get into a folder so that readers, and kills, find all or nothing.

What is to be added, or to take the place of something, is prepared in a hidden folder and put on disk. Then a record
that says what moves where is written in one atomic step. From here on it counts: the moves follow, and if the process
is killed before the last one, the next one to open the folder finishes them. A move is the renaming of a folder, which
readers see as a whole or not at all.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from twigcast.errors import OutputError

Move = tuple[str, str]
"""Where a folder was prepared, and where it goes; both below the folder."""

_REPLACED = ".replaced"


def sync(path: Path) -> None:
    """Puts a file, or the names in a folder, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Puts the names in a folder, and in all folders below it, on disk."""
    for path, _, _ in os.walk(folder):
        sync(Path(path))


def write_atomically(path: Path, value: Mapping[str, object], indent: int | None = 2) -> None:
    """Writes JSON so that readers see all of it or nothing, also after a power failure."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=indent)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync(path.parent)


def read_record(path: Path) -> Mapping[str, Any]:
    """Returns what :func:`write_atomically` wrote."""
    record: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def claim(marker: IO[str], mode: str) -> None:
    """Writes into the open marker of a folder how it is written to, if it is new.

    Raises:
        OutputError: The folder has been written to in another mode.
    """
    marker.seek(0)
    written = marker.read()
    if not written.endswith("\n"):  # new, or cut off by a kill
        marker.truncate(0)
        marker.write(json.dumps({"mode": mode}) + "\n")
        marker.flush()
    elif (mode_before := json.loads(written)["mode"]) != mode:
        folder = os.path.dirname(marker.name)  # noqa: PTH120 - as the path was joined
        raise OutputError(folder, f"the folder holds the results of a {mode_before} pipeline; choose another one")


def finish_moves(folder: Path, moves: Iterable[Move]) -> None:
    """Does the moves of a record that have not been done yet. What is in the way is kept beside what was prepared."""
    for prepared, final in moves:
        source, target = folder / prepared, folder / final
        if not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            target.rename(source.with_name(source.name + _REPLACED))
        source.rename(target)
        for around in target.relative_to(folder).parents:
            sync(folder / around)
