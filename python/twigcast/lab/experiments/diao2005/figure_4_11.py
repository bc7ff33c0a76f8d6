"""Figure 4.11: path matching against the depth of messages and queries."""

from twigcast.lab.experiments.diao2005.filtering import measuring
from twigcast.lab.experiments.framework.claims import custom, near, not_exponential, ordered, rises
from twigcast.lab.experiments.framework.matchers import HYBRID, XFILTER, YFILTER
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results
from twigcast.lab.experiments.framework.workloads import message_workload, sweep
from twigcast.lab.reference.events import StartElement, read_events

LENGTH = "elements"
"""Elements per message."""
_measured = measuring(YFILTER, HYBRID, XFILTER)


def measure(point: Point) -> list[Measured]:
    """Measures one depth, and how long messages are at it."""
    messages = message_workload(point.parameters)
    starts = sum(isinstance(event, StartElement) for message in messages for event in read_events(message))
    return [*_measured(point), Measured("YFilter", point.x, LENGTH, (starts / len(messages),))]


def _grown(results: Results, metric: str) -> float:
    return results.value("YFilter", 10, metric) / results.value("YFilter", 6, metric)


def _faster_than_length(results: Results) -> tuple[bool, str]:
    """From D = 6 to 10, factor of transitions > factor of elements per message."""
    transitions, length = _grown(results, "transitions"), _grown(results, LENGTH)
    return transitions > length, f"transitions {transitions:.2g} times, elements per message {length:.2g} times"


FEW_MESSAGES = (
    "Four messages have lengths that jump from depth to depth, and time follows them: such a curve is near neither "
    "line. The source averages over 200."
)


EXPERIMENTS = (
    Experiment(
        id="D-F4.11",
        title="Path matching against depth",
        source="Diao 2005, figure 4.11",
        settings="NITF, 50,000 distinct queries, W = DS = 0.2; maximum depth of messages and queries from 6 to 10",
        dtd="news",
        sweep=sweep(
            {"dtd": "news", "queries": 50_000},
            "depth",
            small=(6, 7, 8, 9, 10),
            paper=(6, 7, 8, 9, 10),
            small_parameters={"queries": 4_000},
        ),
        measure=measure,
        shows=Figure("maximum depth of messages and queries"),
        published="All grow. YFilter grows linearly: transitions 5.9 times from D = 6 to 10, length of messages 3.5 "
        "times.",
        claims=(
            rises("YFilter grows with depth", "YFilter"),
            rises("XFilter grows with depth", "XFilter (List Balance)"),
            not_exponential("YFilter's time grows linearly, not exponentially", ["YFilter"])
            .because(FEW_MESSAGES)
            .at_size("documents", 200),
            not_exponential("So do its transitions", ["YFilter"], metric="transitions")
            .because(FEW_MESSAGES)
            .at_size("documents", 200),
            custom("Its transitions grow by more than the length of messages", _faster_than_length).at_size(
                "queries", 50_000
            ),
            near("Its transitions grow 5.9 times", lambda results: _grown(results, "transitions"), 5.9).at_size(
                "queries", 50_000
            ),
            ordered("YFilter is fastest at depth 10", ("YFilter", "Hybrid", "XFilter (List Balance)"))
            .because(
                "With 4,000 queries there is no gain to see: at this depth YFilter follows more transitions than "
                "Hybrid, and one costs more in Python. Hybrid's and XFilter's work grows with the queries, YFilter's "
                "hardly."
            )
            .at_size("queries", 50_000),
        ),
    ),
)
