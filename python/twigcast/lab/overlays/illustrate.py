"""Draws the diagrams of the documentation: `python -m twigcast.lab.overlays.illustrate docs/overlays`.

A test draws them again and compares, so the pages show what the code does.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

from twigcast.lab.overlays.chord.build import build_ring
from twigcast.lab.overlays.chord.simulate import simulate as simulate_chord
from twigcast.lab.overlays.codd.interest import InterestModel, InterestShape
from twigcast.lab.overlays.codd.scenario import CoddRun, start_run
from twigcast.lab.overlays.draw import draw_load, draw_ring, draw_tree
from twigcast.lab.overlays.onyx.simulate import simulate as simulate_onyx
from twigcast.lab.overlays.options import ChordOptions, OnyxOptions
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.codd.settings import CoddSettings


def published_ring() -> str:
    """Draws the six peers of the worked example, and the fingers of peer 3."""
    positions = [3, 11, 22, 30, 41, 52]
    peers = build_ring(ChordSettings(bits=6), 6, positions)
    fingers = [(0, ref.address) for ref in peers[0].table.fingers]
    return draw_ring(
        [position / 64 for position in positions],
        [0.0, 3.0, 4.0, 0.0, 2.0, 0.0],
        fingers,
        title="Six peers on a circle of 64 positions, and the fingers of peer 3",
        labels=[str(position) for position in positions],
        unit="transitions stored",
    )


def filtering_load() -> dict[str, str]:
    """Draws the load of a ring of 32 peers under a small workload, and how virtual nodes spread it."""
    plain = simulate_chord(ChordOptions(nodes=32, queries=150, publications=10, seed=7))
    return {"ring.svg": plain.drawings["ring.svg"], "ring-load.svg": plain.drawings["load.svg"]}


def cooperative_tree(*, reorganise: bool) -> CoddRun:
    """Returns a tree of forty nodes after three thousand documents."""
    model = InterestModel(InterestShape(40, classes=8), 3)
    run = start_run(model, CoddSettings(fan_out=3, reorganise=reorganise, reorganise_after=30))
    items = model.items(3000)
    for address in range(1, 41):
        run.add(address, address - 1)
        run.simulator.run(until=run.simulator.now + 1)
        for item in islice(items, 1):
            run.publish(item)
    run.stream(items)
    return run


def cooperative_trees() -> dict[str, str]:
    """Draws one stream in two trees, with reorganisation and without, and the overhead of their nodes."""
    runs = {how: cooperative_tree(reorganise=how == "with") for how in ("without", "with")}
    overheads = {how: {node.address: node.overhead() for node in run.nodes} for how, run in runs.items()}
    most = max(max(loads.values()) for loads in overheads.values())
    drawn = {}
    for how, run in runs.items():
        mean = sum(overheads[how].values()) / len(run.nodes)
        drawn[f"tree-{how}.svg"] = draw_tree(
            {node.address: node.parent for node in run.nodes},
            overheads[how],
            root=0,
            title=f"40 nodes {how} reorganisation: mean overhead {mean:.0%}",
            unit="overhead",
            most=most,
        )
    curves = {f"{how} reorganisation": list(loads.values()) for how, loads in overheads.items()}
    drawn["tree-overhead.svg"] = draw_load(curves, title="Overhead of the 40 nodes", unit="overhead")
    return drawn


def broker_flows() -> dict[str, str]:
    """Draws thirty brokers on a map with one source, and the flow over each link, with local interests and without."""
    drawn = {}
    for name, locality in (("onyx-flows-local.svg", 1.0), ("onyx-flows-anywhere.svg", 0.0)):
        report = simulate_onyx(
            OnyxOptions(nodes=30, queries=150, publications=60, sources=1, locality=locality, seed=3)
        )
        drawn[name] = report.drawings["flows.svg"]
    return drawn


def drawings() -> dict[str, str]:
    """Returns all diagrams, by file name."""
    return {"published-ring.svg": published_ring(), **filtering_load(), **broker_flows(), **cooperative_trees()}


def main(folder: Path) -> None:
    """Writes all diagrams to a folder."""
    for name, drawing in drawings().items():
        (folder / name).write_text(drawing, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
