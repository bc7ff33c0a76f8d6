"""Table 5: how long it takes to insert 1000 queries, by the number of queries that are there."""

from twigcast.lab.experiments.framework.claims import custom, near, rises
from twigcast.lab.experiments.framework.matchers import YFILTER, with_engine
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results
from twigcast.lab.experiments.framework.timing import REPETITIONS, clock
from twigcast.lab.experiments.framework.workloads import path_workload, sweep

INSERT = "insert_ms"
NEW_STATES = "new states per 1,000"
BATCH = 1_000


def measure(point: Point) -> list[Measured]:
    """Builds the population, then inserts as many batches as there are repetitions."""
    existing = point.parameters["existing"]
    texts = path_workload({**point.parameters, "queries": existing + BATCH * REPETITIONS})
    rows = []
    for contender in with_engine((YFILTER,)):
        matcher = contender.make()
        matcher.add_all({f"q{number}": text for number, text in enumerate(texts[:existing])})
        before = matcher.counters().get("states", 0.0)
        samples = []
        for start in range(existing, len(texts), BATCH):
            batch = {f"q{number}": texts[number] for number in range(start, start + BATCH)}
            started = clock()
            matcher.add_all(batch)
            samples.append((clock() - started) * 1000)
        grown = (matcher.counters().get("states", 0.0) - before) / REPETITIONS
        rows += [Measured(contender.name, point.x, INSERT, tuple(samples))]
        rows += [Measured(contender.name, point.x, NEW_STATES, (grown,))]
    return rows


LEVEL_FROM = 50_000
FELL = 77 / 5
"""From 2,000 queries to 60,000 and more."""


def _fall(results: Results) -> float:
    values = [value for _, value in results.curve("YFilter", INSERT)]
    return values[0] / values[-1]


def _levels_off(results: Results) -> tuple[bool, str]:
    """Highest time from 50,000 queries on ≤ 6 / 5 of the lowest."""
    values = [value for x, value in results.curve("YFilter", INSERT) if float(x) >= LEVEL_FROM]
    if len(values) < 2:
        return False, f"no two points from {LEVEL_FROM:,} on"
    return max(values) <= 6 / 5 * min(values), f"{min(values):.3g} to {max(values):.3g} ms from {LEVEL_FROM:,} on"


EXPERIMENTS = (
    Experiment(
        id="D-T5",
        title="Inserting 1,000 queries",
        source="Diao 2005, table 5",
        settings="NITF, D = 6, W = DS = 0.2, random queries; 2,000 to 500,000 queries are there already",
        dtd="news",
        sweep=sweep(
            {"dtd": "news", "depth": 6, "distinct": False},
            "existing",
            small=(2_000, 10_000, 30_000, 60_000),
            paper=(2_000, 4_000, 6_000, 8_000, 10_000, 50_000, 100_000, 300_000, 500_000),
        ),
        measure=measure,
        shows=Figure("queries that are there", "ms per 1,000 insertions", metric=INSERT),
        published="In ms, at 2,000, 4,000, ... 10,000 queries: 77, 57, 30, 24, 9; then 6, and about 5 from 60,000 on.",
        claims=(
            rises("The cost falls as queries are there", "YFilter", metric=INSERT, falls=True),
            near("It falls to a fifteenth (77 to 5 ms)", _fall, FELL).because(
                "Most of an insertion is parsing the query, in Python, which does not fall; the new states do."
            ),
            custom("It levels off: from 50,000 queries on it stays between 5 and 6 ms, a fifth apart", _levels_off)
            .because("A batch takes some twenty milliseconds, and what else the machine does is seen in it.")
            .at_position(100_000),
            rises(
                "A thousand queries add fewer new states",
                "YFilter",
                metric=NEW_STATES,
                falls=True,
            ).conjectured(),
        ),
        notes="The time includes parsing the query, which does not fall.",
    ),
)
