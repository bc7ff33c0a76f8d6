"""Folders of files that a stream is to read one after the other."""

from __future__ import annotations

import os
import time
from pathlib import Path


def set_order(folder: Path) -> None:
    """Gives the files of a folder times a second apart, in the order of their names.

    Spark reads the oldest file first, and those of one millisecond in any order.
    """
    files = sorted(folder.iterdir())
    began = time.time() - len(files) - 1
    for number, file in enumerate(files):
        os.utime(file, (began + number, began + number))
