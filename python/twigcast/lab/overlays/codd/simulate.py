"""``twigcast overlay simulate codd``: a cooperative tree over drifting interests, and its measures."""

from __future__ import annotations

from twigcast.lab.overlays.codd.simulation import CoddSimulation
from twigcast.lab.overlays.draw import draw_load, draw_tree
from twigcast.lab.overlays.options import CoddOptions
from twigcast.lab.overlays.simulations import Report, RunClock, check_counts, check_crashes


def simulate(options: CoddOptions) -> Report:
    """Simulates a cooperative tree over drifting interests: nodes join, documents flow, subtrees move, nodes crash.

    Raises:
        ImpossibleSetting: A number makes no sense.
    """
    check_counts(options, documents=options.documents)
    check_crashes(options)
    watch = RunClock()
    simulation = CoddSimulation(
        options.nodes,
        fan_out=options.fan_out,
        reorganise=options.reorganise,
        reorganise_after=options.reorganise_after,
        robust=bool(options.crashes or options.loss),
        loss=options.loss,
        seed=options.seed,
        keep_journal=options.journal,
    )
    simulation.grow(options.documents)
    simulation.stream(options.crashes)
    measures = simulation.measures()
    report = Report(dict(measures), journal=simulation.run.simulator.journal if options.journal else None)
    parents, loads = simulation.tree()
    overheads = [load for load in loads.values() if load]
    report.drawings = {
        "tree.svg": draw_tree(parents, loads, root=0, title=f"{len(parents)} nodes"),
        "load.svg": draw_load({"overhead": overheads or [0.0]}, title="Overhead of the nodes", unit="overhead"),
    }
    watch.note(report, simulation.run.simulator.counters.events, options.nodes)
    return report
