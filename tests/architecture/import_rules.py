"""The rule that ``import twigcast`` stays light: heavy modules are imported where they are used."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

from tests.architecture.python_sources import PACKAGE, REPOSITORY

HEAVY_MODULES = frozenset(
    {
        *("asyncio", "click", "concurrent.futures", "email", "ftplib", "grpc", "http", "http.client", "httpx2"),
        *("importlib.metadata", "inspect", "jinja2", "logging", "lxml", "multiprocessing", "numpy", "pandas"),
        *("pyarrow", "pydantic", "pyspark", "rich", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "typer"),
        *("unittest", "urllib.request", "uuid", "xml.dom", "xml.etree", "xml.sax", "zipfile"),
        # A millisecond or more each, which only parts of the library need.
        *("datetime", "html.entities", "json", "pathlib", "urllib.parse", "xml.parsers"),
    }
)


@functools.cache
def imported_modules(statement: str) -> frozenset[str]:
    """Returns the modules that a new interpreter imports to run a statement."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "python"), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    return frozenset(line.rpartition("|")[2].strip() for line in lines)


def heavy_imports() -> list[str]:
    """Returns the heavy modules that the package imports before anything is used.

    What `dataclasses` of the standard library imports does not count, since public values are dataclasses.
    """
    own = imported_modules(f"import {PACKAGE}") - imported_modules("import dataclasses")
    return sorted(own & HEAVY_MODULES)
