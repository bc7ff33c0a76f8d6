"""One Spark session for all tests that need one, started with the first of them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A local session with two workers."""
    pytest.importorskip("pyspark")
    from twigcast.errors import MissingJava
    from twigcast.spark.session import open_session

    package = Path(__file__).resolve().parents[2] / "python"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
    folder = tmp_path_factory.mktemp("spark")
    settings = {"spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": str(folder / "warehouse")}
    try:
        session = open_session("local[2]", log=folder / "spark.log", settings=settings)
    except MissingJava as missing:
        pytest.skip(str(missing))
    yield session
    session.stop()
