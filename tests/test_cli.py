"""The command line, run as a user runs it: output, exit status, one clear line for what is wrong."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from twigcast.subscription_files import load_subscriptions

ALERTS = "urn:demo:alerts"


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.splitlines()]


def twigcast(*arguments: str | Path, cwd: Path, stdin: bytes = b"") -> Ran:
    command = [sys.executable, "-m", "twigcast", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, timeout=60, check=False)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def write_subscriptions(path: Path, rows: Sequence[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with an inbox and subscriptions."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "flood.xml").write_text(f'<alert xmlns="{ALERTS}"><event>Flood</event><event>Rain</event></alert>')
    (inbox / "story.xml").write_text("<story><p>It rains.</p></story>")
    write_subscriptions(
        tmp_path / "subs.jsonl",
        [
            {"key": "events", "query": "//a:event", "namespaces": {"a": ALERTS}},
            {"key": "stories", "query": "/story[p]"},
            {"key": "quakes", "query": "//a:event[. = 'Quake']", "namespaces": {"a": ALERTS}},
        ],
    )
    return tmp_path


# match


def test_match_writes_a_line_per_match(desk: Path) -> None:
    ran = twigcast("match", "-s", "subs.jsonl", "inbox", cwd=desk)
    assert ran.rows == [{"message": "flood.xml", "key": "events"}, {"message": "story.xml", "key": "stories"}]
    assert (ran.status, ran.err) == (0, "")


def test_match_counts_nodes(desk: Path) -> None:
    ran = twigcast("match", "-s", "subs.jsonl", "--nodes", "inbox/flood.xml", cwd=desk)
    assert ran.rows == [{"message": "flood.xml", "key": "events", "nodes": 2}]


def test_match_that_finds_nothing_says_so_by_its_status(desk: Path) -> None:
    (desk / "other.xml").write_text("<other/>")
    assert twigcast("match", "-s", "subs.jsonl", "other.xml", cwd=desk) == Ran(1, "", "")


def test_rejected_messages_are_told_and_the_others_matched(desk: Path) -> None:
    (desk / "inbox" / "bad.xml").write_text("<story>\n<p></story>")
    ran = twigcast("match", "-s", "subs.jsonl", "inbox", cwd=desk)
    assert ran.status == 3
    assert len(ran.rows) == 2
    assert ran.err.startswith("twigcast: rejected bad.xml: line 2, column ")
    assert len(ran.err.splitlines()) == 1


def test_rejected_messages_as_json(desk: Path) -> None:
    (desk / "inbox" / "bad.xml").write_text("<story>\n<p></story>")
    ran = twigcast("match", "-s", "subs.jsonl", "--errors", "json", "inbox", cwd=desk)
    rejected = json.loads(ran.err)
    assert rejected["message"] == "bad.xml"
    assert (rejected["code"], rejected["line"]) == ("message-malformed", 2)
    assert rejected["reason"]
    assert rejected["column"]


def test_match_reads_standard_input_and_records(desk: Path) -> None:
    feed = b"<feed><story><p>1</p></story><story/><story><p>3</p></story></feed>"
    ran = twigcast("match", "-s", "subs.jsonl", "--record", "story", "-", cwd=desk, stdin=feed)
    assert [row["message"] for row in ran.rows] == ["#1", "#3"]


def test_a_record_name_that_is_not_there_is_told(desk: Path) -> None:
    ran = twigcast("match", "-s", "subs.jsonl", "--record", "item", "inbox/story.xml", cwd=desk)
    assert (ran.status, ran.err) == (1, "twigcast: there are no item elements\n")


def test_namespaces_for_all_queries(desk: Path) -> None:
    write_subscriptions(desk / "s.jsonl", [{"key": "k", "query": "/a:alert"}, {"key": "l", "query": "/alert/event"}])
    ran = twigcast("match", "-s", "s.jsonl", "-n", f"a={ALERTS}", "-n", f"={ALERTS}", "inbox/flood.xml", cwd=desk)
    assert [row["key"] for row in ran.rows] == ["k", "l"]


def test_keys_and_names_of_all_kinds_are_json(desk: Path) -> None:
    write_subscriptions(desk / "s.jsonl", [{"key": 'a"\\ü\n', "query": "/*"}])
    (desk / 'x "ü".xml').write_text("<x/>")
    assert twigcast("match", "-s", "s.jsonl", 'x "ü".xml', cwd=desk).rows == [
        {"message": 'x "ü".xml', "key": 'a"\\ü\n'}
    ]


def test_answers_are_utf8_whatever_the_locale(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    write_subscriptions(desk / "s.jsonl", [{"key": "日本", "query": "/*"}])
    assert twigcast("match", "-s", "s.jsonl", "inbox/story.xml", cwd=desk).rows == [
        {"message": "story.xml", "key": "日本"}
    ]


def test_subscriptions_that_are_no_text(desk: Path) -> None:
    (desk / "s.jsonl").write_text('{"key": "k", "query": "/\\ud800"}\n{"key": "\\ud800", "query": "/a"}\n')
    ran = twigcast("check", "-s", "s.jsonl", "--json", cwd=desk)
    assert ran.status == 2
    assert len(ran.rows) == 2
    ran = twigcast("match", "-s", "s.jsonl", "inbox", cwd=desk)
    assert ran.status == 2
    assert "2 subscriptions were refused" in ran.err


# deliver


def test_deliver_writes_a_file(desk: Path) -> None:
    ran = twigcast("deliver", "-s", "subs.jsonl", "-o", "out/box", "inbox", cwd=desk)
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    rows = [json.loads(line) for line in (desk / "out/box/deliveries.jsonl").read_text().splitlines()]
    assert rows == [
        {"message": "flood.xml", "key": "events", "payload": None},
        {"message": "story.xml", "key": "stories", "payload": None},
    ]
    assert [path.name for path in (desk / "out/box").iterdir()] == ["deliveries.jsonl"]


def test_deliver_to_standard_output_with_whole_messages(desk: Path) -> None:
    ran = twigcast("deliver", "-s", "subs.jsonl", "-o", "-", "--whole", "inbox/story.xml", cwd=desk)
    assert ran.rows == [{"message": "story.xml", "key": "stories", "payload": "<story><p>It rains.</p></story>"}]


@pytest.mark.parametrize("errors", ["text", "json"])
def test_what_stays_undecided_is_told_once(desk: Path, errors: str) -> None:
    """Each subscription once, and in its line once that it is undecided and on what; whatever it fails by."""
    (desk / "inbox" / "many.xml").write_text("<f>" + "<i k='1'><n/></i>" * 4_000 + "</f>")
    reasons = {
        "costly": "the query is too expensive on this message: it looked at more than 10000000 nodes",
        "slip": "the attribute k was selected after content of the element it should go to",
    }
    costly = "for $i in //i, $j in //i where $i/n = $j/@k return <r/>"
    slip = "for $i in //i return <t>{ $i/n }{ $i/@k }</t>"
    queries = [("costly", costly), ("slip", slip), ("slip as well", slip), ("whole", "/f")]
    write_subscriptions(desk / "odd.jsonl", [{"key": key, "query": query} for key, query in queries])
    arguments = ["deliver", "-s", "odd.jsonl", "-o", "-", "--errors", errors, "inbox/many.xml"]
    ran = twigcast(*arguments, cwd=desk)
    assert (ran.status, [row["key"] for row in ran.rows]) == (0, ["whole"])
    reported = [(key, reasons[key.split()[0]]) for key, _ in queries[:3]]
    if errors == "json":
        rows = [json.loads(line) for line in ran.err.splitlines()]
        assert all(row["message"] == "many.xml" and row["code"] == "subscription-undecided" for row in rows)
        assert [(row["key"], row["reason"]) for row in rows] == reported
    else:
        lines = [f"twigcast: undecided on many.xml: the subscription '{key}': {reason}" for key, reason in reported]
        assert ran.err.splitlines() == lines


def test_deliver_to_where_nothing_can_be_written(desk: Path) -> None:
    (desk / "file").touch()
    ran = twigcast("deliver", "-s", "subs.jsonl", "-o", "file/box", "inbox", cwd=desk)
    assert ran.status == 2
    assert ran.err.startswith("twigcast: file/box/deliveries.jsonl: it cannot be written")


# check


def test_check_tells_how_a_query_runs(desk: Path) -> None:
    ran = twigcast("check", "//story//p", "/a[b = 1]", cwd=desk)
    assert ran.status == 0
    assert "normal form: " in ran.out
    assert "runs as: " in ran.out
    assert ran.out.splitlines()[0] == "//story//p"


def test_check_points_at_what_is_wrong(desk: Path) -> None:
    ran = twigcast("check", "//story[p=", "/good", cwd=desk)
    assert ran.status == 2
    first, query, pointer = ran.err.splitlines()[:3]
    assert first.startswith("twigcast: column ")
    assert query.strip() == "//story[p="
    assert pointer.index("^") == query.index("//") + len("//story[p=")
    assert "/good" in ran.out


def test_check_a_file(desk: Path) -> None:
    with (desk / "subs.jsonl").open("a") as file:
        file.write('{"key": "events", "query": "/again"}\n{"key": "bad", "query": "/p:x"}\n{"key": 1}\n')
    ran = twigcast("check", "-s", "subs.jsonl", cwd=desk)
    assert ran.status == 2
    assert [line.split(": ")[:2] for line in ran.out.splitlines()] == [
        ["subs.jsonl:1", "events"],
        ["subs.jsonl:2", "stories"],
        ["subs.jsonl:3", "quakes"],
    ]
    for position in ("subs.jsonl:4: events: ", "subs.jsonl:5: bad: column 2", "subs.jsonl:6: "):
        assert f"twigcast: {position}" in ran.err
    assert "6 subscriptions: " in ran.err
    assert "3 refused" in ran.err


def test_a_line_that_is_no_json_is_placed_once_and_rightly(desk: Path) -> None:
    text = '{"key": "a", "query": "//a"'
    (desk / "cut.jsonl").write_text(text + "\n")
    wrong = f"cut.jsonl:1: it is not JSON: Expecting ',' delimiter at column {len(text) + 1}"
    ran = twigcast("match", "-s", "cut.jsonl", "inbox", cwd=desk)
    assert (ran.status, ran.err.splitlines()) == (2, ["twigcast: 1 subscription was refused", wrong])
    ran = twigcast("check", "-s", "cut.jsonl", cwd=desk)
    assert (ran.status, ran.err.splitlines()) == (2, [f"twigcast: {wrong}", "1 subscription: 1 refused"])


def test_check_as_json(desk: Path) -> None:
    ran = twigcast("check", "--json", "/a", "/a[", cwd=desk)
    good, bad = ran.rows
    assert set(good) == {"query", "normal_form", "route", "reason", "warnings"}
    assert bad["query"] == "/a["
    assert isinstance(bad["error"], dict)
    assert bad["error"]["code"] == "query-syntax"
    assert ran.status == 2


def test_check_wants_queries_or_a_file(desk: Path) -> None:
    for arguments in ([], ["/a", "-s", "subs.jsonl"]):
        ran = twigcast("check", *arguments, cwd=desk)
        assert ran.status == 2
        assert "give either queries or -s SUBSCRIPTIONS" in ran.err


# errors and habits


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["match", "-s", "missing.jsonl", "inbox"], "twigcast: missing.jsonl: it cannot be read"),
        (["match", "-s", "subs.jsonl", "missing.xml"], "twigcast: missing.xml: there is no such file or folder"),
        (["deliver", "-s", "subs.jsonl", "-o", "-", "missing"], "twigcast: missing: there is no such file or folder"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(desk: Path, arguments: list[str], line: str) -> None:
    ran = twigcast(*arguments, cwd=desk)
    assert ran.status == 2
    assert ran.err.startswith(line)
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [["match", "inbox"], ["match", "-s", "subs.jsonl"], ["nonsense"], ["match", "--what"]]
)
def test_bad_usage(desk: Path, arguments: list[str]) -> None:
    ran = twigcast(*arguments, cwd=desk)
    assert ran.status == 2
    assert "Usage: twigcast" in ran.err
    assert ran.out == ""


def test_bad_namespace_options(desk: Path) -> None:
    ran = twigcast("match", "-s", "subs.jsonl", "-n", "urn:x", "inbox", cwd=desk)
    assert ran.status == 2
    assert "'urn:x' is not PREFIX=URI" in ran.err


@pytest.mark.parametrize("command", ["match", "deliver"])
def test_refused_subscriptions_stop_the_work_or_are_left_out(desk: Path, command: str) -> None:
    with (desk / "subs.jsonl").open("a") as file:
        file.write('{"key": "bad", "query": "/x["}\n')
    arguments = [command, "-s", "subs.jsonl", "inbox", *(["-o", "-"] if command == "deliver" else [])]
    ran = twigcast(*arguments, cwd=desk)
    assert (ran.status, ran.out) == (2, "")
    assert "1 subscription was refused" in ran.err
    assert "subs.jsonl:4: bad: column 4" in ran.err
    ran = twigcast(*arguments, "--on-bad-subscription", "skip", cwd=desk)
    assert ran.status == 0
    assert len(ran.rows) == 2
    assert "twigcast: left out: subs.jsonl:4: bad: " in ran.err


def test_a_reader_that_goes_away_ends_it_quietly(desk: Path) -> None:
    records = b"<r>" + b"<story><p/></story>" * 50_000 + b"</r>"
    (desk / "feed.xml").write_bytes(records)
    command = [sys.executable, "-m", "twigcast", "match", "-s", "subs.jsonl", "--record", "story", "feed.xml"]
    with subprocess.Popen(command, cwd=desk, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, b"")


def _unread_bytes(pipe: int) -> int:
    """The bytes in a pipe that its reader has not taken yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_ctrl_c_ends_it_quietly(desk: Path) -> None:
    os.mkfifo(desk / "pipe")
    command = [sys.executable, "-m", "twigcast", "match", "-s", "subs.jsonl", "pipe"]
    # Opening the pipe blocks until the command has opened the other end.
    with (
        subprocess.Popen(command, cwd=desk, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        (desk / "pipe").open("wb", buffering=0) as pipe,
    ):
        pipe.write(b"<message>")
        while _unread_bytes(pipe.fileno()):  # until the command waits for the rest
            assert process.poll() is None
            time.sleep(0.01)
        # A signal just before the command blocks is only seen when it wakes: a user would press the keys again.
        for _ in range(30):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1)
                break
        out, errors = process.communicate(timeout=5)
    assert (process.returncode, out, errors) == (130, b"", b"")


def test_version_and_help(desk: Path) -> None:
    assert twigcast("--version", cwd=desk).out.startswith("twigcast ")
    ran = twigcast("--help", cwd=desk)
    assert ran.status == 0
    for command in ("match", "deliver", "check", "explain", "pipeline", "serve", "admin"):
        assert command in ran.out
    assert "..." not in ran.out.replace("[ARGS]...", ""), "a summary is cut"


@pytest.mark.parametrize("command", ["match", "deliver", "check", "explain", "pipeline"])
def test_help_has_examples(desk: Path, command: str) -> None:
    ran = twigcast(command, "--help", cwd=desk)
    assert ran.status == 0
    assert f"  twigcast {command} " in ran.out, "an example, on a line of its own"
    assert "Exit status: " in ran.out


# explain


def test_explain_tells_where_a_query_fails(desk: Path) -> None:
    ran = twigcast("explain", "-n", f"a={ALERTS}", "-q", "//a:event[. = 'Quake']", "inbox", cwd=desk)
    assert ran.status == 0
    assert ran.out.startswith("flood.xml does not match: //a:event[. = 'Quake']\n")
    assert '(. is "Flood")' in ran.out
    assert "story.xml does not match: " in ran.out


def test_explain_as_json(desk: Path) -> None:
    (desk / "inbox" / "bad.xml").write_text("<story>")
    ran = twigcast("explain", "--json", "-q", "/story/p", "inbox", cwd=desk)
    assert ran.status == 3
    assert [(row["message"], row["matches"]) for row in ran.rows] == [("flood.xml", False), ("story.xml", True)]
    assert "rejected bad.xml" in ran.err


def test_explain_takes_a_subscription_from_a_file(desk: Path) -> None:
    subscriptions, refused = load_subscriptions(desk / "subs.jsonl")
    assert not refused
    subscriptions.save(desk / "subs.snapshot")
    by_query = twigcast("explain", "--json", "-n", f"a={ALERTS}", "-q", "//a:event[. = 'Quake']", "inbox", cwd=desk)
    for name in ("subs.jsonl", "subs.snapshot"):
        assert twigcast("explain", "--json", "-s", name, "--key", "quakes", "inbox", cwd=desk).rows == by_query.rows
    ran = twigcast("explain", "-s", "subs.jsonl", "--key", "nobody", "inbox", cwd=desk)
    assert (ran.status, ran.err) == (2, "twigcast: there is no subscription with the key 'nobody'\n")


@pytest.mark.parametrize("arguments", [[], ["-q", "/a", "--key", "k"], ["-s", "subs.jsonl"], ["--key", "quakes"]])
def test_explain_wants_one_query(desk: Path, arguments: list[str]) -> None:
    ran = twigcast("explain", *arguments, "inbox", cwd=desk)
    assert ran.status == 2
    assert "give either -q QUERY or -s SUBSCRIPTIONS --key KEY" in ran.err


def test_undeclared_prefixes_are_advised_on_in_options(desk: Path) -> None:
    (desk / "undeclared.jsonl").write_text('{"key": "k", "query": "//cap:info"}\n')
    for arguments in (["check", "//cap:info"], ["match", "-s", "undeclared.jsonl", "inbox"]):
        ran = twigcast(*arguments, cwd=desk)
        assert ran.status == 2
        assert "declare it, as in -n cap=URI, or write *:name" in ran.err
        assert "namespaces=" not in ran.err
    ran = twigcast("check", "declare namespace x = 'urn:x'; for $a in /b return $a", cwd=desk)
    assert "as in -n p=URI" in ran.err


def test_explain_points_at_what_is_wrong_with_the_query(desk: Path) -> None:
    ran = twigcast("explain", "-q", "/story[", "inbox", cwd=desk)
    assert ran.status == 2
    assert ran.err.splitlines()[-1].strip() == "^"
