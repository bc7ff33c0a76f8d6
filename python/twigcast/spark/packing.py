"""The archive that the executors of a cluster need where Twigcast is not installed.

It holds the package without what tasks do not use. The machines must be of the kind that the package was built for, and
have Python with pyarrow and pandas.
"""

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import twigcast.spark
from twigcast.errors import OutputError

_LEFT_OUT: Final = frozenset(
    {"__pycache__", "broker", "cli", "client", "demo", "lab", "peers"}
    | {"chord", "codd", "network", "protocol", "registry", "wire"}
)
"""Folders that tasks never import."""

_SUFFIXES: Final = (".py", ".so", ".pyd", ".dtd", ".properties")


def write_archive(path: str | os.PathLike[str]) -> int:
    """Writes the archive (``.tar.gz``) and returns its size in bytes.

    Raises:
        OutputError: It cannot be written, or has another ending.
    """
    target = Path(path)
    if not target.name.endswith((".tar.gz", ".tgz")):
        raise OutputError(os.fspath(path), "the name of the archive must end with .tar.gz, by which Spark knows it")
    package = Path(twigcast.spark.__file__).parents[1]
    temporary = target.with_name(f".{target.name}.new")
    try:
        with tarfile.open(temporary, "w:gz", compresslevel=9) as archive:
            for file in _files(package):
                archive.add(file, Path("twigcast") / file.relative_to(package))
            for file in _files(package.parent / "pyspark_twigcast"):
                archive.add(file, file.relative_to(package.parent))
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OutputError(os.fspath(path), error.strerror or str(error)) from None
    return target.stat().st_size


def _files(folder: Path) -> Iterator[Path]:
    for around, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        yield from (Path(around, name) for name in sorted(names) if name.endswith(_SUFFIXES))
