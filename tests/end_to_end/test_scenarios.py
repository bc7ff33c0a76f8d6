"""The scenarios of reading, rewriting and costs that the broker has no part in, by the command line and the library."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from twigcast.subscriptions import SubscriptionSet


def twigcast(*arguments: str, stdin: bytes = b"") -> tuple[int, list[dict[str, Any]], str]:
    """Runs the command line: its status, the objects it wrote, and what it said."""
    done = subprocess.run([sys.executable, "-m", "twigcast", *arguments], input=stdin, capture_output=True, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def test_n08_what_a_feed_says_holds_for_the_entries_that_are_cut_from_it(tmp_path: Path) -> None:
    path = tmp_path / "f.xml"
    path.write_text("<feed xml:lang='de'><author>A</author><entry><t/></entry></feed>")
    for query in ("/entry[lang('de')]", "/entry[author = 'A']"):
        status, found, _ = twigcast("match", "--record", "entry", "--inherit", "author", "-q", query, str(path))
        assert (status, len(found)) == (0, 1), query


@pytest.mark.parametrize(
    ("record", "text", "count"),
    [
        ("/i/i", "<i><i><k/></i><i/></i>", 2),  # N-09
        ("a/p", "<r><a><p/></a><b><p/></b></r>", 1),  # N-10
    ],
)
def test_n09_n10_records_are_named_by_paths(tmp_path: Path, record: str, text: str, count: int) -> None:
    path = tmp_path / "d.xml"
    path.write_text(text)
    status, found, _ = twigcast("match", "--record", record, "-q", "/i | /p", str(path))
    assert (status, len(found)) == (0, count)


@pytest.mark.parametrize("record", [(), ("--record", "p")])
def test_n11_several_documents_follow_each_other(record: tuple[str, ...]) -> None:
    good, broken = b"<r><p/></r>\n<r><p/></r>\n", b"<r><p/></r>\n<r><p></r>\n<r><p/></r>\n"
    status, found, _ = twigcast("match", "--documents", *record, "-q", "//p[not(*)]", "-", stdin=good)
    assert (status, len(found)) == (0, 2)
    status, found, said = twigcast("match", "--documents", *record, "-q", "//p[not(*)]", "-", stdin=broken)
    assert (status, len(found)) == (3, 2)
    assert "line 2, column 7" in said


def test_n22_the_declaration_of_text_that_is_decoded_says_nothing() -> None:
    text = "<?xml version='1.0' encoding='utf-16'?><r>\u20ac</r>"
    subscriptions = SubscriptionSet()
    subscriptions.add("k", "/r[. = '\u20ac']")
    assert list(subscriptions.match(text)) == ["k"]
    for column in (pa.array([text]), pa.array([text], pa.large_string()), pa.array([text]).dictionary_encode()):
        assert subscriptions.match_batch(column).column("keys").to_pylist() == [["k"]]


def test_n23_an_entity_of_a_dtd_that_is_not_read_rejects_its_record_alone(tmp_path: Path) -> None:
    path = tmp_path / "dblp.xml"
    path.write_text('<!DOCTYPE dblp SYSTEM "dblp.dtd">\n<dblp><a>M&uuml;ller</a><a>x</a></dblp>')
    status, found, said = twigcast("match", "--record", "a", "-q", "/a", str(path))
    assert (status, [item["message"] for item in found]) == (3, ["dblp.xml#2"])
    assert '"uuml"' in said
    status, found, _ = twigcast("match", "--record", "a", "--entities", "html", "-q", "/a[. = 'Müller']", str(path))
    assert (status, len(found)) == (0, 1)


def milliseconds(subscriptions: SubscriptionSet, message: bytes) -> float:
    """The least time of a match, so that other work of the machine does not count."""
    subscriptions.match(message)
    times = []
    for _ in range(30):
        began = time.perf_counter()
        subscriptions.match(message)
        times.append(time.perf_counter() - began)
    return min(times) * 1e3


def lists_of(length: int) -> SubscriptionSet:
    result = SubscriptionSet()
    for number in range(300):
        codes = " or ".join(f"s = 'c{number * length + code}'" for code in range(length))
        result.add(f"k{number}", f"//q[{codes}]")
    return result


def test_n17_a_list_of_equalities_is_one_look_up_however_long() -> None:
    message = ("<r>" + "".join(f"<q><s>x{number}</s></q>" for number in range(500)) + "</r>").encode()
    short = lists_of(16)
    visits, cost = short.match(message).visits, milliseconds(short, message)
    for length in (17, 50, 500):
        longer = lists_of(length)
        assert longer.match(message).visits <= 2 * visits + 100
        assert milliseconds(longer, message) <= 2 * cost + 0.2


@pytest.mark.parametrize("count", [50, 300, 2_000])
@pytest.mark.parametrize("length", [1, 8])
def test_n18_case_that_is_folded_by_translate_costs_little(count: int, length: int) -> None:
    upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    folded, plain = SubscriptionSet(), SubscriptionSet()
    for number in range(1_000):
        title = f"translate(title, '{upper}', '{upper.lower()}')"
        folded.add(f"k{number}", f"//item[contains({title}, 'word{number}q')]")
        plain.add(f"k{number}", f"//item[contains(title, 'word{number}q')]")
    items = "".join(
        f"<item><title>{f'Of Things {number} to Come, ' * length}</title></item>" for number in range(count)
    )
    message = f"<rss><channel>{items}</channel></rss>".encode()
    match = folded.match(message)
    assert not match.undecided
    assert list(folded.match(message.replace(b"Of Things 7 to", b"A WORD77Q to", 1))) == ["k77"]
    # Within three times; a fifth more for the other work of the machine.
    assert milliseconds(folded, message) <= 3.6 * milliseconds(plain, message) + 0.1
    assert not folded.throttled()


def test_n25_rules_of_many_words_are_one_search_for_all_words() -> None:
    rules, single = SubscriptionSet(), SubscriptionSet()

    def words(rule: int, group: int) -> str:
        return "(" + " or ".join(f"contains(., 'w{rule}x{group}x{word}q')" for word in range(16)) + ")"

    for rule in range(300):
        rules.add(f"k{rule}", f"//item[{words(rule, 1)} and {words(rule, 2)} and not{words(rule, 3)}]")
        single.add(f"k{rule}", f"//item[contains(., 'w{rule}x1x1q')]")
    items = "".join(f"<item><title>T {n}</title><d>{'lorem ipsum dolor sit amet ' * 20}</d></item>" for n in range(50))
    message = f"<rss><channel>{items}</channel></rss>".encode()
    assert len(message) > 28_000
    assert milliseconds(rules, message) <= 10 * milliseconds(single, message) + 0.2
    assert list(rules.match(message.replace(b"T 7<", b"w9x1x3q w9x2x0q<"))) == ["k9"]


@pytest.mark.slow
def test_b19_a_large_message_is_read_in_memory_for_one_item(tmp_path: Path) -> None:
    path = tmp_path / "large.xml"
    with path.open("w") as file:
        file.write("<set>")
        for number in range(30_000):
            file.write(f"<item n='{number}'><title>{number}</title><text>{'x' * 3_300}</text></item>")
        file.write("</set>")
    assert path.stat().st_size > 99_000_000
    code = (
        "import sys; from twigcast.cli import main\n"
        "try: main()\n"
        "finally: print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0], file=sys.stderr)"
    )
    arguments = ["match", "--record", "item", "-q", "/item[title = '29999']", str(path)]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True)
    assert json.loads(done.stdout)["message"] == "large.xml#30000"
    assert int(done.stderr.split()[-1]) < 80_000, "kilobytes, with Python itself"
