"""Two tenants of one broker: what hostile subscriptions of the one cost the other.

The good tenant publishes a small message two hundred times a second. The hostile one has subscriptions that cost the
square of a message, and publishes messages for them as fast as it is answered. A first run has the same messages of the
second tenant, but subscriptions that cost nothing: what is left is what the evaluation costs, and not reading and
storing large messages.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import hostile
from benchmarks.broker import Helper, Served, new_folder, serving
from benchmarks.broker_load import Load
from benchmarks.measure import Row
from twigcast.broker.model import NewSubscription, Scope
from twigcast.broker.store.store import open_store
from twigcast.broker.tokens import create_token

GOOD_SUBSCRIPTIONS = 1_000
GOOD_RATE = 200.0
"""Messages a second of the good tenant."""

HOSTILE_QUERIES = 50
HOSTILE_RATE = 20.0
"""Messages a second of the other tenant, unless they are answered more slowly."""
HOSTILE_CONNECTIONS = 4
ROUNDS = 3
"""Runs of each kind, by turns."""
HARMLESS = "//none[@x = '0']"
"""A query that costs nothing, as often as there are hostile ones."""

CASES = {kind: ([query(n) for n in range(HOSTILE_QUERIES)], hostile.message()) for kind, query in hostile.KINDS.items()}
"""The subscriptions of the hostile tenant, by kind, with its message."""

Case = tuple[Sequence[str], str]


def _fill(folder: Path, cases: Mapping[str, Case]) -> dict[str, str]:
    """A store with the good tenant, and for each case a hostile and a harmless one; returns their tokens."""
    store = open_store(folder)
    tokens: dict[str, str] = {}
    try:
        good = [f"/order[@shop = '{n}']/item[price > 10]" for n in range(GOOD_SUBSCRIPTIONS)]
        populations = {"good": good}
        for name, (queries, _) in cases.items():
            populations |= {f"hostile {name}": list(queries), f"harmless {name}": [HARMLESS] * len(queries)}
        for name, queries in populations.items():
            with store.transaction() as transaction:
                tenant = transaction.add_tenant(name.replace(" ", "-").replace(",", ""), {})
                new = [NewSubscription(tenant.id, f"k{n}", query) for n, query in enumerate(queries)]
                transaction.add_subscriptions(new, at=time.time())
            tokens[name] = create_token(store, tenant.id, "publisher", frozenset({Scope.PUBLISH}))[1]
    finally:
        store.close()
    # A store with tokens gets none when the broker starts.
    folder.with_suffix(".token").write_text(tokens["good"], encoding="ascii")
    return tokens


def _publisher(served: Served, token: str, bodies: Sequence[str], load: Load) -> Helper:
    return Helper("publish", Served(served.process, served.address, token, 0.0), bodies=bodies, load=vars(load))


def _run(served: Served, tokens: Mapping[str, str], other: str | None, message: str, seconds: float) -> Row:
    """The times of the good tenant's publications, beside another one."""
    orders = [f"<order shop='{n}'><item><price>{n}</price></item></order>" for n in range(100)]
    beside = None
    if other is not None:
        load = Load(HOSTILE_CONNECTIONS, seconds + 1.0, rate=HOSTILE_RATE)
        beside = _publisher(served, tokens[other], [message], load)
        time.sleep(0.5)
    mine = _publisher(served, tokens["good"], orders, Load(16, seconds, rate=GOOD_RATE))
    measured: dict[str, float] = json.loads(mine.hear())
    mine.end()
    theirs: dict[str, float] = {}
    if beside is not None:
        theirs = json.loads(beside.hear())
        beside.end()
    return {
        "good_per_s": measured["accepted"] / measured["seconds"],
        "p50_ms": measured["p50_ms"],
        "p99_ms": measured["p99_ms"],
        "max_ms": measured["max_ms"],
        "other_per_s": theirs["accepted"] / theirs["seconds"] if theirs else None,
    }


def measure(*, quick: bool = False, cases: Mapping[str, Case] | None = None) -> list[Row]:
    """The good tenant alone, and beside each kind of neighbour."""
    cases = dict(list(CASES.items())[: 1 if quick else None]) if cases is None else cases
    rounds, seconds = (1, 2.0) if quick else (ROUNDS, 4.0)
    rows: list[Row] = []
    with new_folder() as folder:
        tokens = _fill(folder, cases)
        with serving(folder) as served:
            _run(served, tokens, None, "", 1.0)
            alone = [_run(served, tokens, None, "", seconds) for _ in range(rounds)]
            rows.append({"neighbour": "none", "kb": None, **_median(alone)})
            for name, (_, message) in cases.items():
                pairs = [
                    [_run(served, tokens, f"{kind} {name}", message, seconds) for kind in ("harmless", "hostile")]
                    for _ in range(rounds)
                ]
                for position, kind in enumerate(("harmless", "hostile")):
                    row = _median([pair[position] for pair in pairs])
                    rows.append({"neighbour": f"{name}: {kind}", "kb": len(message) // 1000, **row})
                before, after = (float(row["p99_ms"] or 0) for row in rows[-2:])
                rows[-1]["p99_of_harmless"] = after / before
                rows[-1]["p99_of_alone"] = after / float(rows[0]["p99_ms"] or 0)
    return rows


def _median(runs: Sequence[Row]) -> Row:
    """The median of each column over some runs: what the machine does beside disturbs single ones."""
    return {
        name: None if value is None else statistics.median(float(run[name] or 0) for run in runs)
        for name, value in runs[0].items()
    }


if __name__ == "__main__":
    for one in measure(quick="quick" in sys.argv):
        print(one)
