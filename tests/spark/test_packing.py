"""The archive for executors: a job runs from it where no other Twigcast can be found."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq
import pyspark
from typer.testing import CliRunner

from twigcast.cli import app
from twigcast.errors import OutputError
from twigcast.spark.packing import write_archive

ROOT = Path(__file__).resolve().parents[2]
BYTES_MAX = 4_000_000
RUN_SECONDS = 300

PROGRAM = """
import sys
from pathlib import Path
import pyarrow as pa
from pyspark.sql import SparkSession
from twigcast.spark import run_pipeline

work = Path(sys.argv[1])
spark = SparkSession.builder.getOrCreate()


def where(batches):
    import twigcast
    import twigcast._core
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"path": [str(Path(twigcast.__file__).resolve())] * batch.num_rows})


rows = spark.range(4).mapInArrow(where, "path string").collect()
(work / "paths").write_text("\\n".join(row.path for row in rows))
run_pipeline(work / "in", work / "subscriptions.jsonl", work / "out", spark=spark)
"""


@pytest.mark.slow
def test_the_archive_is_small_and_complete(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["pipeline", "--pack", str(tmp_path / "t.tar.gz")])
    assert done.exit_code == 0, done.output
    assert "--archives" in done.output
    assert (tmp_path / "t.tar.gz").stat().st_size < BYTES_MAX
    with tarfile.open(tmp_path / "t.tar.gz") as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    program = "import twigcast.spark, pyspark_twigcast; print(twigcast.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "unpacked")}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert Path(found.stdout.strip()).is_relative_to(tmp_path / "unpacked")


def test_an_archive_that_spark_would_not_unpack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"must end with \.tar\.gz"):
        write_archive(tmp_path / "t.rar")
    refused = CliRunner().invoke(app, ["pipeline", "--pack", str(tmp_path / "missing" / "t.tar.gz")])
    assert refused.exit_code != 0
    assert "No such file" in refused.output


@pytest.mark.spark
@pytest.mark.slow
def test_executors_run_from_the_archive(tmp_path: Path) -> None:
    write_archive(tmp_path / "twigcast.tar.gz")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.xml").write_text("<a/>")
    (tmp_path / "subscriptions.jsonl").write_text(json.dumps({"key": "a", "query": "/a"}))
    (tmp_path / "program.py").write_text(PROGRAM)
    command: list[str | Path] = [
        Path(pyspark.__file__).parent / "bin" / "spark-submit",
        "--master",
        "local-cluster[1,1,1024]",
    ]
    command += ["--conf", "spark.ui.enabled=false", "--archives", f"{tmp_path / 'twigcast.tar.gz'}#twigcast"]
    command += ["--conf", "spark.executorEnv.PYTHONPATH=twigcast", tmp_path / "program.py", tmp_path]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    paths = (tmp_path / "paths").read_text().splitlines()
    assert len(paths) == 4
    for path in paths:
        # The folder of the executor, then the archive by its name, then what is in it.
        assert Path(path).match("app-*/*/twigcast/twigcast/__init__.py"), path
    shutil.rmtree(Path(paths[0]).parents[3])  # Spark keeps it beside itself
    assert pq.read_table(tmp_path / "out" / "matches").column("key").to_pylist() == ["a"]
