"""One document of 100 MB: matched whole, cut into records and matched, and cut by other means."""

from __future__ import annotations

import random
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lxml import etree

from benchmarks.measure import Row, parse_with_expat, resident_bytes, side_by_side
from twigcast import SubscriptionSet
from twigcast.reading.records import cut_record_batches, cut_records

ROUNDS: Final = 5
_ITEMS: Final = 72_000
_SEED: Final = 11
_BATCH_BYTES: Final = 1 << 20
"""As in the source of the pipeline."""

_SPLITTING = b"""<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:template match="/"><items><xsl:for-each select="/feed/item"><xsl:copy-of select="."/></xsl:for-each></items>
</xsl:template></xsl:stylesheet>"""


def _write_document(path: Path) -> None:
    randomness = random.Random(_SEED)
    words = [f"w{number}" for number in range(2_000)]

    def text(count: int) -> str:
        return " ".join(randomness.choices(words, k=count))

    with path.open("w", encoding="utf-8") as file:
        file.write("<feed>")
        for number in range(_ITEMS):
            paragraphs = "".join(f"<p class='c{index}'>{text(20)}</p>" for index in range(10))
            head = f"<title>{text(8)}</title><link href='http://example.org/{number}'/>"
            file.write(f'<item id="{number}">{head}<body>{paragraphs}</body></item>\n')
        file.write("</feed>")


def _subscriptions() -> SubscriptionSet:
    return SubscriptionSet((f"k{number}", f"//item[@id = '{number * 700}']/title") for number in range(100))


def _whole(path: Path) -> int:
    return len(_subscriptions().match(path.read_bytes()).keys)


def _in_one_pass(path: Path) -> int:
    return sum(len(record.keys) for record in _subscriptions().match_records(path, "item"))


def _in_batches(path: Path) -> int:
    subscriptions, matches = _subscriptions(), 0
    with path.open("rb") as stream:
        for batch in cut_record_batches(stream, "item", chunk_bytes=_BATCH_BYTES):
            matches += len(subscriptions.match_batch(batch.arrow()).column("keys").flatten())
    return matches


def _one_by_one(path: Path) -> int:
    subscriptions = _subscriptions()
    with path.open("rb") as stream:
        return sum(len(subscriptions.match(record.xml).keys) for record in cut_records(stream, "item"))


def _cut(path: Path) -> int:
    with path.open("rb") as stream:
        return sum(len(batch) for batch in cut_record_batches(stream, "item"))


def _forget(element: etree._Element) -> None:
    """Frees an item and those before it."""
    element.clear()
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]


def _iterparse(path: Path) -> int:
    count = 0
    for _, element in etree.iterparse(path, tag="item"):
        count += 1
        _forget(element)
    return count


def _iterparse_to_bytes(path: Path) -> int:
    count = 0
    for _, element in etree.iterparse(path, tag="item"):
        count += bool(etree.tostring(element, with_tail=False))
        _forget(element)
    return count


def _xslt(path: Path) -> int:
    items = etree.XSLT(etree.XML(_SPLITTING))(etree.parse(path, etree.XMLParser(huge_tree=True))).getroot()
    return sum(bool(etree.tostring(item, with_tail=False)) for item in items)


WAYS: Final[dict[str, tuple[Callable[[Path], int], int]]] = {
    "matched whole": (_whole, 100),
    "cut and matched, in one pass": (_in_one_pass, 100),
    "cut and matched, in batches": (_in_batches, 100),
    "cut and matched, one by one": (_one_by_one, 100),
    "cut": (_cut, _ITEMS),
    "lxml iterparse, nothing done with the items": (_iterparse, _ITEMS),
    "lxml iterparse, each item to bytes": (_iterparse_to_bytes, _ITEMS),
    "lxml XSLT, each item to bytes": (_xslt, _ITEMS),
}
"""What is measured, and how many matches or items it has to find."""


def measure(way: str) -> Row:
    """Measures one way over the document, in turn with expat."""
    work, expected = WAYS[way]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "feed.xml")
        _write_document(path)
        before = resident_bytes()
        if work(path) != expected:
            raise SystemExit(f"{way}: not what was expected")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        data = path.read_bytes()
        timing, unit = side_by_side(ROUNDS, lambda: work(path), lambda: parse_with_expat([data]))
        megabytes = len(data) / 1e6
    return {
        "way": way,
        "MB": round(megabytes),
        "seconds": timing.median,
        "E": timing.median / unit.median,
        "peak_memory_mb": round((peak - before) / 1e6),
    }
