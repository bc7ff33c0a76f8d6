"""Messages in any state, files packed in any way: library, batches, command line, Spark's source and broker alike."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from typer.testing import CliRunner

from tests.broker.hub.hubs import TENANT, drain, publish_any, run, running, subscribe
from twigcast import SubscriptionSet
from twigcast.arrow_types import MatchRow
from twigcast.broker.model import RejectedRecord, Submission
from twigcast.broker.store.store import open_store
from twigcast.cli import app
from twigcast.cli.common import advice
from twigcast.errors import RejectedMessage
from twigcast.reading.messages import Message, read_messages
from twigcast.reading.options import ReadOptions
from twigcast.spark.matching import BatchMatcher
from twigcast.spark.sources.files import FileSource

QUERIES = {"i": "//i[. = '\u00e9']", "r": "/r"}
XML = "<r><i>a</i>\n<i>\u00e9</i></r>"
PLAIN = XML.encode()
DECLARED = '<?xml version="1.0" encoding="{}"?>' + XML
MESSAGES = {
    "plain": PLAIN,
    "xml 1.1": b'<?xml version="1.1"?>' + PLAIN,
    "xml 1.1, not 1.0": b'<?xml version="1.1"?><r>&#1;</r>',
    "xml 2.0": b'<?xml version="2.0"?>' + PLAIN,
    "mark": b"\xef\xbb\xbf" + PLAIN,
    "mark, declared": b"\xef\xbb\xbf" + DECLARED.format("utf-8").encode(),
    "mark, declared otherwise": b"\xef\xbb\xbf" + DECLARED.format("iso-8859-1").encode(),
    "utf-16": DECLARED.format("utf-16").encode("utf-16"),
    "utf-16-le": DECLARED.format("utf-16-le").encode("utf-16-le"),
    "utf-16be": DECLARED.format("utf-16be").encode("utf-16-be"),
    "utf-16, not declared": XML.encode("utf-16-le"),
    "utf-16, cut": XML.encode("utf-16")[:-7],
    "utf-16, only declared": DECLARED.format("utf-16").encode(),
    "utf-32": XML.encode("utf-32"),
    "latin-1": DECLARED.format("latin-1").encode("latin-1"),
    "latin-1, not declared": XML.encode("latin-1"),
    "cut": PLAIN[:-8],
    "cut in a tag": PLAIN[:-2],
    "cut in a character": XML[:16].encode()[:-1],
    "empty": b"",
    "white space": b" \n",
    "blank line": b'\n<?xml version="1.0"?>' + PLAIN,
    "two documents": PLAIN + PLAIN,
    "entity": "<!DOCTYPE r [<!ENTITY e '\u00e9'>]><r><i>&e;</i></r>".encode(),
    "entity not declared": b"<!DOCTYPE r SYSTEM 'x.dtd'>\n<r>&e;</r>",
    "entity elsewhere": b"<!DOCTYPE r [<!ENTITY e SYSTEM 'e.txt'>]><r>&e;</r>",
}
Answers = Mapping[str, list[str] | str]


def subscriptions(queries: Mapping[str, str] = QUERIES) -> SubscriptionSet:
    return SubscriptionSet(queries)


def by_library(paths: list[Path], options: ReadOptions, queries: Mapping[str, str] = QUERIES) -> Answers:
    answers: dict[str, list[str] | str] = {}
    for item in read_messages(paths, options):
        if not isinstance(item, Message):
            answers[item.id] = str(item.error)
            continue
        try:
            answers[item.id] = sorted(subscriptions(queries).match(item.xml).keys)
        except RejectedMessage as error:
            answers[item.id] = str(item.located(error))
    return answers


def _placed(reason: str, line: int | None, column: int | None) -> str:
    return reason if line is None else f"line {line}, column {column}: {reason}"


def by_batch(messages: Mapping[str, bytes], queries: Mapping[str, str] = QUERIES) -> Answers:
    rows = subscriptions(queries).match_batch(pa.array(list(messages.values()), pa.binary())).to_pylist()
    return {name: _answer(row) for name, row in zip(messages, rows, strict=True)}


def _answer(row: MatchRow) -> list[str] | str:
    error = row["error"]
    if error is not None:
        return _placed(error["reason"], error["line"], error["column"])
    assert row["keys"] is not None
    return sorted(row["keys"])


def by_source(path: Path, options: ReadOptions, queries: Mapping[str, str] = QUERIES) -> Answers:
    source = FileSource(str(path), options)
    source.has_places = options.has_places
    matcher = BatchMatcher(subscriptions(queries)._session)
    answers: dict[str, list[str] | str] = {}
    for batch in (batch for task in source.plan(2) for batch in source.read(task)):
        found: dict[str, list[str]] = {name: [] for name in batch.column("message_id").to_pylist()}
        for answer in matcher.answers(batch):
            for row in (row for rows in answer.matches() for row in rows.to_pylist()):
                found[row["message_id"]].append(row["key"])
            for row in answer.rejected().to_pylist():
                answers[row["message_id"]] = _placed(row["reason"], row["line"], row["column"])
        answers = {**{name: sorted(keys) for name, keys in found.items()}, **answers}
    return answers


def by_command(tmp_path: Path, path: Path, *flags: str) -> Answers:
    subscribed = tmp_path / "subs.jsonl"
    subscribed.write_text("".join(json.dumps({"key": key, "query": query}) + "\n" for key, query in QUERIES.items()))
    result = CliRunner().invoke(app, ["match", "-s", str(subscribed), *flags, str(path)])
    assert result.exit_code == 3
    answers: dict[str, list[str] | str] = {}
    for line in result.stdout.splitlines():
        row = json.loads(line)
        keys = answers.setdefault(row["message"], [])
        assert isinstance(keys, list)
        keys.append(row["key"])
    for line in result.stderr.splitlines():
        if (named := re.fullmatch(r"twigcast: rejected (.*?): (.*)", line)) is not None:
            answers[named[1]] = named[2]
    return {name: sorted(found) if isinstance(found, list) else found for name, found in answers.items()}


def by_broker(folder: Path, messages: Mapping[str, bytes], queries: Mapping[str, str] = QUERIES) -> Answers:
    answers: dict[str, list[str] | str] = {}

    async def play() -> None:
        store = open_store(folder)
        async with running(store) as broker:
            queues = {key: (await subscribe(broker, key, query)).queue_id for key, query in queries.items()}
            for name, body in messages.items():
                (result,) = await publish_any(broker, Submission(TENANT, body, "s", name))
                if isinstance(result, RejectedRecord):
                    answers[name] = _placed(result.reason, result.line, result.column)
                else:
                    answers[name] = []
            for key, queue in queues.items():
                for delivery in await drain(broker, queue):
                    keys = answers[delivery.message.message_id]
                    assert isinstance(keys, list)
                    keys.append(key)
        store.close()

    run(play())
    return answers


def matching(answers: Answers) -> Answers:
    return {name: found for name, found in answers.items() if found}


def told(answers: Answers) -> Answers:
    """The same, with the advice in errors in terms of the command line."""
    return {name: advice(found) if isinstance(found, str) else found for name, found in answers.items()}


def test_messages_in_any_encoding_and_state(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, body in MESSAGES.items():
        (folder / name).write_bytes(body)
    expected = by_library([folder], ReadOptions())
    assert sum(isinstance(found, list) for found in expected.values()) == 10
    assert by_batch(MESSAGES) == {name: expected[name] for name in MESSAGES}
    assert by_source(folder, ReadOptions()) == expected
    assert by_command(tmp_path, folder) == told(matching(expected))
    assert by_broker(tmp_path / "store", MESSAGES) == expected


REGION = "geo:polygon('47.2,8.4 47.2,8.9 47.6,8.9 47.6,8.4 47.2,8.4')"
OF_PLACES = {
    "intersects": f"/m[geo:intersects(*, {REGION})]",
    "disjoint": f"/m[geo:disjoint(*, {REGION})]",
    "within": f"/m[geo:within(*, {REGION})]",
    "contains": "/m[geo:contains(*, geo:point(47.42, 8.6))]",
    "near": "/m[geo:distance(*, geo:point(47.37, 8.54)) < 20]",
    "circle": "/m[geo:intersects(*, geo:circle(-17, 179.9, 60))]",
}
PLACES = {
    "cap": "<m><polygon xmlns='urn:oasis:names:tc:emergency:cap:1.2'>47.4,8.4 47.4,8.7 47.5,8.7 47.4,8.4</polygon></m>",
    "georss": "<m><g:circle xmlns:g='http://www.georss.org/georss'>47 8 9000</g:circle></m>",
    "gml": "<m><p xmlns='http://www.opengis.net/gml'><Point srsName='EPSG:4326'><pos>8.5 47.3</pos></Point></p></m>",
    "kml": "<m><Point xmlns='http://www.opengis.net/kml/2.2'><coordinates>-179.9,-17</coordinates></Point></m>",
    "text": "<m><at>47.2 8.4</at></m>",
    "none": "<m><at>Zurich</at></m>",
}


def test_places(tmp_path: Path) -> None:
    messages = {name: text.encode() for name, text in PLACES.items()}
    folder = tmp_path / "in"
    folder.mkdir()
    for name, body in messages.items():
        (folder / name).write_bytes(body)
    expected = by_library([folder], ReadOptions(), OF_PLACES)
    assert expected == {
        "cap": ["contains", "intersects", "near", "within"],
        "georss": ["disjoint"],
        "gml": ["intersects", "near", "within"],
        "kml": ["circle", "disjoint"],
        "text": ["intersects"],
        "none": [],
    }
    assert by_batch(messages, OF_PLACES) == expected
    assert by_source(folder, ReadOptions(), OF_PLACES) == expected
    by_queue = by_broker(tmp_path / "store", messages, OF_PLACES)
    assert {name: sorted(found) for name, found in by_queue.items()} == expected


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def fill_with_archives(folder: Path) -> None:
    (folder / "gz.gz").write_bytes(gzip.compress(PLAIN))
    (folder / "xz.xz").write_bytes(lzma.compress(PLAIN))
    (folder / "zst.zst").write_bytes(zstd(PLAIN))
    (folder / "no name").write_bytes(bz2.compress(PLAIN))
    for name, data in (("gz", gzip.compress(PLAIN)), ("xz", lzma.compress(PLAIN)), ("bz2", bz2.compress(PLAIN))):
        (folder / f"cut.{name}").write_bytes(data[:-9])
    (folder / "cut.zst").write_bytes(zstd(PLAIN * 99)[:-9])
    (folder / "cut.zip").write_bytes(b"PK\x03\x04 and no more")
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("a.xml", PLAIN)
        archive.writestr("b.xml.xz", lzma.compress(PLAIN))
        archive.writestr("broken.xml", PLAIN[:-8])
    with tarfile.open(folder / "outer.tar.bz2", "w:bz2") as outer:
        for name, data in (("inner.zip", inner.getvalue()), ("c.zst", zstd(PLAIN))):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            outer.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ((), ReadOptions()),
        (("--record", "i"), ReadOptions(record="i")),
        (("--documents",), ReadOptions(documents=True)),
        (("--record", "i", "--documents"), ReadOptions(record="i", documents=True)),
        (("--record", "i", "--tolerant"), ReadOptions(record="i", tolerant=True)),
        (("--tolerant",), ReadOptions(tolerant=True)),
    ],
)
def test_files_however_they_are_packed_and_read(tmp_path: Path, flags: tuple[str, ...], options: ReadOptions) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, body in MESSAGES.items():
        (folder / name).write_bytes(body)
    (folder / "bad records.xml").write_bytes(b"<r xml:lang='de'>\n<i><k></i>\n <i>\xe9</i><i>\xc3\xa9</i></r>")
    fill_with_archives(folder)
    expected = by_library([folder], options)
    assert any("outer.tar.bz2/inner.zip/b.xml.xz" in name for name in expected)
    damaged = [name for name in expected if "is damaged" in str(expected[name])]
    assert {name.split("#")[0] for name in damaged} == {"cut.gz", "cut.xz", "cut.bz2", "cut.zst", "cut.zip"}
    assert by_source(folder, options) == expected
    assert by_command(tmp_path, folder, *flags) == told(matching(expected))
