"""Builds the workload of a point from its parameters, the same on every machine."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from twigcast.lab.experiments.framework.model import Point, Scale
from twigcast.lab.workload import DTD_NAMES, PRESETS, DocumentPreset, bundled_dtd, loosen, path_queries
from twigcast.lab.workload.errors import WorkloadError
from twigcast.schema import Schema, read_dtd

SEED = 2005

DOCUMENTS: Mapping[Scale, int] = {"small": 4, "paper": 200}
"""Messages per point; the publications average over 200."""

TRIES_PER_MESSAGE = 200
"""Messages made, at most, for each one whose size is asked for."""

Workload = tuple[list[str], list[bytes]]


def grid(parameters: Mapping[str, Any], vary: str, values: Iterable[Any], scale: Scale) -> list[Point]:
    """Returns a point per value of one parameter, which is also its x."""
    return [Point(value, {"documents": DOCUMENTS[scale], **parameters, vary: value}) for value in values]


def sweep(
    parameters: Mapping[str, Any],
    vary: str,
    *,
    small: Iterable[Any],
    paper: Iterable[Any],
    small_parameters: Mapping[str, Any] | None = None,
) -> dict[Scale, list[Point]]:
    """Returns the points of both scales. ``small_parameters`` replace some of the published ones at small scale."""
    return {
        "small": grid({**parameters, **(small_parameters or {})}, vary, small, "small"),
        "paper": grid(parameters, vary, paper, "paper"),
    }


def schema_of(dtd: str) -> Schema:
    """Returns a DTD that comes with Twigcast, by name, or one in a file."""
    return bundled_dtd(dtd) if dtd in DTD_NAMES else _read(dtd)


@lru_cache(maxsize=4)
def _read(path: str) -> Schema:
    return read_dtd(path)


def preset_of(parameters: Mapping[str, Any]) -> DocumentPreset:
    """Returns the document parameters of a point: those of the DTD's shape, with its own depth."""
    preset = PRESETS[parameters.get("like", parameters["dtd"])]
    if "max_repeats" in parameters:
        preset = replace(preset, max_repeats=parameters["max_repeats"])
    levels = parameters.get("message_levels", parameters.get("depth"))
    if levels is not None:
        preset = replace(preset, levels=levels)
    return replace(preset, max_value=parameters["max_value"]) if "max_value" in parameters else preset


def build(parameters: Mapping[str, Any]) -> Workload:
    """Makes the queries and messages of a point."""
    return path_workload(parameters), message_workload(parameters)


def path_workload(parameters: Mapping[str, Any]) -> list[str]:
    """Makes the path queries of a point.

    ``loosen`` is a pair (W, DS): a base set without ``*`` and ``//`` is made first and then loosened, as the tests of
    non-determinism do; more are made than requested, since some become equal.
    """
    schema = schema_of(parameters["dtd"])
    count = parameters["queries"]
    common: dict[str, Any] = {
        "depth": parameters.get("depth", 6),
        "predicates": parameters.get("predicates", 0),
        "nested": parameters.get("nested", 0),
        "nested_apart": parameters.get("nested_apart", False),
        "distinct": parameters.get("distinct", True),
        "domains": preset_of(parameters).domains(schema, SEED),
    }
    if "loosen" in parameters:
        wildcard, descendant = parameters["loosen"]
        base = path_queries(schema, count * 3, SEED, wildcard=0, descendant=0, **common)
        return loosen(base, SEED, wildcard=wildcard, descendant=descendant)[:count]
    wildcard, descendant = parameters.get("wildcard", 0.2), parameters.get("descendant", 0.2)
    return path_queries(schema, count, SEED, wildcard=wildcard, descendant=descendant, **common)


def message_workload(parameters: Mapping[str, Any]) -> list[bytes]:
    """Makes the messages of a point from the DTD, or takes the first of an archive (``messages``).

    ``message_bytes`` is a pair: only messages between these sizes are taken, the first ones.

    Raises:
        WorkloadError: So few of the messages have such a size that it is not worth making more.
    """
    count = parameters["documents"]
    if "messages" in parameters:
        return _from_archive(parameters["messages"], count)
    schema, preset = schema_of(parameters["dtd"]), preset_of(parameters)
    if "message_bytes" not in parameters:
        return list(preset.make(schema, count, SEED))
    least, most = parameters["message_bytes"]
    made = preset.make(schema, count * TRIES_PER_MESSAGE, SEED)
    taken = list(islice((message for message in made if least <= len(message) <= most), count))
    if len(taken) < count:
        raise WorkloadError(
            f"{len(taken)} of {count * TRIES_PER_MESSAGE:,} messages have {least:,} to {most:,} bytes, {count} are "
            "asked for: choose other sizes, or another number of repetitions (max_repeats)"
        )
    return taken


@lru_cache(maxsize=2)
def _from_archive(path: str, count: int) -> list[bytes]:
    messages: list[bytes] = []
    with tarfile.open(Path(path)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None and member.name.endswith(".xml"):
                messages.append(file.read())
            if len(messages) == count:
                break
    return messages
