"""``twigcast overlay simulate onyx``: brokers that route by content, and their measures."""

from __future__ import annotations

from twigcast.lab.overlays.draw import draw_load
from twigcast.lab.overlays.onyx.simulation import OnyxShape, OnyxSimulation
from twigcast.lab.overlays.options import OnyxOptions
from twigcast.lab.overlays.simulations import Report, RunClock, check_counts
from twigcast.overlay.errors import ImpossibleSetting


def simulate(options: OnyxOptions) -> Report:
    """Simulates brokers that route by content: subscriptions change, sources publish, brokers crash, links are cut.

    Raises:
        ImpossibleSetting: A number makes no sense.
    """
    check_counts(options, queries=options.queries, publications=options.publications)
    if options.nodes < 2:
        raise ImpossibleSetting("nodes", options.nodes, "at least 2")
    for name, share in (("locality", options.locality), ("churn", options.churn)):
        if not 0 <= share <= 1:
            raise ImpossibleSetting(name, share, "between 0 and 1")
    if options.sources < 1:
        raise ImpossibleSetting("sources", options.sources, "at least 1")
    watch = RunClock()
    shape = OnyxShape(
        options.nodes,
        options.queries,
        options.publications,
        options.sources,
        options.locality,
        options.churn,
        options.crashes,
        options.cuts,
        options.loss,
        options.shared_tree,
        seed=options.seed,
    )
    simulation = OnyxSimulation(shape, keep_journal=options.journal)
    outcome = simulation.run()
    report = Report(simulation.measures(), journal=simulation.network.simulator.journal if options.journal else None)
    for traffic, count in sorted(simulation.network.simulator.counters.by_traffic().items()):
        report.measures[f"messages, {traffic}"] = count
    tables = [float(size) for size in outcome.tables]
    report.drawings = {
        "flows.svg": simulation.map_of_flows(),
        "tables.svg": draw_load({"conjunctions": tables or [0.0]}, title="Routing tables", unit="conjunctions"),
    }
    watch.note(report, simulation.network.simulator.counters.events, options.nodes)
    return report
