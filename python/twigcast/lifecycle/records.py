"""Writes and reads chains as JSON, and states as files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twigcast.errors import OutputError, SnapshotError
from twigcast.lifecycle.chains import Chain, ChainMember, ChainState, Effect


def chain_record(chain: Chain[Any]) -> dict[str, Any]:
    """Returns a chain as JSON can hold it."""
    return {
        "members": [[one.identity, one.version, one.effect.value, one.at, one.handle] for one in chain.members],
        "names": list(chain.names),
        "referred": list(chain.referred),
        "inside": sorted(chain.inside),
        "outside": sorted(chain.outside),
        "state": chain.state.value,
        "expires": chain.expires,
        "touched": chain.touched,
    }


def read_chain(record: Mapping[str, Any]) -> Chain[Any]:
    """Returns a chain from what :func:`chain_record` made of it."""
    return Chain(
        tuple(ChainMember(i, v, Effect(effect), at, handle) for i, v, effect, at, handle in record["members"]),
        tuple(record["names"]),
        tuple(record["referred"]),
        frozenset(record["inside"]),
        frozenset(record["outside"]),
        ChainState(record["state"]),
        record["expires"],
        record["touched"],
    )


@contextmanager
def read_state(path: str | os.PathLike[str], format_: int, name: str) -> Iterator[dict[str, Any]]:
    """Yields the state that :func:`write_state` wrote to a file; `name` is what it should hold, as errors call it.

    Raises:
        SnapshotError: The file cannot be read, is of a later version, or turns out to be damaged while it is used.
    """
    try:
        state = json.loads(Path(path).read_bytes())
        if state["format"] != format_:
            raise SnapshotError(str(path), f"its format {state['format']} is not that of this version, {format_}")
        yield state
    except OSError as error:
        raise SnapshotError(str(path), f"it cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotError(str(path), f"it holds no {name}: {error!r}") from error


def write_state(path: str | os.PathLike[str], state: Mapping[str, Any], name: str) -> None:
    """Writes a state as JSON to a file, at once or not at all.

    Raises:
        OutputError: The file cannot be written; `name` is what it was to hold, as the error calls it.
    """
    target = Path(path)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            json.dump(state, file, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OutputError(str(path), f"{name} cannot be written: {error.strerror}") from error
