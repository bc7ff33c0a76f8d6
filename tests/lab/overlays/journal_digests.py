"""Prints the digests of the journals of small simulations: one line for each. Run in processes of their own."""

from __future__ import annotations

import dataclasses

from tests.lab.overlays.chord.test_chord_seeds import HARSH, RETURNING
from tests.lab.overlays.chord.test_chord_seeds import run as run_ring
from tests.lab.overlays.codd.test_codd_seeds import run_twigs
from twigcast.lab.overlays.onyx.simulation import OnyxShape, OnyxSimulation

ONYX = {
    "plain": {},
    "faulty": {"churn": 0.3, "crashes": 3, "cuts": 3, "loss": 0.03},
    "reducing": {"rewriting": True, "reducing": True},
    "shared": {"branching": 0.5, "shared_tree": True},
}


def main() -> None:
    """Prints all digests."""
    for name, options in ONYX.items():
        shape = dataclasses.replace(OnyxShape(brokers=12, queries=120, publications=20), **options)  # type: ignore[arg-type]
        simulation = OnyxSimulation(shape, keep_journal=True)
        simulation.run()
        print(name, simulation.network.simulator.journal.digest())
    for seed in (1, 2):
        print("ring", run_ring(seed, HARSH, RETURNING)[0].simulator.journal.digest())
        print("tree", run_twigs(seed, HARSH)[0].simulator.journal.digest())


if __name__ == "__main__":
    main()
