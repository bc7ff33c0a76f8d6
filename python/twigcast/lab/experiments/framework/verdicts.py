"""Verdicts of stored results as a Markdown table, for the documentation.

`python -m twigcast.lab.experiments.framework.verdicts results/overlays docs/overlays/figures.md C- M-` renews the table
of a page, with the experiments whose ids begin so. A test holds the page equal to the results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twigcast.lab.experiments.framework import registry, store
from twigcast.lab.experiments.framework.model import Verdict
from twigcast.lab.experiments.framework.store import StoredRun

HEAD = ("figure", "scale", "claim", "verdict", "seen", "time (of the processor)")


def verdict_table(runs: Iterable[StoredRun], prefixes: Sequence[str]) -> list[str]:
    """Returns the lines of the table: a row for every claim, in order of id and scale.

    Args:
        runs: Stored runs.
        prefixes: Which: beginnings of ids.
    """
    chosen = sorted((run for run in runs if run.experiment.startswith(tuple(prefixes))), key=_order)
    lines = [_row(HEAD), _row(("---",) * len(HEAD))]
    for run in chosen:
        lines += [
            _row((run.experiment, run.scale, verdict.claim, _held(verdict), verdict.seen, _time(run.about)))
            for verdict in registry.experiment_by_id(run.experiment).judge(run.results, run.scale)
        ]
    return lines


def _held(verdict: Verdict) -> str:
    return f"{verdict.held} (ours)" if verdict.ours else verdict.held


def _time(about: Mapping[str, Any]) -> str:
    """By the clock and, where it is stored, of the processor: what other work beside it does not change."""
    clock = f"{about['seconds']:,.1f} s"
    return f"{clock} ({about['processor_seconds']:,.1f} s)" if about.get("processor_seconds") else clock


def _order(run: StoredRun) -> tuple[str, str]:
    return run.experiment, run.scale


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def renewed(page: str, table: Sequence[str]) -> str:
    """Returns a page with its table of verdicts replaced.

    Raises:
        ValueError: There is none.
    """
    lines = page.split("\n")
    first = lines.index(table[0])
    end = next((number for number in range(first, len(lines)) if not lines[number].startswith("|")), len(lines))
    return "\n".join([*lines[:first], *table, *lines[end:]])


def main(folder: Path, page: Path, prefixes: Sequence[str]) -> None:
    """Renews the table of a page from a folder of results."""
    table = verdict_table(store.load_all(folder), prefixes)
    page.write_text(renewed(page.read_text(encoding="utf-8"), table), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
