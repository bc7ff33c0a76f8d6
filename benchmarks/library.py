"""What the library adds to the engine: starting, naming keys, encodings, adding from tables, event loops."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa

from benchmarks.measure import Row, once, side_by_side
from twigcast import Match, SubscriptionSet

KEYS = 6_500
QUERIES = 10_000
TIMES_MATCH_TARGET = 2
ROUNDS = 40
STARTS = 15
_GEOCODE = ("alert", "info", "area", "geocode", "value")


def measure() -> list[Row]:
    """All rows."""
    return [*_starts(), *_naming(), *_encodings(), *_adding(), *asyncio.run(_event_loop())]


def _starts() -> list[Row]:
    commands = {"import twigcast": ["-c", "import twigcast"], "twigcast --help": ["-m", "twigcast", "--help"]}
    return [
        {"what": name, "ms": 1_000 * min(_processor_seconds(arguments) for _ in range(STARTS))}
        for name, arguments in {"python -c pass": ["-c", "pass"], **commands}.items()
    ]


def _processor_seconds(arguments: list[str]) -> float:
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, env=variables)
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime


def _message(items: int) -> bytes:
    return b"<r>%s</r>" % b"".join(b"<item k='%d'><p>%d</p>text</item>" % (n, n * 40) for n in range(items))


def _naming() -> list[Row]:
    rows = []
    for items in (1, 330):
        message = _message(items)
        own = {f"subscriber-{n}": f"//item[@k != '{n}x']" for n in range(KEYS)}
        one = {f"subscriber-{n}": "/r/item[@k]" for n in range(KEYS)}
        rows.append(_named(f"each its own query, {len(message):,} bytes", own, [message]))
        rows.append(_named(f"one query for all, {len(message):,} bytes", one, [message]))
    alert = _alert("")
    words = [f"contains(info/description, 'word{n}')" for n in range(KEYS)]
    described = _alert(" ".join(f"word{n}" for n in range(KEYS)))
    rows.append(_named("a word each, long text", _among(lambda n: f"/alert[{words[n]}]"), [described]))
    paths = _among(_path)
    rows.append(_named("plain paths", paths, [alert]))
    # So many that none has the same keys as one of those just before.
    several = [_alert("", f"<extra{n}/>") for n in range(12)]
    changing = {**paths, **{f"extra-{n}": f"/alert/extra{n}" for n in range(12)}}
    return [*rows, _named("plain paths, other keys for each message", changing, several)]


def _among(query: Callable[[int], str]) -> dict[str, str]:
    """Returns the queries that match, among others that do not."""
    nothing = {f"other-{n}": f"/alert/nothing{n}" for n in range(QUERIES - KEYS)}
    return {**{f"subscriber-{n}": query(n) for n in range(KEYS)}, **nothing}


def _path(number: int) -> str:
    """Returns one of the paths that lead to a geocode: with each step by name or not, and below or anywhere below."""
    axes = ["//" if number >> bit & 1 else "/" for bit in range(5)]
    names = ["*" if number >> bit + 5 & 1 else name for bit, name in enumerate(_GEOCODE)]
    return "".join(axis + name for axis, name in zip(axes, names, strict=True))


def _alert(description: str, more: str = "") -> bytes:
    """Returns an alert as CAP has them, of some 3.4 kB without a description."""
    geocodes = "".join(f"<geocode><valueName>SAME</valueName><value>{n:06}</value></geocode>" for n in range(20))
    areas = f"<area><areaDesc>County</areaDesc>{geocodes}</area>" * 2
    return f"<alert><info><description>{description}</description>{areas}</info>{more}</alert>".encode()


def _named(name: str, queries: dict[str, str], messages: list[bytes]) -> Row:
    subscriptions = SubscriptionSet(queries)
    if any(len(subscriptions.match(message)) < KEYS for message in messages):
        raise SystemExit(f"{name}: too few keys")
    turns = itertools.cycle(messages)

    def match() -> Match:
        return subscriptions.match(next(turns))

    # What Python alone takes to make a list of so many objects, which exist already: no answer can take less.
    named = tuple(subscriptions.match(messages[0]))
    works: list[Callable[[], object]] = [
        lambda: list(iter(named)),
        match,
        lambda: list(match()),
        lambda: match().keys,
        lambda: "other-1" in match(),
    ]
    by_python, matched, listed, keys, asked = (timing.median for timing in side_by_side(ROUNDS, *works))
    return {
        "what": f"list(match), {KEYS:,} keys, {name}",
        "match_us": 1e6 * matched,
        "us": 1e6 * listed,
        "list_us": 1e6 * by_python,
        "times_match": listed / matched,
        "target_times": TIMES_MATCH_TARGET,
        "keys_times": keys / matched,
        "in_times": asked / matched,
    }


def _encodings() -> list[Row]:
    """Long messages in other encodings, each in turn with the same in UTF-8."""
    subscriptions = SubscriptionSet((f"k{number}", f"//item[@k = '{number * 700}']/p") for number in range(100))
    ascii_text = "".join(f'<item k="{n}"><p>some words of item {n}, and more of them</p></item>' for n in range(60_000))
    texts = {"ASCII": ascii_text, "letters of Latin-1": ascii_text.replace("words", "W\u00f6rter")}
    texts["letters of all kinds"] = ascii_text.replace("words", "\u660e\u767d \u03bb\u03cc\u03b3\u03bf\u03b9")
    forms = [(name, "utf-16") for name in texts] + [(name, "iso-8859-1") for name in list(texts)[:2]]
    rows = []
    for name, encoding in forms:
        plain = f"<r>{texts[name]}</r>".encode()
        other = f'<?xml version="1.0" encoding="{encoding}"?><r>{texts[name]}</r>'.encode(encoding)
        first, second = side_by_side(STARTS, partial(subscriptions.match, plain), partial(subscriptions.match, other))
        what = f"match, {name} in {encoding.upper()}, {len(other):,} bytes"
        rows.append(
            {
                "what": what,
                "match_us": 1e6 * first.best,
                "us": 1e6 * second.best,
                "times_match": second.best / first.best,
                "target_times": TIMES_MATCH_TARGET,
            }
        )
    return rows


def _adding() -> list[Row]:
    pairs = [(f"k{n}", f"/a/b{n}[c = {n}]") for n in range(100_000)]
    records = [{"key": key, "query": query} for key, query in pairs]
    forms = {
        "tuples": pairs,
        "records": records,
        "pandas": pd.DataFrame(records),
        "Arrow": pa.Table.from_pylist(records),
    }
    rows = []
    for name, form in forms.items():
        seconds = min(once(lambda form=form: SubscriptionSet().add_many(form)) for _ in range(3))  # type: ignore[misc]
        rows.append({"what": f"add_many, {name}", "queries_per_s": len(pairs) / seconds})
    return rows


async def _event_loop() -> list[Row]:
    """By the clock: what a caller in an event loop waits, and for how long the loop stands still."""
    subscriptions = SubscriptionSet({f"k{n}": f"//item[@k = {n}]" for n in range(10_000)})
    rows = []
    for items in (10, 100, 1_000, 30_000):
        message = _message(items)
        rounds = max(3, 3_000 // items)
        subscriptions.match(message)
        started = time.perf_counter()
        for _ in range(rounds):
            subscriptions.match(message)
        alone = (time.perf_counter() - started) / rounds
        done = asyncio.Event()
        watch = asyncio.ensure_future(_longest_pause(done))
        await asyncio.sleep(0)
        started = time.perf_counter()
        for _ in range(rounds):
            await subscriptions.amatch(message)
        awaited = (time.perf_counter() - started) / rounds
        done.set()
        what = f"amatch, {len(message):,} bytes"
        rows.append({"what": what, "match_us": 1e6 * alone, "us": 1e6 * awaited, "pause_ms": 1e3 * await watch})
    return rows


async def _longest_pause(done: asyncio.Event) -> float:
    longest = 0.0
    while not done.is_set():
        started = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - started - 0.001)
    return longest
