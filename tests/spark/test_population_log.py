"""Versions of a population: what a micro-batch gets is what a model has at that version, whatever happened between."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.seeds import printed_seed
from twigcast import Limits
from twigcast.engine.session import EngineSession
from twigcast.errors import OutputError, PipelineError
from twigcast.spark import population_log, snapshots
from twigcast.spark.living import LivingPopulation
from twigcast.spark.population_log import PopulationLog, PopulationState, SourcePosition
from twigcast.spark.snapshots import Snapshot, load_session

KEYS = [f"k{n}" for n in range(12)]
RUN_SECONDS = 60
Change = dict[str, Any]


@pytest.fixture(autouse=True)
def _new_worker() -> Iterator[None]:
    """Each test is a worker of its own."""
    snapshots._living.clear()
    yield
    snapshots._living.clear()


def in_worker(state: PopulationState) -> dict[str, str]:
    """The queries by key that a worker has at a version."""
    path = os.fspath(state.base_path)
    snapshot = Snapshot(f"{state.version}", path, state.subscriptions, Limits(), living=state)
    engine = load_session(snapshot).engine
    keys = {key for key in engine.key_table().arrow().to_pylist() if key is not None and key in engine}
    assert len(keys) == state.subscriptions
    return {key: stored.query for key in keys if (stored := engine.query(key)) is not None}


def put(key: str, query: str, **others: Any) -> Change:
    return {"op": "put", "key": key, "query": query, **others}


def remove(key: str) -> Change:
    return {"op": "remove", "key": key}


def random_change(source: random.Random, number: int) -> Change:
    key = source.choice(KEYS)
    if source.random() < 0.25:
        return remove(key)
    bad = source.random() < 0.15
    return put(key, f"/m[@n = {number}" + ("" if bad else "]"))


def applied(model: dict[str, str], change: Change) -> dict[str, str]:
    """The model after a change; it refuses queries without a bracket."""
    after = dict(model)
    if change["op"] == "remove":
        after.pop(change["key"], None)
    elif change["query"].endswith("]"):
        after[change["key"]] = change["query"]
    return after


def test_workers_have_what_the_model_has_at_each_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(printed_seed())
    monkeypatch.setattr(population_log, "_DELTAS_BYTES_MIN", 2_000)
    monkeypatch.setattr(population_log, "_DELTA_BYTES_MAX", 600)
    log = PopulationLog(tmp_path)
    models: dict[int, dict[str, str]] = {0: {}}
    tied: dict[str, tuple[int, int]] = {}
    refused = 0
    for step in range(150):
        model = models[log.version]
        changes = [random_change(source, step * 100 + n) for n in range(source.choice([0, 1, 1, 3, 20]))]
        for change in changes:
            model = applied(model, change)
            refused += change["op"] == "put" and not change["query"].endswith("]")
        models[log.apply(changes)] = model
        stream = source.choice("ab")
        last, version = tied.get(stream, (-1, 0))
        batch = last if last >= 0 and source.random() < 0.3 else last + 1
        got = log.version_of(stream, batch)
        assert got == (version if batch == last else log.version)
        tied[stream] = batch, got
        assert in_worker(log.state(got)) == models[got]
        if source.random() < 0.1:
            snapshots._living.clear()
        if source.random() < 0.1:
            log.close()
            log = PopulationLog(tmp_path)
            assert len(log) == len(models[log.version])
    assert log.version > 50
    assert sum(pq.read_metadata(path).num_rows for path in (tmp_path / "refused").glob("*.parquet")) == refused > 0
    assert len(list((tmp_path / "bases").iterdir())) < 6
    log.close()


def test_a_refused_change_keeps_the_query_and_is_kept_with_its_error(tmp_path: Path) -> None:
    with LivingPopulation(tmp_path) as population:
        population.change([put("a", "/a"), put("b", "/b")])
        version = population.change([put("a", "/a["), {"op": "raise", "key": "b"}, put("c", "/c")])
        assert in_worker(population.state()) == {"a": "/a", "b": "/b", "c": "/c"}
    row_b, row_a = pq.read_table(tmp_path / "refused" / f"{version:012d}.parquet").to_pylist()
    assert (row_a["key"], row_a["query"], row_a["population_version"]) == ("a", "/a[", 2)
    assert "expected" in row_a["error"]
    assert "there is no operation 'raise'" in row_b["error"]


def test_one_change_is_applied_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    load = EngineSession.load

    def counted(path: str, limits: Limits) -> EngineSession:
        loads.append(path)
        return load(path, limits)

    with LivingPopulation(tmp_path) as population:
        population.load([{"key": f"k{n}", "query": f"/m[@n = {n}]"} for n in range(500)])
        assert len(in_worker(population.state())) == 500
        for number in range(20):
            population.change([put("k7", f"/m[@n = -{number}]")])
            with monkeypatch.context() as worker:
                worker.setattr(EngineSession, "load", counted)
                assert in_worker(population.state())["k7"] == f"/m[@n = -{number}]"
    assert loads == []


def test_a_table_is_loaded_as_its_differences(tmp_path: Path) -> None:
    file = tmp_path / "rules.jsonl"
    with LivingPopulation(tmp_path / "log", namespaces={"p": "urn:p"}) as population:
        file.write_text('{"key": "a", "query": "/p:a"}\n{"key": "b", "query": "/b"}\n{"key": "c", "query": "/c"}\n')
        assert population.load(file) == 1
        assert population.load(file) == 1
        file.write_text('{"key": "a", "query": "/p:a"}\n{"key": "b", "query": "/b["}\n{"key": "d", "query": "/d"}\n')
        population.load(file)
        assert in_worker(population.state()) == {"a": "/p:a", "b": "/b", "d": "/d"}
        changed = [row[0] for row in json.loads(population.state().deltas[-1][1])]
        assert changed == ["d", "c"]
        # What the broken line said is not known: nothing is removed.
        file.write_text('{"key": "a", "query": "/a2"}\n{"key": "b", "qu\n')
        population.load(file)
        assert in_worker(population.state()) == {"a": "/a2", "b": "/b", "d": "/d"}
    assert len(list((tmp_path / "log" / "refused").glob("*.parquet"))) == 2


def test_parameters_and_namespaces_reach_workers(tmp_path: Path) -> None:
    with LivingPopulation(tmp_path) as population:
        population.change([put("a", "/p:m[@n = $n]", namespaces={"p": "urn:p"}, params={"n": ["1", "2"]}, group="g")])
        snapshot = Snapshot("1", os.fspath(population.state().base_path), 1, Limits(), living=population.state())
        session = load_session(snapshot)
        assert session.match(b"<m xmlns='urn:p' n='2'/>").keys == ["a"]
        assert not session.match(b"<m xmlns='urn:p' n='3'/>").keys


def versioned(number: int) -> Change:
    return put(f"k{number % 5}", f"/m[@n = {number}]", version=number)


def test_lost_doubled_and_disordered_changes_are_repaired(tmp_path: Path) -> None:
    """A source of 200 changes loses, doubles and mixes up: in the end the population is what the table says."""
    source = random.Random(printed_seed())
    models: list[dict[str, str]] = [{}]
    for number in range(1, 201):
        models.append(applied(models[-1], versioned(number)))
    arriving = [versioned(number) for number in range(1, 201) if source.random() > 0.05]
    arriving += source.sample(arriving, 20)
    arriving.sort(key=lambda change: change["version"] + source.uniform(-6, 6))
    read = []
    with LivingPopulation(tmp_path) as population:
        sent = 0
        for batch, start in enumerate(range(0, len(arriving), 10)):
            some = arriving[start : start + 10]
            sent = max(sent, *(change["version"] for change in some))
            behind = source.choice([0, 0, 3])

            def table(version: int = max(0, sent - behind)) -> tuple[list[Change], int]:
                read.append(version)
                return [{"key": key, "query": query} for key, query in models[version].items()], version

            population.take(some, "feed", batch, table)
            reached = population.position("feed").version or 0
            assert in_worker(population.state()) == models[reached], (batch, reached)
        population.take([versioned(200)], "feed", batch + 1, lambda: ([], 0))
        position = population.position("feed")
        assert (position.version, position.waiting) == (200, [])
        assert position.doubled >= 20
        assert position.repairs
    assert read


def test_missing_changes_without_a_table_end_the_stream_with_what_to_do(tmp_path: Path) -> None:
    with LivingPopulation(tmp_path) as population:
        population.take([versioned(1)], "feed", 0)
        with pytest.raises(PipelineError, match=r"the changes 2 to 3 of feed are missing: .*table="):
            population.take([versioned(4)], "feed", 1)
        assert population.take([versioned(2), versioned(3), versioned(4)], "feed", 1) == 2
        with pytest.raises(PipelineError, match="some changes of feed have no version"):
            population.take([put("a", "/a"), versioned(5)], "feed", 2)


def test_a_micro_batch_of_changes_counts_once(tmp_path: Path) -> None:
    with LivingPopulation(tmp_path) as population:
        population.take([put("a", "/a")], "feed", 0)
        population.take([put("b", "/b")], "feed", 1)
        population.change([remove("b")])
        population.take([put("b", "/b")], "feed", 1)
        assert in_worker(population.state()) == {"a": "/a"}
        assert (
            population.position("feed") == SourcePosition(batch=1, version=0) or population.position("feed").batch == 1
        )


def test_a_log_is_open_once_and_says_what_is_missing(tmp_path: Path) -> None:
    log = PopulationLog(tmp_path)
    with pytest.raises(OutputError, match="another program has this population open"):
        PopulationLog(tmp_path)
    for number in range(4):
        log.apply([put("a", f"/a[{number}]")])
    log.version_of("s", 3)
    with pytest.raises(PipelineError, match="micro-batch 2 of the stream s came after micro-batch 3"):
        log.version_of("s", 2)
    with pytest.raises(PipelineError, match="there is no version 9"):
        log.state(9)
    log.close()
    (tmp_path / "deltas" / f"{2:012d}.json").unlink()
    with pytest.raises(PipelineError, match="a version of the population is missing"):
        PopulationLog(tmp_path)


def test_a_version_that_cannot_be_written_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = PopulationLog(tmp_path)
    log.apply([put("a", "/a")])

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(population_log, "write_atomically", full)
        with pytest.raises(OutputError, match="No space left"):
            log.apply([put("a", "/b")])
    assert (log.version, in_worker(log.state())) == (1, {"a": "/a"})
    assert log.apply([put("a", "/c")]) == 2
    log.close()


def broken_off() -> Iterator[Change]:
    yield remove("a")
    raise RuntimeError("the source broke off")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (broken_off(), "the source broke off"),
        ([put("b", "/b"), remove("a"), ("c", "/c")], "item 2 is no mapping but tuple"),
        (put("b", "/b"), "this is one mapping, and many are expected"),
    ],
)
def test_changes_that_cannot_be_read_to_their_end_change_nothing(tmp_path: Path, changes: Any, error: str) -> None:
    with LivingPopulation(tmp_path) as population:
        population.change([put("a", "/a")])
        with pytest.raises((RuntimeError, TypeError), match=error):
            population.change(changes)
        assert population.change([put("d", "/d")]) == 2
        assert in_worker(population.state()) == {"a": "/a", "d": "/d"}


def test_keys_that_are_no_text_are_refused_in_text_and_an_empty_one_is_taken(tmp_path: Path) -> None:
    with LivingPopulation(tmp_path) as population:
        population.change([put("", "/a"), put("\ud800", "/b"), put("\u00fc, \U0001f600", "/c")])
        assert in_worker(population.state()) == {"": "/a", "\u00fc, \U0001f600": "/c"}
    rows = pq.read_table(tmp_path / "refused" / f"{1:012d}.parquet").to_pylist()
    assert [row["key"] for row in rows] == ["\\ud800"]


def test_of_rows_with_one_key_the_first_counts_whenever_the_table_is_loaded(tmp_path: Path) -> None:
    table = [{"key": "a", "query": "/a"}, {"key": "a", "query": "/b"}]
    with LivingPopulation(tmp_path) as population:
        for version in (1, 2, 3):
            assert population.load(table) == version
            assert in_worker(population.state()) == {"a": "/a"}
    row = pq.read_table(tmp_path / "refused" / f"{1:012d}.parquet").to_pylist()[0]
    assert (row["query"], row["error"]) == ("/b", "there is a subscription with the key 'a' already")


@pytest.mark.parametrize("row", [{"key": "a", "namespaces": '{"p":'}, {"key": "a", "namespaces": 5}, {"key": ["a"]}])
def test_a_row_of_a_table_that_is_wrong_is_refused_alone(tmp_path: Path, row: dict[str, Any]) -> None:
    with LivingPopulation(tmp_path) as population:
        population.change([put("a", "/a")])
        population.load([{"query": "/a", **row}, {"key": "b", "query": "/b"}])
        assert in_worker(population.state()) == {"a": "/a", "b": "/b"}
    assert pq.read_table(tmp_path / "refused" / f"{2:012d}.parquet").num_rows == 1


def test_a_source_whose_versions_begin_with_0_is_refused(tmp_path: Path) -> None:
    with LivingPopulation(tmp_path) as population:
        with pytest.raises(PipelineError, match="the version 0: versions are whole numbers that begin with 1"):
            population.take([versioned(0)], "feed", 0)
        assert len(population) == 0


def test_a_population_that_was_closed_is_not_written_to(tmp_path: Path) -> None:
    population = LivingPopulation(tmp_path)
    population.close()
    with LivingPopulation(tmp_path) as other:
        other.change([put("a", "/a")])
        with pytest.raises(PipelineError, match="the population was closed"):
            population.change([put("b", "/b")])
        with pytest.raises(PipelineError, match="the population was closed"):
            population.version_of("s", 0)


@pytest.mark.parametrize("name", ["deltas/000000000001.json", "ties/s.json", "_twigcast_population.json"])
def test_a_damaged_file_of_a_log_is_named(tmp_path: Path, name: str) -> None:
    with LivingPopulation(tmp_path) as population:
        population.change([put("a", "/a")])
        population.version_of("s", 0)
    (tmp_path / name).write_text('{"popu\n')
    with pytest.raises(PipelineError, match=f"{name}: the file is damaged"):
        LivingPopulation(tmp_path)


def test_a_version_that_a_micro_batch_had_is_missed(tmp_path: Path) -> None:
    with LivingPopulation(tmp_path) as population:
        population.change([put("a", "/a")])
        population.change([put("b", "/b")])
        population.version_of("s", 0)
    (tmp_path / "deltas" / f"{2:012d}.json").unlink()
    with pytest.raises(PipelineError, match="the version 2 of the population, which a micro-batch had, is missing"):
        LivingPopulation(tmp_path)


CHURN = """
import random, sys
from twigcast.spark.living import LivingPopulation
from twigcast.spark import population_log
population_log._DELTAS_BYTES_MIN, population_log._DELTA_BYTES_MAX = 3_000, 700
folder, seed = sys.argv[1:]
population = LivingPopulation(folder)
batch = max(population.position("feed").batch, -1)
while True:
    batch += 1
    source = random.Random(f"{seed} {batch}")  # the same changes when a micro-batch is read again
    rows = []
    for _ in range(source.choice([1, 5, 30])):
        key = f"k{source.randrange(40)}"
        rows.append({"op": "remove", "key": key} if source.random() < 0.3 else
                    {"op": "put", "key": key, "query": f"/m[@n = {batch}]"})
    population.take(rows, "feed", batch)
    print(batch, population.version, population.version_of("messages", batch), flush=True)
"""


def churned(seed: int, batches: int) -> dict[str, str]:
    """The model: what the changes of the first micro-batches come to."""
    model: dict[str, str] = {}
    for batch in range(batches):
        source = random.Random(f"{seed} {batch}")
        for _ in range(source.choice([1, 5, 30])):
            key = f"k{source.randrange(40)}"
            if source.random() < 0.3:
                model.pop(key, None)
            else:
                model[key] = f"/m[@n = {batch}]"
    return model


@pytest.mark.slow
def test_kills_at_random_moments_lose_and_repeat_nothing(tmp_path: Path) -> None:
    seed = printed_seed()
    source = random.Random(seed)
    tied: dict[int, int] = {}
    for _ in range(30):
        process = subprocess.Popen(
            [sys.executable, "-c", CHURN, str(tmp_path), str(seed)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(source.randrange(1, 12))]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
        process.stdout.close()
        process.wait(RUN_SECONDS)
        for line in lines:
            if line.endswith("\n"):
                batch, version, of_batch = map(int, line.split())
                assert of_batch == tied.setdefault(batch, of_batch)
                assert of_batch == version
        with LivingPopulation(tmp_path) as population:
            reached = population.position("feed").batch
            assert reached >= max(tied, default=-1)
            snapshots._living.clear()
            assert in_worker(population.state()) == churned(seed, reached + 1)
            last = max(tied)
            assert population.version_of("messages", max(last, reached)) is not None
    assert len(tied) > 60
