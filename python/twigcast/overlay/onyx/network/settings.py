"""The bounds and times of the driver."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """The bounds and times of links. The defaults suit brokers on different continents."""

    #: Most bytes that wait for one neighbour. With more the link is closed, and the protocol recovers.
    queue_bytes_max: int = 64 << 20
    queue_frames_max: int = 200_000  #: Most frames that wait for one neighbour.
    #: Time after which a neighbour that takes nothing is too slow, however little waits for it.
    stall_seconds: float = 10.0
    ping_seconds: float = 1.0  #: Time between two pings of a neighbour.
    #: gRPC keepalive. A dead connection is noticed after three times as long, however busy the two brokers are.
    keepalive_seconds: float = 3.0
    #: Time after which a neighbour that sends nothing is gone, although the connection exists.
    silence_seconds: float = 20.0
    greeting_seconds: float = 5.0  #: Longest time for connection and greeting.
    pause_seconds_min: float = 0.1  #: Pause between the first two attempts to reach a broker; it then doubles.
    pause_seconds_max: float = 2.0  #: Longest pause between two attempts.
    refused_seconds: float = 10.0  #: Pause after a refusal that is likely to remain.
    links_max: int = 256  #: Most links at one time.
    skew_seconds: float = 60.0  #: Difference of clocks beyond which the operator is warned.
    cost_factor: float = 2.0  #: Least factor by which the round trip has changed when the node gets a new cost.
    cost_milliseconds: float = 5.0  #: Least change of the round trip, in milliseconds, for a new cost.
    cost_seconds: float = 10.0  #: Least time between two costs of one link, so that trees do not change with the load.
