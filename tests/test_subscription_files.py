"""Files of subscriptions: what each row becomes, and where it stands."""

import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from twigcast import Subscription
from twigcast.errors import DuplicateKey, QuerySyntaxError, SnapshotError, SubscriptionFileError
from twigcast.subscription_files import SubscriptionFileRow, load_subscriptions, read_subscriptions

ROWS: list[dict[str, Any]] = [
    {"key": "a", "query": "/a"},
    {"key": "b", "query": "//p:b", "namespaces": {"p": "urn:p", "": "urn:d"}},
    {"key": "c", "query": "/a/[b]", "dialect": "legacy"},
]
WANTED = [
    Subscription("a", "/a"),
    Subscription("b", "//p:b", {"p": "urn:p", "": "urn:d"}),
    Subscription("c", "/a/[b]", dialect="legacy"),
]


def write_json_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def good(path: str | Path) -> list[Subscription]:
    rows = list(read_subscriptions(path))
    assert all(isinstance(row, SubscriptionFileRow) for row in rows), rows
    return [row.subscription for row in rows if isinstance(row, SubscriptionFileRow)]


def only_error(path: Path) -> SubscriptionFileError:
    (error,) = read_subscriptions(path)
    assert isinstance(error, SubscriptionFileError)
    return error


def test_json_lines(tmp_path: Path) -> None:
    path = write_json_lines(tmp_path / "s.jsonl", ROWS)
    assert good(path) == WANTED
    assert good(str(path)) == WANTED


def test_blank_lines_other_columns_and_byte_order_marks(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"key": "a", "query": "/a", "wanted_by": 7}\r\n\r\n  \n{"key": "b", "query": "/b"}')
    assert [
        (row.line, row.subscription.key) for row in read_subscriptions(path) if isinstance(row, SubscriptionFileRow)
    ] == [
        (1, "a"),
        (4, "b"),
    ]


def test_compressed_files(tmp_path: Path) -> None:
    plain = write_json_lines(tmp_path / "s.jsonl", ROWS)
    (tmp_path / "s.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    assert good(tmp_path / "s.jsonl.gz") == WANTED
    (tmp_path / "bad.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes())[:-10])
    with pytest.raises(SubscriptionFileError, match="cannot be read"):
        list(read_subscriptions(tmp_path / "bad.jsonl.gz"))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"\n".join(json.dumps(row).encode() for row in ROWS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert good("-") == WANTED


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[" * 200_000, "not JSON"),
        ("[1]", "no JSON object"),
        ("null", "no JSON object"),
        ({"query": "/a"}, "there is no key"),
        ({"key": "a"}, "there is no query"),
        ({"key": 7, "query": "/a"}, "a key is a string, not an int"),
        ({"key": "a", "query": ["/a"]}, "a query is a string, not a"),
        ({"key": "a", "query": "/a", "namespaces": "urn:p"}, "namespaces"),
        ({"key": "a", "query": "/a", "namespaces": {"p": 1}}, "namespaces"),
        ({"key": "a", "query": "/a", "dialect": "xpath2"}, "dialect must be"),
    ],
)
def test_rows_that_are_no_subscription(tmp_path: Path, line: Any, reason: str) -> None:
    path = write_json_lines(tmp_path / "s.jsonl", ["", line])
    error = only_error(path)
    assert reason in error.reason
    assert error.line == 2
    assert str(error).startswith(f"{path}:2: ")


def test_reading_goes_on_behind_a_bad_row(tmp_path: Path) -> None:
    path = write_json_lines(tmp_path / "s.jsonl", [ROWS[0], "{", ROWS[1]])
    assert [type(row) for row in read_subscriptions(path)] == [
        SubscriptionFileRow,
        SubscriptionFileError,
        SubscriptionFileRow,
    ]


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(
        "key,wanted_by,query,namespaces,dialect\n"
        "a,me,/a,,\n"
        'b,,//p:b,"{""p"": ""urn:p"", """": ""urn:d""}",\n'
        '"c",,"/a/[b]",,legacy\n'
        'd,,"//p[.=""x""]\n[q]",,\n'
        "e,,/e,oops,\n"
    )
    rows = list(read_subscriptions(path))
    assert [row.subscription for row in rows[:4] if isinstance(row, SubscriptionFileRow)] == [
        *WANTED,
        Subscription("d", '//p[.="x"]\n[q]'),
    ]
    last = rows[4]
    assert isinstance(last, SubscriptionFileError)
    assert last.line == 7
    assert "namespaces must be written as p=urn:example" in last.reason


def test_long_queries_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"key,query\na,{'/a' * 500_000}\n")
    assert len(good(path)[0].query) == 1_000_000


@pytest.mark.parametrize("text", ["key,text\na,/a\n", "key\n", "\n\nk;q\n"])
def test_csv_without_the_columns(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises(SubscriptionFileError, match="there is no column"):
        list(read_subscriptions(path))


@pytest.mark.parametrize(
    "namespaces",
    [
        pa.array([None, [("p", "urn:p"), ("", "urn:d")], []], pa.map_(pa.string(), pa.string())),
        pa.array([None, {"p": "urn:p", "": "urn:d"}, {"p": None}]),
    ],
    ids=["map", "struct"],
)
def test_parquet(tmp_path: Path, namespaces: pa.Array) -> None:
    columns = {
        "key": [r["key"] for r in ROWS],
        "query": [r["query"] for r in ROWS],
        "namespaces": namespaces,
        "dialect": [None, None, "legacy"],
    }
    table = pa.table(columns)
    parquet.write_table(table, tmp_path / "s.parquet")
    assert good(tmp_path / "s.parquet") == WANTED
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    parquet.write_table(table[:2], folder / "part-0.parquet")
    parquet.write_table(table[2:], folder / "part-1.parquet")
    assert good(folder) == WANTED


def test_parquet_rows_that_are_no_subscription(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"key": ["a", None], "query": ["/a", "/b"]}), tmp_path / "s.parquet")
    _, error = read_subscriptions(tmp_path / "s.parquet")
    assert isinstance(error, SubscriptionFileError)
    assert (error.line, error.reason) == (2, "there is no key")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    (tmp_path / "empty").mkdir()
    parquet.write_table(pa.table({"key": ["a"]}), tmp_path / "short.parquet")
    for name in (
        "missing.jsonl",
        "missing.csv",
        "missing.parquet",
        "bad.parquet",
        "empty",
        "short.parquet",
    ):
        with pytest.raises(SubscriptionFileError) as caught:
            list(read_subscriptions(tmp_path / name))
        assert caught.value.line is None
        assert name in str(caught.value)


def test_loading_tells_the_place_of_what_was_refused(tmp_path: Path) -> None:
    rows = [ROWS[0], "{", {"key": "x", "query": "/a["}, ROWS[1], {"key": "a", "query": "/z"}]
    path = write_json_lines(tmp_path / "s.jsonl", rows)
    loaded, refused = load_subscriptions(path)
    assert set(loaded) == {"a", "b"}
    assert loaded["a"].query == "/a"
    assert [(r.line, r.key, type(r.error)) for r in refused] == [
        (2, None, SubscriptionFileError),
        (3, "x", QuerySyntaxError),
        (5, "a", DuplicateKey),
    ]
    assert refused[1].label == f"{path}:3: x"
    assert str(refused[1]).startswith(f"{path}:3: x: column 4: ")


def test_loading_with_namespaces_for_all(tmp_path: Path) -> None:
    path = write_json_lines(tmp_path / "s.jsonl", [{"key": "a", "query": "/p:a/b"}])
    loaded, refused = load_subscriptions(path, namespaces={"p": "urn:p", "": "urn:p"})
    assert refused == []
    assert loaded.match('<a xmlns="urn:p"><b/></a>')


def test_snapshots_are_told_by_their_first_bytes(tmp_path: Path) -> None:
    loaded, _ = load_subscriptions(write_json_lines(tmp_path / "s.jsonl", ROWS))
    loaded.save(tmp_path / "s.bin")
    again, refused = load_subscriptions(tmp_path / "s.bin")
    assert refused == []
    assert set(again) == set(loaded)
    (tmp_path / "s.bin").write_bytes((tmp_path / "s.bin").read_bytes()[:-1])
    with pytest.raises(SnapshotError):
        load_subscriptions(tmp_path / "s.bin")


def test_subscriptions_come_through_a_pipe(tmp_path: Path) -> None:
    pipe, rows = tmp_path / "pipe", "".join(json.dumps(row) + "\n" for row in ROWS)
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=(rows,))
    writing.start()
    population, refused = load_subscriptions(pipe)
    writing.join()
    assert sorted(population) == ["a", "b", "c"]
    assert not refused
