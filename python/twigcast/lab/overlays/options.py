"""The options of simulated networks: one dataclass and one row of `PROTOCOLS` for each protocol.

`twigcast overlay simulate` makes a command of each row, and the options of the command of the fields of its dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import typer

Nodes = Annotated[int, typer.Option("--nodes", "-n", help="How many nodes.")]


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """The options of every simulated network."""

    nodes: Nodes = 100
    crashes: Annotated[int, typer.Option(help="Nodes that crash during the run.")] = 0
    loss: Annotated[float, typer.Option(help="Probability that the network loses a message.")] = 0.0
    seed: Annotated[int, typer.Option(help="The same seed gives the same run, message for message.")] = 0
    journal: Annotated[
        bool, typer.Option("--journal", help="Write every message to journal.jsonl in the output folder.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class ChordOptions(SimulationOptions):
    """A distributed automaton on a ring. With crashes or loss, at least three peers hold each state."""

    queries: Annotated[int, typer.Option(help="Subscriptions.")] = 200
    publications: Annotated[int, typer.Option(help="Messages.")] = 20
    virtual_nodes: Annotated[int, typer.Option(help="Positions of each peer on the ring.")] = 1
    levels: Annotated[int, typer.Option(help="Symbols a peer consumes by itself (the paper's l).")] = 0
    replicas: Annotated[int, typer.Option(help="Peers that hold each state; at least 3 with crashes or loss.")] = 1
    shedding: Annotated[bool, typer.Option("--shedding", help="Replicate hot states.")] = False


@dataclass(frozen=True, kw_only=True)
class CoddOptions(SimulationOptions):
    """A cooperative tree; `nodes` are those besides the producer."""

    documents: Annotated[int, typer.Option(help="Length of the stream.")] = 500
    fan_out: Annotated[int, typer.Option(help="Most children of a node.")] = 6
    reorganise: Annotated[bool, typer.Option(help="Move subtrees to better places.")] = True
    reorganise_after: Annotated[int, typer.Option(help="Documents between two requests of a node.")] = 200


@dataclass(frozen=True, kw_only=True)
class OnyxOptions(SimulationOptions):
    """A network of brokers that route by content. Those that crash start again."""

    nodes: Nodes = 30
    queries: Annotated[int, typer.Option(help="Subscriptions.")] = 1_000
    publications: Annotated[int, typer.Option(help="Messages.")] = 200
    sources: Annotated[int, typer.Option(help="Brokers at which they are published.")] = 5
    locality: Annotated[
        float, typer.Option(help="Share of the subscriptions that are interested in nearby sources.")
    ] = 0.5
    churn: Annotated[float, typer.Option(help="Share of the subscriptions that are replaced during the run.")] = 0.0
    cuts: Annotated[int, typer.Option(help="Links that are cut for a while.")] = 0
    shared_tree: Annotated[bool, typer.Option("--shared-tree", help="One tree for all sources.")] = False


class SimulatedProtocol(NamedTuple):
    """A row of the table of protocols.

    The function `simulate` of `twigcast.lab.overlays.<name>.simulate` takes the options. It is imported when it is
    called, so that the command line shows its help without the simulator.

    Attributes:
        options: The class of its options.
        summary: The help of its command.
    """

    options: type[SimulationOptions]
    summary: str


PROTOCOLS = {
    "chord": SimulatedProtocol(ChordOptions, "The filtering automaton on a Chord ring."),
    "codd": SimulatedProtocol(CoddOptions, "Cooperative dissemination trees."),
    "onyx": SimulatedProtocol(OnyxOptions, "Brokers that route by content."),
}
"""The protocols that can be simulated, by name."""
