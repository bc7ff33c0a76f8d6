"""The output folder: refused, replaced, committed, and whole again after a kill at any step."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twigcast.errors import OutputError, PipelineError
from twigcast.spark.schemas import KINDS, MATCHES
from twigcast.spark.sinks import open_sink
from twigcast.spark.sinks.folder import FolderSink, staged_path
from twigcast.spark.sinks.sink import StreamCommit
from twigcast.spark.summary import Summary, TaskReport


class Killed(BaseException):
    """Stands for a kill: nothing in the product catches it."""


def staged(staging: Path, partition: int, keys: list[str], attempt: int = 1) -> TaskReport:
    """What a task would have staged, with its report."""
    path = staged_path(staging, "matches", partition, attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"message_id": ["m"] * len(keys), "key": keys, "nodes": pa.nulls(len(keys), pa.int32())}, MATCHES)
    pq.write_table(table, path)
    return TaskReport(partition, attempt, messages=1, matches=len(keys), deliveries=0, rejected=0, bytes=10)


def keys_in(output: Path) -> list[str]:
    return sorted(pq.read_table(output / "matches").column("key").to_pylist())


def commit_batch(path: Path, keys: list[str]) -> None:
    with FolderSink(path, "batch") as output:
        staging = output.new_staging()
        reports = [staged(staging, number, [key]) for number, key in enumerate(keys)]
        output.replace(staging, reports, Summary().plus(reports, 1.0, 5, 0))


def commit_stream(path: Path, batch: int, keys: list[str], stream: str = "s") -> None:
    with FolderSink(path, "stream") as output:
        last = output.last_commit_of(stream)
        if last is not None and batch <= last.batch:
            return
        staging = output.new_staging()
        reports = [staged(staging, number, [key]) for number, key in enumerate(keys)]
        totals = (Summary() if last is None else last.totals).plus(reports, 1.0, 5, 0)
        output.append(staging, reports, StreamCommit(batch, stream, totals))


def test_a_batch_leaves_three_tables_and_a_summary(tmp_path: Path) -> None:
    commit_batch(tmp_path / "out", ["a", "b"])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "_twigcast.json",
        "deliveries",
        "matches",
        "rejected",
        "summary.json",
    ]
    assert keys_in(tmp_path / "out") == ["a", "b"]
    for kind, schema in KINDS.items():
        assert pq.read_table(tmp_path / "out" / kind).schema.equals(schema)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["messages"], summary["matches"], summary["subscriptions"], summary["bytes"]) == (2, 2, 5, 20)


def test_a_batch_replaces_what_an_earlier_one_left(tmp_path: Path) -> None:
    commit_batch(tmp_path, ["a", "b", "c"])
    commit_batch(tmp_path, ["d"])
    assert keys_in(tmp_path) == ["d"]


def test_only_reported_attempts_are_committed(tmp_path: Path) -> None:
    with FolderSink(tmp_path, "batch") as output:
        staging = output.new_staging()
        staged(staging, 0, ["of an attempt that failed"], attempt=1)
        report = staged(staging, 0, ["good"], attempt=2)
        output.replace(staging, [report], Summary())
    assert keys_in(tmp_path) == ["good"]
    assert not (tmp_path / "_staging").exists()


def kill_at(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, call: int) -> Callable[[], bool]:
    """Be killed at the n-th call of a method. Answers whether that has happened."""
    original = getattr(owner, name)
    calls = 0

    def wrapper(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapper)
    return lambda: calls >= call


@pytest.mark.parametrize("call", range(1, 14))
def test_a_batch_killed_at_any_rename_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """Until the new summary is there, either the old one is, with the old results, or none."""
    commit_batch(tmp_path, ["old"])
    with monkeypatch.context() as patch:
        killed = kill_at(patch, Path, "rename", call)
        try:
            commit_batch(tmp_path, ["a", "b", "c"])
        except Killed:
            if (tmp_path / "summary.json").exists():
                assert keys_in(tmp_path) == ["old"]
            FolderSink(tmp_path, "batch").close()
            # Whoever opens the folder finds the old output or the new one, as a whole.
            assert keys_in(tmp_path) in (["old"], ["a", "b", "c"])
            assert (tmp_path / "summary.json").exists()
        happened = killed()
    assert happened == (call <= 9)  # three parts, and three folders after those that they replace
    commit_batch(tmp_path, ["a", "b", "c"])
    assert keys_in(tmp_path) == ["a", "b", "c"]
    assert not (tmp_path / "_staging").exists()


def test_a_stream_adds_up(tmp_path: Path) -> None:
    commit_stream(tmp_path, 0, ["a", "b"])
    commit_stream(tmp_path, 1, ["c"])
    assert keys_in(tmp_path) == ["a", "b", "c"]
    with FolderSink(tmp_path, "stream") as output:
        last = output.last_commit()
        assert last is not None
        assert (last.batch, last.stream, last.totals.messages) == (1, "s", 3)
    assert json.loads((tmp_path / "summary.json").read_text())["matches"] == 3


def test_a_micro_batch_that_is_committed_is_not_run_again(tmp_path: Path) -> None:
    commit_stream(tmp_path, 0, ["a"])
    commit_stream(tmp_path, 0, ["with subscriptions that have changed since"])
    assert keys_in(tmp_path) == ["a"]


@pytest.mark.parametrize("name", ["rename", "replace"])
@pytest.mark.parametrize("call", range(1, 6))
def test_a_stream_killed_at_any_step_of_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int
) -> None:
    commit_stream(tmp_path, 0, ["a"])
    with monkeypatch.context() as patch:
        kill_at(patch, Path, name, call)
        with suppress(Killed):
            commit_stream(tmp_path, 1, ["b", "c", "d"])
    # Spark runs the micro-batch again, perhaps with other subscriptions by now; it must land once, and as a whole.
    commit_stream(tmp_path, 1, ["B", "C", "D"])
    assert keys_in(tmp_path) in (["a", "b", "c", "d"], ["B", "C", "D", "a"])
    with FolderSink(tmp_path, "stream") as output:
        last = output.last_commit()
        assert last is not None
        assert last.totals.matches == 4
    assert json.loads((tmp_path / "summary.json").read_text())["matches"] == 4


def test_a_stream_can_be_read_before_its_first_micro_batch(tmp_path: Path) -> None:
    with FolderSink(tmp_path, "stream"):
        for kind, schema in KINDS.items():
            assert pq.read_table(tmp_path / kind).schema.equals(schema)
    assert json.loads((tmp_path / "summary.json").read_text()) == Summary().as_dict()


def test_old_commit_records_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twigcast.spark.sinks.folder._COMMITS_KEPT", 3)
    for number in range(10):
        commit_stream(tmp_path, number, [str(number)])
    assert len(list((tmp_path / "_commits").iterdir())) == 3
    assert len(keys_in(tmp_path)) == 10


def test_another_stream_is_kept_out(tmp_path: Path) -> None:
    """As after a checkpoint was removed: numbers of micro-batches start over, and would be taken for done."""
    commit_stream(tmp_path, 0, ["a"], stream="first")
    with pytest.raises(OutputError, match="checkpoint"):
        commit_stream(tmp_path, 0, ["b"], stream="second")


def test_batch_and_stream_do_not_mix(tmp_path: Path) -> None:
    commit_batch(tmp_path / "batch", ["a"])
    with pytest.raises(OutputError, match="batch pipeline"):
        FolderSink(tmp_path / "batch", "stream")
    commit_stream(tmp_path / "stream", 0, ["a"])
    with pytest.raises(OutputError, match="stream pipeline"):
        FolderSink(tmp_path / "stream", "batch")


def test_other_peoples_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("years of work")
    with pytest.raises(OutputError, match="not empty"):
        FolderSink(tmp_path, "batch")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.doc"]


def test_one_pipeline_at_a_time(tmp_path: Path) -> None:
    with FolderSink(tmp_path, "batch"), pytest.raises(OutputError, match="another pipeline"):
        FolderSink(tmp_path, "batch")
    with FolderSink(tmp_path, "batch"):
        pass


def test_where_no_folder_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none/such")):
        with pytest.raises(OutputError):
            FolderSink(path, "batch")
    with pytest.raises(OutputError, match="executors"):
        open_sink("s3a://bucket/output", "batch")


def test_a_marker_cut_off_by_a_kill(tmp_path: Path) -> None:
    commit_batch(tmp_path, ["a"])
    (tmp_path / "_twigcast.json").write_text('{"mo')
    commit_batch(tmp_path, ["b"])
    assert keys_in(tmp_path) == ["b"]


def test_an_output_that_executors_do_not_share(tmp_path: Path) -> None:
    def stage(output: FolderSink) -> tuple[Path, list[TaskReport]]:
        staging = output.new_staging()
        reports = [staged(staging, 0, ["written on another machine"])]
        shutil.rmtree(staging / "matches")
        return staging, reports

    with FolderSink(tmp_path / "batch", "batch") as output, pytest.raises(PipelineError, match="share"):
        output.replace(*stage(output), Summary())
    with FolderSink(tmp_path / "stream", "stream") as output, pytest.raises(PipelineError, match="share"):
        output.append(*stage(output), StreamCommit(0, "s", Summary()))


def test_the_registry_opens_the_folder(tmp_path: Path) -> None:
    with open_sink(tmp_path, "batch") as output:
        assert isinstance(output, FolderSink)
