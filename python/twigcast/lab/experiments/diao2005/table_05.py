"""Table 5: how long it takes to insert 1000 queries, by the number of queries that are there."""

from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.matchers import YFILTER, with_engine
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results
from twigcast.lab.experiments.framework.timing import REPETITIONS, clock
from twigcast.lab.experiments.framework.workloads import path_workload, sweep

INSERT = "insert_ms"
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
        rows += [Measured(contender.name, point.x, "new states per 1,000", (grown,))]
    return rows


def _independent(results: Results) -> tuple[bool, str]:
    values = [value for _, value in results.curve("YFilter", INSERT)]
    return values[-1] <= 1.25 * values[0], f"{values[0]:.3g} ms at first, {values[-1]:.3g} ms at last"


def _fewer_states(results: Results) -> tuple[bool, str]:
    values = [value for _, value in results.curve("YFilter", "new states per 1,000")]
    return values[-1] < values[0], f"new states per 1,000 queries: {values[0]:,.0f} at first, {values[-1]:,.0f} at last"


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
            custom("The cost does not grow with the population", _independent),
            custom("It falls, since more and more paths are there already", _fewer_states),
        ),
        notes="The time includes parsing the query, which does not fall.",
    ),
)
