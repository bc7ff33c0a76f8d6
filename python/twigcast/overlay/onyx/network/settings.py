"""Bounds and times of the driver."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """How links are kept. The defaults suit brokers in different places of the world."""

    queue_bytes_max: int = 64 << 20
    """Bytes that wait for one neighbour; with more the link is broken off, and the protocol recovers."""

    queue_frames_max: int = 200_000
    """The same in frames."""

    stall_seconds: float = 10.0
    """A neighbour that takes nothing for so long is too slow, however little waits for it."""

    ping_seconds: float = 1.0
    """Between two pings of a neighbour."""

    keepalive_seconds: float = 3.0
    """A connection that is dead below is noticed after three times as long, however busy the two brokers are."""

    silence_seconds: float = 20.0
    """A neighbour of which nothing is heard for so long is gone, although its connection is there."""

    greeting_seconds: float = 5.0
    """How long a greeting may take, with the connection that it needs."""

    pause_seconds_min: float = 0.1
    """Between the first two attempts to reach a broker; the pause then doubles."""

    pause_seconds_max: float = 2.0
    """Between later ones."""

    refused_seconds: float = 10.0
    """After a refusal that will hardly change."""

    links_max: int = 256
    """Links at one time."""

    skew_seconds: float = 60.0
    """Clocks that are apart by more are told of."""

    cost_factor: float = 2.0
    """How many times longer or shorter a round trip must have become for the node to be told..."""

    cost_milliseconds: float = 5.0
    """... and by how many milliseconds at least..."""

    cost_seconds: float = 10.0
    """... and how long it is not told again: trees are not to change with every load."""
