"""The command line, run as a user runs it: output, exit status, one clear line for what is wrong."""

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from typer.testing import CliRunner

from twigcast import SubscriptionSet
from twigcast.cli import app
from twigcast.cli.colours import painted_table
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
    assert twigcast("match", "-s", "subs.jsonl", "other.xml", cwd=desk) == Ran(4, "", "")


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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "completed"), [("ma", ["match"]), ("match --sh", ["--show"]), ("match --show ", ["nodes", "paths"])]
)
def test_shells_complete_commands_options_and_values(shell: str, words: str, completed: list[str]) -> None:
    words = f"twigcast {words}"
    asked = {
        "_TWIGCAST_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = CliRunner().invoke(app, env=asked, prog_name="twigcast")
    assert all(word in done.output for word in completed), done.output


@pytest.mark.parametrize("start", ["", "<?xml version='1.0'?>", "<!DOCTYPE story>"])
def test_several_documents_in_one_file_are_told_of_with_their_option(desk: Path, start: str) -> None:
    (desk / "inbox" / "log.xml").write_text(f"{start}<story><p/></story>\n" * 2)
    for options in ([], ["--record", "story"]):
        ran = twigcast("match", "-s", "subs.jsonl", *options, "inbox/log.xml", cwd=desk)
        assert ran.status == 3
        assert "line 2, column 1: " in ran.err
        assert ran.err.count("--documents") == 1
    assert twigcast("match", "-s", "subs.jsonl", "--documents", "inbox/log.xml", cwd=desk).err == ""


def test_match_reads_standard_input_and_records(desk: Path) -> None:
    feed = b"<feed><story><p>1</p></story><story/><story><p>3</p></story></feed>"
    ran = twigcast("match", "-s", "subs.jsonl", "--record", "story", "-", cwd=desk, stdin=feed)
    assert [row["message"] for row in ran.rows] == ["-#1", "-#3"]


def test_a_record_name_that_is_not_there_is_told(desk: Path) -> None:
    ran = twigcast("match", "-s", "subs.jsonl", "--record", "item", "inbox/story.xml", cwd=desk)
    assert (ran.status, ran.err) == (4, "twigcast: there are no item elements\n")


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
        "costly": "the query is too expensive on this message: 10981599 visits gave no answer, and the 11058240 for "
        "all queries together were used up (message_visits_max, group_visits_max); a condition on a value, such as "
        "[@kind = 'x'], beside the expensive one keeps it from most messages",
        "slip": "the attribute k was selected after content of the element it should go to",
    }
    costly = "for $i in //i, $j in //i where $i/n < $j/@k return <r/>"
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


def test_check_warns_of_a_query_that_is_the_path_of_a_file(desk: Path) -> None:
    ran = twigcast("check", "subs.jsonl", "/no/file", "x" * 5_000, cwd=desk)
    assert ran.status == 0
    assert ran.err.count("warning") == 1
    assert "for those in the file of this name: -s subs.jsonl" in ran.err


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
    assert set(good) == {"query", "normal_form", "route", "reason", "cover", "cost", "warnings"}
    assert bad["query"] == "/a["
    assert isinstance(bad["error"], dict)
    assert bad["error"]["code"] == "query-syntax"
    assert ran.status == 2


def test_check_as_json_names_file_line_and_key(desk: Path) -> None:
    rows: list[dict[str, object]] = [
        {"key": "a", "query": "/a"},
        {"key": "b", "query": "/b["},
        {"key": "a", "query": "/c"},
        {"key": "d"},
    ]
    write_subscriptions(desk / "s.jsonl", rows)
    ran = twigcast("check", "-s", "s.jsonl", "--json", cwd=desk)
    assert [(row["path"], row["line"], row["key"]) for row in ran.rows] == [
        ("s.jsonl", line, key) for line, key in enumerate("abad", start=1)
    ]
    codes = [row["error"]["code"] for row in ran.rows if isinstance(row.get("error"), dict)]  # type: ignore[index]
    assert codes == ["query-syntax", "subscription-duplicate-key", "subscription-file"]
    error = ran.rows[3]["error"]
    assert error == {
        "code": "subscription-file",
        "reason": "there is no query",
        "line": 4,
        "path": "s.jsonl",
        "key": "d",
    }


def test_check_by_a_dtd_says_which_names_no_message_can_have(desk: Path) -> None:
    dtd = desk / "story.dtd"
    dtd.write_text("<!ELEMENT story (topic)><!ELEMENT topic (#PCDATA)><!ATTLIST topic kind (sport | world) #IMPLIED>")
    rows: list[dict[str, object]] = [
        {"key": "good", "query": "//topic[@kind = $kind]", "params": {"kind": "world"}},
        {"key": "name", "query": "//topics"},
        {"key": "value", "query": "//topic[@kind = $kind]", "params": {"kind": "weather"}},
    ]
    write_subscriptions(desk / "s.jsonl", rows)
    ran = twigcast("check", "--dtd", "story.dtd", "-s", "s.jsonl", "--json", cwd=desk)
    assert [row["warnings"] for row in ran.rows] == [
        [],
        ["no message that follows the DTD matches: there is no element topics; did you mean topic?"],
        ["no message that follows the DTD matches: kind of topic is never 'weather', but sport or world"],
    ]
    assert ran.status == 0
    dtd.write_text("<!ELEMENT story")
    refused = twigcast("check", "--dtd", "story.dtd", "//topic", cwd=desk)
    assert refused.status == 2
    assert refused.err.startswith("twigcast: story.dtd: not a DTD: ")


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
        for _ in range(6):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
                break
        out, errors = process.communicate(timeout=30)
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


@pytest.mark.parametrize("arguments", [[], ["-q", "/a", "--key", "k"], ["--key", "quakes"]])
def test_explain_wants_one_query(desk: Path, arguments: list[str]) -> None:
    ran = twigcast("explain", *arguments, "inbox", cwd=desk)
    assert ran.status == 2
    assert "give either -q QUERY or -s SUBSCRIPTIONS" in ran.err


def test_undeclared_prefixes_are_advised_on_in_options(desk: Path) -> None:
    (desk / "undeclared.jsonl").write_text('{"key": "k", "query": "//cap:info"}\n')
    for arguments in (["check", "//cap:info"], ["match", "-s", "undeclared.jsonl", "inbox"]):
        ran = twigcast(*arguments, cwd=desk)
        assert ran.status == 2
        assert "declare it, as in -n cap=urn:oasis:names:tc:emergency:cap:1.2, or write *:name" in ran.err
        assert "namespaces=" not in ran.err
    ran = twigcast("check", "declare namespace x = 'urn:x'; for $a in /b return $a", cwd=desk)
    assert "as in -n p=URI" in ran.err


def test_explain_points_at_what_is_wrong_with_the_query(desk: Path) -> None:
    ran = twigcast("explain", "-q", "/story[", "inbox", cwd=desk)
    assert ran.status == 2
    assert ran.err.splitlines()[-1].strip() == "^"


# queries on the command line, and what matched


def test_queries_of_the_command_line_are_their_own_keys(desk: Path) -> None:
    query = "//a:event[. = 'Flood']"
    for command, rest in (("match", []), ("deliver", ["-o", "-"])):
        ran = twigcast(command, "-q", query, "-q", "/story", "-n", f"a={ALERTS}", *rest, "inbox", cwd=desk)
        assert [(row["message"], row["key"]) for row in ran.rows] == [("flood.xml", query), ("story.xml", "/story")]
        assert (ran.status, ran.err) == (0, "")
        ran = twigcast(command, "-s", "subs.jsonl", "-q", "/story", *rest, "inbox/story.xml", cwd=desk)
        assert [row["key"] for row in ran.rows] == ["stories", "/story"]
        ran = twigcast(command, *rest, "inbox", cwd=desk)
        assert ran.status == 2
        assert "give -s SUBSCRIPTIONS or -q QUERY" in ran.err


def test_a_query_of_the_command_line_that_is_refused_or_looks_wrong(desk: Path) -> None:
    ran = twigcast("match", "-q", "/story[", "inbox", cwd=desk)
    assert (ran.status, ran.out) == (2, "")
    assert "column 8" in ran.err
    ran = twigcast("match", "-q", "/story[false()]", "inbox", cwd=desk)
    assert (ran.status, ran.err) == (4, "twigcast: warning: /story[false()]: no message can match this query\n")


def test_match_shows_what_matched(desk: Path) -> None:
    arguments = ["match", "-s", "subs.jsonl", "inbox/flood.xml"]
    markup = ["<event>Flood</event>", "<event>Rain</event>"]
    paths = ["/*:alert/*:event[1]", "/*:alert/*:event[2]"]
    head: dict[str, object] = {"message": "flood.xml", "key": "events"}
    assert twigcast(*arguments, "--show", "nodes", cwd=desk).rows == [{**head, "markup": markup}]
    assert twigcast(*arguments, "--show", "paths", cwd=desk).rows == [{**head, "paths": paths}]
    assert twigcast(*arguments, "--show", "text", cwd=desk).rows == [{**head, "text": ["Flood", "Rain"]}]
    both = twigcast(*arguments, "--nodes", "--show", "text", "--show", "paths", cwd=desk)
    assert both.rows == [{**head, "nodes": 2, "text": ["Flood", "Rain"], "paths": paths}]
    for path in paths:
        shown = twigcast("match", "-q", path, "--show", "paths", "inbox/flood.xml", cwd=desk)
        assert shown.rows == [{"message": "flood.xml", "key": path, "paths": [path]}]


def test_a_record_may_have_a_prefix_of_the_options(desk: Path) -> None:
    feed = b"<f xmlns='urn:f'><i xmlns='urn:i'><k/></i><i/><other:i xmlns:other='urn:i'/></f>"
    for name in ("p:i", "{urn:i}i"):
        ran = twigcast("match", "-q", "/*", "-n", "p=urn:i", "--record", name, "-", cwd=desk, stdin=feed)
        assert [row["message"] for row in ran.rows] == ["-#1", "-#2"]
    ran = twigcast("match", "-q", "/*", "-n", "p=urn:i", "--record", "other:i", "-", cwd=desk, stdin=feed)
    assert [row["message"] for row in ran.rows] == ["-#1"], "a prefix that is not declared is the document's"


# explaining a whole file


def test_explain_a_whole_file_lists_matches_and_explains_the_nearest(desk: Path) -> None:
    with (desk / "subs.jsonl").open("a") as file:
        for key, query in (("far", "/nothing/at/all"), ("near", "/a:alert[a:event = 'Flood'][a:level = 3]")):
            file.write(json.dumps({"key": key, "query": query, "namespaces": {"a": ALERTS}}) + "\n")
    ran = twigcast("explain", "-s", "subs.jsonl", "inbox/flood.xml", cwd=desk)
    assert (ran.status, ran.err) == (0, "")
    heads = [line.split(" does not")[0] for line in ran.out.splitlines() if not line.startswith("    ")]
    assert heads == [
        "flood.xml: 1 of 5 subscriptions match",
        "  + events",
        "  - near",
        "  - quakes",
        "  - stories",
        "  - far",
    ]
    assert "a:level = 3  (a:level selects nothing)" in ran.out
    ran = twigcast("explain", "-s", "subs.jsonl", "--nearest", "1", "inbox/flood.xml", cwd=desk)
    assert ran.out.splitlines()[-1] == "  3 more do not match; --nearest N shows more"
    ran = twigcast("explain", "-s", "subs.jsonl", "--json", "inbox", cwd=desk)
    rows = [(row["message"], row["key"], row["matches"]) for row in ran.rows]
    assert rows[:2] == [("flood.xml", "events", True), ("flood.xml", "near", False)]
    assert len(rows) == 10
    nearness = [row["nearness"] for row in ran.rows[1:5]]
    assert nearness == sorted(nearness, reverse=True)  # type: ignore[type-var]


# what cannot be read or written


@pytest.mark.parametrize(
    "arguments",
    [
        ["match", "-s", "subs.jsonl", "inbox"],
        ["match", "-s", "subs.jsonl", "--show", "paths", "inbox"],
        ["deliver", "-s", "subs.jsonl", "-o", "-", "inbox"],
        ["check", "-s", "subs.jsonl"],
        ["explain", "-s", "subs.jsonl", "inbox"],
        ["--version"],
        ["--help"],
        ["experiment", "list"],
    ],
    ids=" ".join,
)
def test_a_full_disk_is_told_in_one_sentence(desk: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "twigcast", *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, cwd=desk, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    sentence = "twigcast: standard output: it cannot be written or read: No space left on device"
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == sentence
    assert "Traceback" not in done.stderr


def test_a_fault_is_neither_a_full_disk_nor_nothing_matched(desk: Path) -> None:
    code = (
        "import sys\nfrom twigcast.subscriptions import SubscriptionSet\nfrom twigcast.cli import main\n"
        "def broken(*_): raise ZeroDivisionError('a fault')\n"
        "SubscriptionSet.match = broken\nsys.argv = ['twigcast', 'match', '-q', '/a', 'inbox']\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=desk, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "ZeroDivisionError: a fault" in done.stderr


def test_a_missing_path_does_not_keep_the_others_from_being_read(desk: Path) -> None:
    for command, rest in (("match", ["-s", "subs.jsonl"]), ("deliver", ["-s", "subs.jsonl", "-o", "-"])):
        ran = twigcast(command, *rest, "nowhere.xml", "inbox", "neither/", cwd=desk)
        assert [row["message"] for row in ran.rows] == ["flood.xml", "story.xml"]
        assert ran.status == 2
        assert [line.split(": ")[1] for line in ran.err.splitlines()] == ["nowhere.xml", "neither/"]
    ran = twigcast("explain", "-q", "/story", "nowhere.xml", "inbox/story.xml", cwd=desk)
    assert (ran.status, ran.out.startswith("story.xml matches")) == (2, True)


@pytest.mark.parametrize("name", ["empty.jsonl", "empty.csv", "empty.json", "empty.txt"])
def test_an_empty_file_of_subscriptions_is_told_alike(desk: Path, name: str) -> None:
    (desk / name).write_text("[]" if name.endswith(".json") else "")
    said = f"twigcast: warning: {name}: there are no subscriptions in it"
    ran = twigcast("check", "-s", name, cwd=desk)
    assert (ran.status, ran.err.splitlines()) == (0, [said, "0 subscriptions: 0 refused"])
    assert twigcast("match", "-s", name, "inbox", cwd=desk) == Ran(4, "", f"{said}\n")
    assert twigcast("deliver", "-s", name, "-o", "-", "inbox", cwd=desk) == Ran(0, "", f"{said}\n")


def test_columns_that_are_not_read_are_told(desk: Path) -> None:
    (desk / "s.csv").write_text("key;query;namespace\nk;/story;\n")
    ran = twigcast("match", "-s", "s.csv", "inbox", cwd=desk)
    assert ran.err == "twigcast: warning: s.csv: the column 'namespace' is not read; was 'namespaces' meant?\n"
    assert [row["key"] for row in ran.rows] == ["k"]


def test_replacing_the_deliveries_of_an_earlier_run_is_told(desk: Path) -> None:
    arguments = ["deliver", "-s", "subs.jsonl", "-o", "out", "inbox"]
    assert twigcast(*arguments, cwd=desk).err == ""
    again = twigcast(*arguments, cwd=desk)
    assert (again.status, again.err) == (0, "twigcast: out/deliveries.jsonl: the file of an earlier run is replaced\n")


@pytest.mark.parametrize("namespace", ["p=", "xml=urn:x", "1=urn:x"])
def test_namespaces_that_no_prefix_can_stand_for(desk: Path, namespace: str) -> None:
    ran = twigcast("match", "-q", "/a", "-n", namespace, "inbox", cwd=desk)
    assert ran.status == 2
    assert "prefix" in ran.err


# colours


def test_colours_are_for_terminals_and_who_forces_them(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [
        ["explain", "-q", "/story[q]", "inbox"],
        ["explain", "-s", "subs.jsonl", "inbox"],
        ["check", "/a"],
        ["check", "-s", "subs.jsonl"],
    ]
    monkeypatch.setenv("NO_COLOR", "")
    for arguments in commands:
        plain = twigcast(*arguments, cwd=desk)
        assert "\x1b" not in plain.out + plain.err
        with monkeypatch.context() as forced:
            forced.setenv("FORCE_COLOR", "1")
            coloured = twigcast(*arguments, cwd=desk)
        assert "\x1b[" in coloured.out + coloured.err
        without = re.compile("\x1b\\[[0-9]*m")
        assert (without.sub("", coloured.out), without.sub("", coloured.err)) == (plain.out, plain.err)


def test_a_terminal_has_colours_unless_the_user_wants_none(desk: Path) -> None:
    for environment, expected in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        leader, follower = os.openpty()
        command = [sys.executable, "-m", "twigcast", "check", "/a"]
        variables = {**os.environ, "TERM": "xterm", "NO_COLOR": "", "FORCE_COLOR": "", **environment}
        subprocess.run(command, cwd=desk, env=variables, stdout=follower, stderr=follower, timeout=60, check=True)
        os.close(follower)
        assert (b"\x1b[1m" in os.read(leader, 65_536)) == expected
        os.close(leader)


def test_a_summary_shows_rejected_messages_in_red(monkeypatch: pytest.MonkeyPatch) -> None:
    table = "messages  5\nrejected  2"
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert painted_table(table, {"rejected": "red"}) == "messages  5\n\x1b[31mrejected  2\x1b[0m"
    monkeypatch.setenv("FORCE_COLOR", "")
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted_table(table, {"rejected": "red"}) == table


# reading


def test_prefixes_are_those_of_the_namespaces_in_all_options_of_reading(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(
        "<l xmlns:y='urn:b'><g y:v='1'><i><y:id>one</y:id></i></g><g><i><id xmlns='urn:b'>two</id></i></g></l>"
    )
    arguments = ["match", "-q", "/i/@z:v", "-n", "z=urn:b", "--record", "i", "a.xml"]
    for inherit in ("z:v", "{urn:b}v", "@z:v"):
        ran = twigcast(*arguments, "--inherit", inherit, "--record-id", "z:id", cwd=tmp_path)
        assert (ran.rows, ran.err) == ([{"message": "one", "key": "/i/@z:v"}], "")
    ran = twigcast(*arguments, "--inherit", "mispelt", "--inherit", "z:v", cwd=tmp_path)
    assert "warning: --inherit mispelt: nothing of this name" in ran.err
    assert "z:v" not in ran.err
    ran = twigcast(*arguments, "--record-id", "{urn:b", cwd=tmp_path)
    assert (ran.status, "--record-id" in ran.err) == (2, True)


@pytest.mark.parametrize("options", [["--entities", "html"], ["--dtd", "a.dtd"], ["--tolerant"], []])
def test_whole_messages_are_the_document_of_the_library(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "a.dtd").write_text("<!ATTLIST i k ID #IMPLIED><!ENTITY copy 'c'>")
    message = b"<?xml version='1.0'?>\n<!DOCTYPE r [\n<!ENTITY e 'E'>\n]>\n<r><i k='x'>&e;</i></r>"
    (tmp_path / "a.xml").write_bytes(message)
    ran = twigcast("deliver", "-q", "/r", "--whole", "-o", "-", *options, "a.xml", cwd=tmp_path)
    dtd = tmp_path / "a.dtd" if "--dtd" in options else None
    entities: Literal["html"] | None = "html" if "--entities" in options else None
    subscriptions = SubscriptionSet({"/r": "/r"}, entities=entities, dtd=dtd, tolerant="--tolerant" in options)
    [delivery] = subscriptions.deliver(message)
    assert [row["payload"] for row in ran.rows] == [delivery.payload.decode()]
    assert delivery.payload == b"<?xml version='1.0'?>\n<r><i k='x'>E</i></r>"


def test_paths_and_texts_of_names_that_only_the_fifth_edition_allows(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text('<r><Ⰰ x="1">t</Ⰰ></r>')
    ran = twigcast("match", "-q", "//Ⰰ", "--show", "paths", "--show", "text", "m.xml", cwd=tmp_path)
    assert (ran.status, ran.rows) == (0, [{"message": "m.xml", "key": "//Ⰰ", "paths": ["/r/Ⰰ"], "text": ["t"]}])


def closed(arguments: Sequence[str], which: str, cwd: Path) -> Ran:
    """Runs a command with some of its standard streams closed, as a shell does for ``>&-``."""
    command = f'exec "$0" -m twigcast "$@" {which}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, *arguments], cwd=cwd, capture_output=True, timeout=60, check=False
    )
    assert b"Traceback" not in done.stderr + done.stdout
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    "arguments",
    [
        ["match", "-q", "//p", "inbox"],
        ["match", "-q", "//p", "--show", "paths", "inbox"],
        ["deliver", "-q", "//p", "-o", "-", "inbox"],
        ["check", "//p"],
        ["check", "-s", "subs.jsonl", "--json"],
        ["explain", "-q", "//p", "inbox"],
        ["--version"],
        ["match", "--help"],
    ],
)
def test_closed_standard_output_is_told(arguments: list[str], desk: Path) -> None:
    ran = closed(arguments, ">&-", desk)
    assert (ran.status, ran.err.splitlines()[-1]) == (
        2,
        "twigcast: standard output: it cannot be written or read: Bad file descriptor",
    )


def test_closed_streams_that_nothing_is_written_to_or_read_from_do_no_harm(desk: Path) -> None:
    assert closed(["deliver", "-q", "//p", "-o", "out", "inbox"], ">&-", desk).status == 0
    assert [row["message"] for row in map(json.loads, (desk / "out/deliveries.jsonl").read_text().splitlines())] == [
        "story.xml"
    ]
    assert closed(["match", "-q", "//p", "inbox"], "<&- 2>&-", desk).rows == [{"message": "story.xml", "key": "//p"}]
    ran = closed(["match", "-q", "//p", "inbox", "missing.xml"], "2>&-", desk)
    assert (ran.status, ran.rows) == (2, [{"message": "story.xml", "key": "//p"}])
    ran = closed(["match", "-q", "//p", "-"], "<&-", desk)
    assert (ran.status, ran.err) == (3, "twigcast: rejected -: it cannot be read: Bad file descriptor\n")


@pytest.mark.parametrize("messages", [["nope.xml"], ["broken.xml"], ["nope.xml", "broken.xml"]])
def test_deliveries_are_kept_where_no_message_could_be_read(messages: list[str], desk: Path) -> None:
    assert twigcast("deliver", "-q", "//p", "-o", "out", "inbox", cwd=desk).status == 0
    (desk / "broken.xml").write_text("<a>")
    before = (desk / "out/deliveries.jsonl").read_bytes()
    ran = twigcast("deliver", "-q", "//p", "-o", "out", *messages, cwd=desk)
    assert ran.status in (2, 3)
    assert "the file of an earlier run is kept, as no message could be read" in ran.err
    assert (desk / "out/deliveries.jsonl").read_bytes() == before
    assert [path.name for path in (desk / "out").iterdir()] == ["deliveries.jsonl"]
    assert twigcast("deliver", "-q", "//p", "-o", "out", *messages, "inbox/flood.xml", cwd=desk).status in (2, 3)
    assert (desk / "out/deliveries.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    "arguments",
    [
        ["match", "-s", "-", "-"],
        ["match", "-q", "/a", "-", "-"],
        ["match", "-s", "-", "inbox", "-"],
        ["deliver", "-s", "-", "-o", "-", "-"],
        ["explain", "-s", "-", "-"],
        ["explain", "-s", "-", "--key", "/a", "-"],
    ],
)
def test_standard_input_is_not_read_twice(arguments: list[str], desk: Path) -> None:
    ran = twigcast(*arguments, cwd=desk, stdin=b"/a\n")
    assert (ran.status, ran.out) == (2, "")
    assert "standard input, which can be read once" in ran.err
    assert twigcast("match", "-s", "-", "inbox", cwd=desk, stdin=b"//p\n").rows == [
        {"message": "story.xml", "key": "//p"}
    ]


@pytest.mark.parametrize(
    ("arguments", "wanted", "unwanted"),
    [
        (["check", "//a[@k = $x]"], '"params": {"x": "..."}', "params={"),
        (["check", "for $a in /b return $x"], '"params": {"x": "..."}', "params={"),
        (["check", "/a/[b]"], "--dialect legacy", "dialect="),
        (["check", "deep-equal(a, b)"], "--dialect xquery", "dialect="),
        (["check", "//p:a"], "-n p=URI", "namespaces="),
        (["check", "/a" * 1_100], "--limit query_steps_max=NUMBER", "limits="),
        (["match", "-q", "/a", "entity.xml"], "(--entities html)", "entities="),
        (["match", "-q", "/a[. > 1]", "number.xml"], "--numbers xs:double", "numbers="),
    ],
)
def test_advice_is_in_terms_of_the_command_line(arguments: list[str], wanted: str, unwanted: str, desk: Path) -> None:
    (desk / "entity.xml").write_text("<a>&uuml;</a>")
    (desk / "number.xml").write_text("<a>1e5</a>")
    ran = twigcast(*arguments, cwd=desk)
    assert wanted in ran.err
    assert unwanted not in ran.err


@pytest.mark.parametrize("options", [["--when", '{"throttle": "1 h"}', "--time", "/a/@t"], ["--profile", "cap"]])
def test_limits_count_for_all_that_reads_a_message(options: list[str], desk: Path) -> None:
    depth = 3_000
    (desk / "deep.xml").write_text(f"<a t='2026-11-30T02:00:00Z'>{'<b>' * depth}{'</b>' * depth}</a>")
    ran = twigcast("deliver", "-q", "/a", *options, "--limit", "depth_max=4000", "-o", "-", "deep.xml", cwd=desk)
    assert (ran.status, [row["message"] for row in ran.rows]) == (0, ["deep.xml"]), ran.err
    ran = twigcast("deliver", "-q", "/a", *options, "-o", "-", "deep.xml", cwd=desk)
    assert (ran.status, ran.out) == (3, "")
