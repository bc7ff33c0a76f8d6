"""Any bytes: read as expat reads them, encodings and DOCTYPEs included (atheris).

``python fuzz/wellformedness.py CORPUS -max_total_time=60 -dict=fuzz/xml.dict``
"""

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "wellformedness"))

with atheris.instrument_imports(include=["twigcast.reading.conversion"]):
    from conftest import assert_same_reading


def check(data: bytes) -> None:
    """One input."""
    assert_same_reading(data)


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
