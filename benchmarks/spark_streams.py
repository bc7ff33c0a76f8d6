"""What the pipeline costs where there is little to do, and how a large file is shared among cores."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks import workloads
from benchmarks.measure import Row
from benchmarks.spark import ordinary_queries
from twigcast import SubscriptionSet
from twigcast.reading.options import ReadOptions
from twigcast.spark import read_messages
from twigcast.spark.file_stream import FileStreamReader
from twigcast.spark.session import open_session

LARGE_BYTES = 1 << 30
QUERIES = 1_000
KNOWN_FILES = 100_000
MICRO_BATCHES = 15
LOOKS = 20
ROUNDS = 3
SECONDS_MAX = 120


def measure(task: str = "") -> list[Row]:
    """All rows of the section."""
    if task:
        return [{"seconds": _large_file(int(task.split(":")[0]), Path(task.split(":")[1]))}]
    with tempfile.TemporaryDirectory(prefix="twigcast-bench-") as folder:
        return [*_cores(Path(folder)), _micro_batch(Path(folder)), _idle(Path(folder))]


def _cores(folder: Path) -> list[Row]:
    """The rows of one large file whose records are read, on one core and on two; each in a process of its own."""
    path = folder / "large.xml"
    body = b"".join(b"<item>" + xml[xml.index(b"<", 2) if xml.startswith(b"<?") else 0 :] + b"</item>"
                    for xml in workloads.messages("news"))  # fmt: skip
    with path.open("wb") as file:
        file.write(b"<feed>")
        while file.tell() < LARGE_BYTES:
            file.write(body)
        file.write(b"</feed>")
    rows: list[Row] = []
    for cores in (1, 2):
        command = [sys.executable, "-m", "benchmarks.run", "--task", "spark_streams", f"{cores}:{path}"]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        seconds = float(output.splitlines()[-1].split('"seconds": ')[1].rstrip("}]"))
        first = float(str(rows[0]["seconds"])) if rows else seconds
        rows.append({"job": "1 GB of records", "cores": cores, "seconds": seconds, "times_one_core": first / seconds})
    path.unlink()
    return rows


def _large_file(cores: int, path: Path) -> float:
    with tempfile.TemporaryDirectory(prefix="twigcast-bench-") as folder:
        spark = open_session(f"local[{cores}]", log=Path(folder, "spark.log"))
        try:
            seconds = []
            for _ in range(ROUNDS):
                start = time.perf_counter()
                frame = read_messages(spark, path, ReadOptions(record="item"))
                frame.write.format("noop").mode("overwrite").save()
                seconds.append(time.perf_counter() - start)
            return median(seconds[1:])
        finally:
            spark.stop()


def _micro_batch(folder: Path) -> Row:
    """The row of micro-batches of one message each, as Spark measures them, with the commit to the folder."""
    (folder / "in").mkdir()
    message = next(iter(workloads.messages("news")))
    SubscriptionSet((str(n), q) for n, q in enumerate(ordinary_queries("news", QUERIES))).save(folder / "subscriptions")
    spark = open_session("local[2]", log=folder / "spark.log")
    try:
        stream = spark.readStream.format("twigcast").option("settleSeconds", "0").load(str(folder / "in"))
        writer = stream.writeStream.format("twigcast").option("subscriptions", str(folder / "subscriptions"))
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
            processingTime="50 milliseconds"
        )
        query = writer.start(str(folder / "out"))
        seconds: list[float] = []
        for number in range(MICRO_BATCHES):
            (folder / "new").write_bytes(message)
            (folder / "new").rename(folder / "in" / f"{number}.xml")
            _wait_for_rows(query, number + 1)
        seconds = [progress.durationMs["triggerExecution"] / 1000 for progress in query.recentProgress
                   if progress.numInputRows][3:]  # fmt: skip
        query.stop()
    finally:
        spark.stop()
    return {"job": "a micro-batch of one message", "queries": QUERIES, "seconds": median(seconds)}


def _wait_for_rows(query: object, count: int) -> None:
    end = time.monotonic() + SECONDS_MAX
    while sum(progress.numInputRows for progress in query.recentProgress) < count:  # type: ignore[attr-defined]
        if time.monotonic() > end:
            raise TimeoutError(f"micro-batch {count} does not come")
        time.sleep(0.01)


def _idle(folder: Path) -> Row:
    """The row of a look at a folder where nothing is new: processor time of the process that watches it."""
    watched = folder / "watched"
    watched.mkdir()
    for number in range(KNOWN_FILES):
        (watched / f"{number}.xml").write_bytes(b"<a/>")
    options = {"path": str(watched), "log": str(folder / "log.jsonl"), "settleSeconds": "0"}
    reader = FileStreamReader(options, ["message_id", "xml", "problem"])
    at = reader.initialOffset()
    while (following := reader.latestOffset(at, None)) != at:  # type: ignore[arg-type]
        at = following
    time.sleep(6)  # folders that changed a moment ago are listed again
    reader.latestOffset(at, None)  # type: ignore[arg-type]
    spent = []
    for _ in range(LOOKS):
        start = time.process_time()
        assert reader.latestOffset(at, None) == at  # type: ignore[arg-type]
        spent.append(time.process_time() - start)
    reader.stop()
    return {"job": "an idle trigger", "known_files": KNOWN_FILES, "cpu_ms": 1000 * median(spent)}
