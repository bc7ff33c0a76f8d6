"""Raw results as Parquet: one file per experiment and scale, a row per (series, x, metric) with all samples."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from twigcast.lab.experiments.framework.model import Measured, Results, Scale

SCHEMA = pa.schema(
    [
        ("series", pa.string()),
        ("x", pa.string()),
        ("metric", pa.string()),
        ("samples", pa.list_(pa.float64())),
    ]
)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run of an experiment, as stored."""

    experiment: str
    scale: Scale
    results: Results
    about: Mapping[str, Any]
    """When, where and how: time, machine, versions, seconds, points."""


def save(folder: Path, experiment: str, scale: Scale, measured: list[Measured], about: Mapping[str, Any]) -> Path:
    """Writes one run. An older one of the same experiment and scale is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "series": [m.series for m in measured],
            "x": [json.dumps(m.x) for m in measured],
            "metric": [m.metric for m in measured],
            "samples": [list(m.samples) for m in measured],
        },
        schema=SCHEMA,
    )
    described = {"experiment": experiment, "scale": scale, **machine(), **about}
    table = table.replace_schema_metadata({"twigcast": json.dumps(described)})
    path = folder / f"{experiment}.{scale}.parquet"
    pq.write_table(table, path)
    return path


def load(path: Path) -> StoredRun:
    """Reads one run."""
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[b"twigcast"])
    rows = table.to_pylist()
    measured = [Measured(r["series"], json.loads(r["x"]), r["metric"], tuple(r["samples"])) for r in rows]
    return StoredRun(about.pop("experiment"), about.pop("scale"), Results(measured), about)


def load_all(folder: Path) -> list[StoredRun]:
    """Reads all runs in a folder."""
    return [load(path) for path in sorted(folder.glob("*.parquet"))]


def machine() -> dict[str, str]:
    """Describes the machine of a run."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.release()}, {_processor()}",
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
