"""The formats of files of subscriptions: the same rows in every one of them, and where something is wrong in each."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from twigcast import Subscription
from twigcast.errors import SubscriptionFileError, SubscriptionFileWarning
from twigcast.subscription_files import SubscriptionFileRow, find_subscription, load_subscriptions, read_subscriptions

Rows = list[dict[str, Any]]


def generated(chance: random.Random) -> Rows:
    """Rows with all that separates columns, lines and strings in them."""
    odd = ["a", "ü", "日本", "x y", "it's", 'say "x"', "a,b", "a;b", "a\tb", "#1", "[", "{}", "=", "-"]
    rows: Rows = []
    for number in range(chance.randrange(1, 12)):
        row: dict[str, Any] = {"key": f"{chance.choice(odd)}{number}", "query": f"//p:a[. != {chance.choice(odd)!r}]"}
        row["namespaces"] = {"p": f"urn:{number}"} | ({"": "urn:d,e;f=g"} if chance.random() < 0.5 else {})
        if chance.random() < 0.3:
            row["dialect"] = "legacy"
        rows.append(row)
    return rows


def separated(mark: str, namespaces: Callable[[dict[str, str]], str]) -> Callable[[Rows], str]:
    def write(rows: Rows) -> str:
        out = io.StringIO()
        writer = csv.DictWriter(out, ["key", "owner", "query", "namespaces", "dialect"], delimiter=mark)
        writer.writeheader()
        writer.writerows({**row, "namespaces": namespaces(row["namespaces"])} for row in rows)
        return out.getvalue()

    return write


def as_pairs(namespaces: dict[str, str]) -> str:
    return " ".join(f"{prefix}={uri}" for prefix, uri in namespaces.items())


FORMATS: dict[str, tuple[str, Callable[[Rows], str]]] = {
    "json lines": ("s.jsonl", lambda rows: "".join(json.dumps(row) + "\n" for row in rows)),
    "json lines without a name": ("s", lambda rows: "\n\n" + "\n\n".join(json.dumps(row) for row in rows)),
    "array": ("s.json", json.dumps),
    "array, indented": ("s.json", lambda rows: "\n " + json.dumps(rows, indent=2, ensure_ascii=False) + "\n\n"),
    "array without a name": ("s", json.dumps),
    "namespaces as text in json": (
        "s.json",
        lambda rows: json.dumps([{**row, "namespaces": as_pairs(row["namespaces"])} for row in rows]),
    ),
    "namespaces as list in json": (
        "s.jsonl",
        lambda rows: "\n".join(json.dumps({**r, "namespaces": as_pairs(r["namespaces"]).split()}) for r in rows),
    ),
    **{
        f"{name} with {how}": (f"s.{suffix}", separated(mark, namespaces))
        for name, suffix, mark in (
            ("csv", "csv", ","),
            ("excel", "csv", ";"),
            ("tabs", "csv", "\t"),
            ("tsv", "tsv", "\t"),
        )
        for how, namespaces in (("json", json.dumps), ("pairs", as_pairs))
    },
}
ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "utf-8": str.encode,
    "with a mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "big-endian": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_the_same(name: str, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file_name, write = FORMATS[name]
    for seed in range(5):
        print(f"seed {seed}")
        rows = generated(random.Random(seed))
        wanted = [Subscription(r["key"], r["query"], r["namespaces"], r.get("dialect")) for r in rows]
        data = ENCODINGS[encoding](write(rows))
        (tmp_path / file_name).write_bytes(data)
        (tmp_path / f"{file_name}.gz").write_bytes(gzip.compress(data))
        sources: list[str | Path] = [tmp_path / file_name, tmp_path / f"{file_name}.gz"]
        if not file_name.endswith(("csv", "tsv")):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            sources.append("-")
        for source in sources:
            found = list(read_subscriptions(source))
            assert [row.subscription for row in found if isinstance(row, SubscriptionFileRow)] == wanted


def test_a_plain_list_of_queries(tmp_path: Path) -> None:
    path = tmp_path / "queries.txt"
    path.write_text("# what the desk asks for\n\n/a/b\n  //c[@d = '#1']  \nfor $x in /a return $x\n")
    loaded, refused = load_subscriptions(path)
    assert (loaded.keys(), refused) == (["/a/b", "//c[@d = '#1']", "for $x in /a return $x"], [])
    assert loaded.match("<a><b/></a>").keys == ["/a/b", "for $x in /a return $x"]
    path.write_text("/a\n/b[\n/a\n")
    loaded, refused = load_subscriptions(path)
    assert [(row.line, row.key) for row in refused] == [(2, "/b[")]


def test_an_array_of_queries(tmp_path: Path) -> None:
    (tmp_path / "q.json").write_text('["/a", "//b"]')
    assert load_subscriptions(tmp_path / "q.json")[0].keys() == ["/a", "//b"]
    assert find_subscription(tmp_path / "q.json", "//b").query == "//b"


REFUSED = [
    ("s.jsonl", '{"key": "k", "query": "/a", "namespaces": 7}', ":1: k: namespaces must be a mapping of str to str"),
    ("s.jsonl", '{"key": "k", "query": "/a", "namespaces": {"p": ""}}', ":1: k: the prefix 'p' stands for an empty"),
    ("s.jsonl", '{"key": "k", "query": "/a", "namespaces": "urn:p"}', ":1: k: namespaces must be written as p=urn:"),
    ("s.jsonl", '{"key": "k", "query": "/a", "namespaces": "{7"}', ":1: k: namespaces begin like JSON, and are none"),
    ("s.jsonl", '{"key": "k", "query": "/a", "namespaces": "p=a p=b"}', ":1: k: the prefix 'p' stands for two"),
    (
        "s.jsonl",
        '{"key": "k", "query": "/a", "dialect": "sql"}',
        ":1: k: dialect must be 'xpath', 'legacy', 'doubles' or",
    ),
    ("s.jsonl", '{"key": "k"}', ":1: k: there is no query"),
    ("s.jsonl", '{"key": 7, "query": "/a"}', ":1: 7: a key is a string, not an int"),
    ("s.jsonl", '\n\n{"query": "/a"}', ":3: there is no key"),
    ("s.json", '[\n {"key": "a", "query": "/a"},\n {"key": "k"}\n]', ":3: k: there is no query"),
    ("s.json", '[\n\n {"key": "a", "query": "/a"},\n\n7]', ":5: it is no JSON object"),
    ("s.json", '[{"key": "a", "query": "/a"},\n {"key" "b"}]', ":2: it is not JSON, and nothing behind it is read"),
    ("s.json", '[{"key": "a", "query": "/a"}\n {"key": "b"}]', ":2: a comma or ] is missing"),
    ("s.json", '[{"key": "a", "query": "/a"}', ":1: a comma or ] is missing"),
    ("s.json", '[{"key": "a", "query": "/a"}] 7', ":1: something follows the array"),
    ("s.csv", "key;query;dialect\nk;/a;sql\n", ":2: k: dialect must be"),
    ("s.csv", "key,query\nk,/a,/b\n", ":2: k: it has more than the 2 fields of the first line"),
    ("s.csv", "\n\nkey,query\nk,\n", ":4: k: there is no query"),
    ("s.csv", 'key,query,namespaces\nk,"/a[b, c]",p=\n', ":2: k: the prefix 'p' stands for an empty namespace"),
]


@pytest.mark.parametrize(("name", "text", "error"), REFUSED, ids=[error for _, _, error in REFUSED])
def test_every_refusal_names_file_line_and_key(name: str, text: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    errors = [str(row) for row in read_subscriptions(path) if isinstance(row, SubscriptionFileError)]
    assert len(errors) == 1
    assert errors[0].startswith(f"{path}{error}")
    _, refused = load_subscriptions(path)
    assert [str(row) for row in refused] == errors


def test_a_header_that_lacks_a_column_says_what_may_be_meant(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("Key;Query\na;/a\n")
    with pytest.raises(SubscriptionFileError) as caught:
        list(read_subscriptions(tmp_path / "s.csv"))
    assert "its columns are 'Key', 'Query'; 'Key' may be meant to be 'key'; 'Query' may be" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.jsonl", '{"key": "a", "query": "/a", "namespace": {}}\n{"key": "b", "query": "/b", "namespace": {}}'),
        ("s.json", '[{"key": "a", "query": "/a", "namespace": {}}]'),
        ("s.csv", "key,query,namespace,owner\na,/a,,\n"),
    ],
)
def test_columns_that_resemble_others_are_warned_of_once(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.warns(SubscriptionFileWarning) as caught:
        load_subscriptions(tmp_path / name)
    assert [str(one.message) for one in caught] == [
        f"{tmp_path / name}: the column 'namespace' is not read; was 'namespaces' meant?"
    ]


@pytest.mark.parametrize(
    ("name", "text"), [("s.jsonl", ""), ("s.jsonl", "\n \n"), ("s.json", "[]"), ("s.csv", ""), ("s.csv", "key,query\n")]
)
def test_a_file_without_subscriptions_says_so(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.warns(SubscriptionFileWarning, match="there are no subscriptions in it"):
        assert list(read_subscriptions(tmp_path / name)) == []


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_compressed_files_whatever_their_format(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("s.csv", "key,query\nk,/a\n"), ("s.jsonl", '{"key": "k", "query": "/a"}'), ("s.txt", "/a")):
        data = COMPRESSIONS[suffix](text.encode())
        path = tmp_path / f"{name}.{suffix}"
        path.write_bytes(data)
        assert [row.subscription.query for row in read_subscriptions(path) if isinstance(row, SubscriptionFileRow)] == [
            "/a"
        ]
        path.write_bytes(data[:-3])
        with pytest.raises(SubscriptionFileError, match="it cannot be read"):
            list(read_subscriptions(path))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(COMPRESSIONS[suffix](b"/a"))))
    assert load_subscriptions("-")[0].keys() == ["/a"]


@pytest.mark.parametrize(
    ("data", "cure"), [(b"PK\x03\x04" + bytes(40), "save it as CSV UTF-8"), (b"\x28\xb5\x2f\xfd", "it cannot be read")]
)
def test_files_that_are_packed_in_other_ways_are_named(data: bytes, cure: str, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_bytes(data)
    with pytest.raises(SubscriptionFileError, match=cure):
        list(read_subscriptions(tmp_path / "s.csv"))


@pytest.mark.parametrize(
    ("name", "text", "line", "key"),
    [
        ("s.csv", "key,query\na,/a\nb,\"/b[. = 'ü']\"\nc,/c\n", 3, "b"),
        ("s.csv", "key;query\na;/a\nü;/b\nc;/c\n", 3, None),
        ("s.jsonl", '{"key": "a", "query": "/a"}\n{"key": "b", "query": "/ü"}\n{"key": "c", "query": "/c"}', 2, "b"),
        ("s.json", '[{"key": "a", "query": "/a"},\n{"key": "b", "query": "/ü"}, {"key": "c", "query": "/c"}]', 2, "b"),
        ("s.json", '{"a": "/a",\n "b": "/ü",\n "c": "/c"}', 2, "b"),
        ("s.txt", "/a\n\n/ü\n/c\n", 3, None),
    ],
)
def test_bytes_of_windows_1252_refuse_their_row(
    name: str, text: str, line: int, key: str | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode("cp1252"))
    loaded, (refused,) = load_subscriptions(path)
    assert len(loaded) == 2
    assert (refused.line, refused.key) == (line, key)
    assert "the byte 0xFC is not UTF-8; save the file as UTF-8 (Excel: CSV UTF-8)" in str(refused)
    path.write_text(text)
    loaded, none = load_subscriptions(path)
    assert (len(loaded), none) == (3, [])


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("s.csv", "\nkey,query,query\nk,/a,/b\n", ":2: there are several columns 'query'; leave one"),
        ("s.csv", "Key;Query\nk;/a\n", ":1: there is no column 'key' and no column 'query'"),
        ("s.csv", "sep=,\nkey;query\nk;/a\n", ":2: there is no column"),
    ],
)
def test_headers_that_cannot_be_read(name: str, text: str, error: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SubscriptionFileError) as caught:
        list(read_subscriptions(tmp_path / name))
    assert str(caught.value).startswith(f"{tmp_path / name}{error}")


@pytest.mark.parametrize("mark", list(";,\t|"))
def test_the_line_by_which_excel_names_the_separator(mark: str, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"\ufeffsep={mark}\r\nkey{mark}query\r\nk{mark}/a\r\nk{mark}/b\r\n")
    loaded, (refused,) = load_subscriptions(path)
    assert (loaded["k"].query, refused.line) == ("/a", 4)


OBJECTS: list[tuple[str, list[tuple[int, str, str]]]] = [
    ('{\n  "key": "k",\n  "query": "/a"\n}\n', [(1, "k", "/a")]),
    ('\n{\n "key": "k",\n "query": "/a"\n}\n\n{"key": "l",\n "query": "/b"}', [(2, "k", "/a"), (7, "l", "/b")]),
    ('{\n "key": "k",\n "query": "/a"},\n{"key": "l",\n "query": "/b"}', [(1, "k", "/a"), (4, "l", "/b")]),
    ('{"desk": "/a"}', [(1, "desk", "/a")]),
    ('{"desk": "/a", "é": "for $x in /b return $x"}\n\n', [(1, "desk", "/a"), (1, "é", "for $x in /b return $x")]),
    ('{\n  "desk": "/a",\n\n  "other": {"query": "//b"}\n}', [(2, "desk", "/a"), (4, "other", "//b")]),
]


@pytest.mark.parametrize(("text", "rows"), OBJECTS)
def test_objects_over_several_lines_and_queries_by_key(
    text: str, rows: list[tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.json").write_text(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    for source in (tmp_path / "s.json", "-"):
        found = [row for row in read_subscriptions(source) if isinstance(row, SubscriptionFileRow)]
        assert [(row.line, row.subscription.key, row.subscription.query) for row in found] == rows


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ('{"id": "k", "xpath": "a"}', [':1: there is no key and no query; write {"key": "...", "query": "..."}']),
        ('{"a": "/a"}\n{"b": "/b"}', [f":{line}: there is no key and no query; write" for line in (1, 2)]),
        ('{"Key": "k", "Query": "/a"}', [":1: there is no key; 'Key' is not read; was 'key' meant?"]),
        ('{"key": "k", "query": "/a", "query": "/b"}', [":1: k: a name occurs twice in it"]),
        ('{"key": "k", "query": "/p:a", "namespaces": {"p": 7}}', [":1: k: a namespace in namespaces must be str"]),
        ('{\n "key": "k",\n "query" "/a"\n}', [":1: it is not JSON, and nothing behind it is read: Expecting ':'"]),
        ('{"key": "k",\n{"key": "l", "query": "/a"}', [":1: it is not JSON: Expecting property name"]),
        ("7\n", [":1: it is no JSON object; write"]),
    ],
)
@pytest.mark.filterwarnings("ignore::twigcast.errors.SubscriptionFileWarning")
def test_objects_that_are_refused(text: str, errors: list[str], tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(text)
    found = [str(row) for row in read_subscriptions(path) if isinstance(row, SubscriptionFileError)]
    assert len(found) == len(errors)
    for one, error in zip(found, errors, strict=True):
        assert one.startswith(f"{path}{error}")


@pytest.mark.parametrize(("name", "text"), [("q.txt", "/a\n/b\n/a\n"), ("q.json", '["/a", "/b", "/a"]')])
def test_queries_that_are_repeated_in_a_list_are_read_once(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    loaded, refused = load_subscriptions(tmp_path / name)
    assert (loaded.keys(), refused) == (["/a", "/b"], [])
