"""PostgreSQL's own programs: pg_dump writes backups, pg_restore reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from psycopg import conninfo

from twigcast.broker.errors import StoreUnavailable
from twigcast.errors import OutputError


def dump(address: str, schema: str, path: Path) -> None:
    """Writes the tables of a schema, as they are at one moment, to a file in pg_dump's custom format.

    Raises:
        OutputError: pg_dump is missing or failed; the file is removed.
    """
    part = path.with_name(path.name + ".part")
    try:
        _run("pg_dump", address, "--format=custom", f"--schema={schema}", f"--file={part}")
        part.replace(path)
    except OSError as error:
        raise OutputError(str(path), f"the backup could not be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def restore(address: str, path: Path) -> None:
    """Restores a backup into a database that does not hold its tables.

    Raises:
        StoreUnavailable: pg_restore is missing or failed; nothing was changed.
    """
    try:
        _run("pg_restore", address, "--no-owner", "--single-transaction", "--exit-on-error", str(path))
    except OSError as error:
        raise StoreUnavailable(f"{path} could not be restored: {error}") from error


def _run(program: str, address: str, *arguments: str) -> None:
    result = shutil.which(program)
    if result is None:
        raise FileNotFoundError(
            f"{program} is needed, which comes with PostgreSQL's client programs; it is not in PATH"
        )
    parameters: dict[str, Any] = conninfo.conninfo_to_dict(address)
    # Not on the command line, which every user of the machine could read.
    environment = os.environ | {"PGPASSWORD": str(parameters.pop("password", os.environ.get("PGPASSWORD", "")))}
    target = f"--dbname={conninfo.make_conninfo(**parameters)}"
    done = subprocess.run(  # noqa: S603
        [result, target, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OSError(f"{program}: {done.stderr.strip() or f'exit status {done.returncode}'}")
