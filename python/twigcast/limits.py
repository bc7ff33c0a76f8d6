"""Limits that keep hostile messages and queries from exhausting a machine."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one subscription set. Each names itself in the error that is raised when it is reached.

    The defaults suit feeds of news, alerts and business documents.
    """

    message_bytes_max: int = 256 << 20
    """Bytes of one message; at most 4 GiB - 2."""

    depth_max: int = 2_000
    """Elements open at one time."""

    attributes_max: int = 10_000
    """Attributes and namespace declarations of one start tag."""

    query_bytes_max: int = 1_000_000
    """Bytes of one query's text, as UTF-8."""

    query_steps_max: int = 1_000
    """Steps of one query, nested paths included; a path that a list compares with many values counts once."""

    query_nesting_max: int = 100
    """Nesting of brackets and parentheses in one query; at most 250."""

    cache_bytes_max: int = 64 << 20
    """Bytes that lazily built automata and memo tables may take, per matching thread."""

    query_visits_max: int = 10_000_000
    """Visits of one query in one message where it is evaluated by itself; what the message's size adds to
    ``message_visits_max`` comes on top."""

    message_visits_max: int = 10_000_000
    """What evaluating all queries may cost on one message, in visits of about 5 ns: nodes looked at, and texts in
    proportion to their length. 128 for each node of the message and 32 for each 64 bytes of it come on top. Queries
    that are looked up by a value cost next to nothing."""

    group_visits_max: int = 10_000_000
    """The same for the queries of one group of subscriptions, of those that need turns of their own."""

    overruns_max: int = 3
    """Messages on which a subscription may overrun before it is set aside for some messages; 0: it never is."""

    result_bytes_max: int = 256 << 20
    """Bytes of one For-Where-Return result."""

    message_result_bytes_max: int = 1 << 30
    """Bytes of the different For-Where-Return results of one message together."""

    def __post_init__(self) -> None:
        for name, value in self.as_dict().items():
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be a whole number, not {value!r}")
            floor = _FLOORS.get(name, 1)
            if value < floor:
                raise ValueError(f"{name} must be at least {floor}, not {value}")
            ceiling = _CEILINGS.get(name, _LARGEST)
            if value > ceiling:
                raise ValueError(f"{name} must be at most {ceiling:,}, not {value:,}")

    def as_dict(self) -> dict[str, int]:
        """Returns the limits by name."""
        return asdict(self)


MESSAGE_BYTES_CEILING = (1 << 32) - 2
"""Largest value of ``message_bytes_max``: the engine keeps 32-bit offsets."""

QUERY_NESTING_CEILING = 250
"""Largest value of ``query_nesting_max``: queries are read and evaluated by recursion, on stacks of threads."""

_CEILINGS = {"message_bytes_max": MESSAGE_BYTES_CEILING, "query_nesting_max": QUERY_NESTING_CEILING}

_FLOORS = {"overruns_max": 0}

_LARGEST = (1 << 63) - 1
"""Largest value of the other limits."""
