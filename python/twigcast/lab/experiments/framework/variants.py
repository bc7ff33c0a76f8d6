"""Some experiments again with the real NITF DTD and documents, where the user has them.

The folder holds ``nitf-2-5.dtd`` and ``nitf-500.tar.gz``, the benchmark documents of the YFilter release. They are not
part of Twigcast; ``--nitf FOLDER`` or the environment variable ``TWIGCAST_NITF`` says where they are.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from twigcast.lab.experiments.framework.model import Experiment, Point, Scale

SUFFIX = "@nitf"
DTD = "nitf-2-5.dtd"
ARCHIVE = "nitf-500.tar.gz"

DOCUMENTS_OF_BENCHMARK = ("D-F4.6", "D-F5.8")
"""Without value predicates and at the depth of the benchmark documents, these can use the documents themselves."""
DTD_ONLY = ("D-T3", "D-T4", "D-F4.13", "D-F5.4", "D-F7.5", "D-F7.6", "B-F4.6")
"""These make their messages from the real DTD."""
ON_NITF = (*DOCUMENTS_OF_BENCHMARK, *DTD_ONLY)


def find_nitf(supplied: Path | None = None) -> Path | None:
    """Finds the folder with the real DTD and documents: as passed, by the environment, or beside the working folder."""
    named = os.environ.get("TWIGCAST_NITF")
    candidates = [supplied] if supplied else [Path(named)] if named else [Path("../shared/data/nitf")]
    return next((folder.resolve() for folder in candidates if (folder / DTD).is_file()), None)


def on_nitf(experiment: Experiment, folder: Path) -> Experiment:
    """Returns the experiment with the real DTD, and if possible with the real documents."""
    archive = folder / ARCHIVE
    messages = {"messages": str(archive)} if experiment.id in DOCUMENTS_OF_BENCHMARK and archive.is_file() else {}

    def real(point: Point) -> Point:
        return Point(point.x, {**point.parameters, "dtd": str(folder / DTD), "like": "news", **messages})

    sweep: dict[Scale, list[Point]] = {scale: list(map(real, points)) for scale, points in experiment.sweep.items()}
    return replace(renamed(experiment), sweep=sweep)


def renamed(experiment: Experiment) -> Experiment:
    """Returns the experiment under the name of its variant, to show stored results."""
    documents = "the benchmark documents" if experiment.id in DOCUMENTS_OF_BENCHMARK else "messages made from it"
    return replace(
        experiment,
        id=experiment.id + SUFFIX,
        title=f"{experiment.title} (real NITF)",
        notes=f"With the real NITF 2.5 DTD and {documents}. {experiment.notes}".strip(),
    )
