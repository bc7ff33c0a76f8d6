"""What a simulated network is told: one dataclass for each kind, which is also the options of its command.

The fields of a class, with their defaults and help, are written down once: `twigcast overlay simulate` makes its
options of them (`twigcast.lab.overlays.commands`), and `twigcast.lab.overlays.simulate` takes the object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

Nodes = Annotated[int, typer.Option("--nodes", "-n", help="How many nodes.")]


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """What all kinds have in common."""

    nodes: Nodes = 100
    crashes: Annotated[int, typer.Option(help="Nodes that crash on the way.")] = 0
    loss: Annotated[float, typer.Option(help="Probability that the network loses a message.")] = 0.0
    seed: Annotated[int, typer.Option(help="The same seed gives the same run, message for message.")] = 0
    journal: Annotated[
        bool, typer.Option("--journal", help="Write every message to journal.jsonl in the output folder.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class ChordOptions(SimulationOptions):
    """The distributed automaton on a ring. With crashes or loss each state is held by three peers at least."""

    queries: Annotated[int, typer.Option(help="Subscriptions.")] = 200
    publications: Annotated[int, typer.Option(help="Messages.")] = 20
    virtual_nodes: Annotated[int, typer.Option(help="Places of each peer on the ring.")] = 1
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
    """Brokers that route by content; those that crash start again."""

    nodes: Nodes = 30
    queries: Annotated[int, typer.Option(help="Subscriptions.")] = 1_000
    publications: Annotated[int, typer.Option(help="Messages.")] = 200
    sources: Annotated[int, typer.Option(help="Brokers at which they are published.")] = 5
    locality: Annotated[float, typer.Option(help="Share of the wishes that are about what is near.")] = 0.5
    churn: Annotated[float, typer.Option(help="Share of the subscriptions that are replaced on the way.")] = 0.0
    cuts: Annotated[int, typer.Option(help="Links that are cut for a while.")] = 0
    shared_tree: Annotated[bool, typer.Option("--shared-tree", help="One tree for all sources.")] = False
