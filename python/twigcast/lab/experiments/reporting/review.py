"""Every statement that is judged, for review: where it stands in its source, the measure, the workload, the check.

`python -m twigcast.lab.experiments.reporting.review docs/how-to/claims.md` renews the tables of a page, one for each
publication. A test holds the page equal to the registry.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from twigcast.lab.experiments.framework import registry
from twigcast.lab.experiments.framework.model import Claim, Experiment, Figure

MARK = "<!-- all statements, renewed by twigcast.lab.experiments.reporting.review -->"
_HEAD = ("statement as judged", "check", "where the source sees it")


def review(experiments: Iterable[Experiment]) -> list[str]:
    """Returns the lines of a page: for each experiment what it measures and on what, and a row for each statement."""
    lines: list[str] = []
    for experiment in experiments:
        lines += [
            f"### {experiment.id}: {experiment.title}",
            "",
            f"{experiment.source}{' (not published)' if experiment.ours else ''}. *Published:* {experiment.published}",
            "",
            f"*Measure:* {_measure(experiment)}. *Workload:* {experiment.settings.rstrip('.')}.",
            "",
            _row(_HEAD),
            _row(("---",) * len(_HEAD)),
            *(_row((_text(experiment, claim), claim.rule, _where(claim))) for claim in experiment.claims),
            "",
        ]
    return lines


def _measure(experiment: Experiment) -> str:
    shows = experiment.shows
    if isinstance(shows, Figure):
        return f"{shows.y_label} (`{shows.metric}`) over {shows.x_label}"
    return ", ".join(f"{title} (`{metric}`)" for metric, title in shows.columns.items())


def _text(experiment: Experiment, claim: Claim) -> str:
    return f"{claim.text} (ours)" if claim.ours or experiment.ours else claim.text


def _where(claim: Claim) -> str:
    places = [f"x = {claim.position:,g}"] if claim.position is not None else []
    places += [f"{claim.size[1]:,g} {claim.size[0]}"] if claim.size is not None else []
    return ", ".join(places)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def renewed(page: str) -> str:
    """Returns a page with everything after the mark replaced.

    Raises:
        ValueError: It has no mark.
    """
    before, mark, _ = page.partition(MARK)
    if not mark:
        raise ValueError(f"the page has no line {MARK}")
    return "\n".join([f"{before}{MARK}", "", *review(registry.experiments())]).rstrip("\n") + "\n"


def main(page: Path) -> None:
    """Renews a page."""
    page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
