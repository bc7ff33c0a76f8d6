"""Run the benchmarks and write ``RESULTS.md``.

python -m benchmarks.run                    all that can be run here
python -m benchmarks.run filtering changes  some sections; the figures of the others stay as they were
python -m benchmarks.run --quick            small workloads only, to see that it works; nothing is written
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import (
    adversarial,
    changes,
    doctypes,
    filtering,
    forwarding,
    hostile,
    language,
    library,
    loop,
    places,
    real,
    records,
    report,
    transformation,
    transformation_peers,
    urgency,
    webhooks,
    window_states,
    words,
    workloads,
)
from benchmarks.measure import Row

RESULTS = Path(__file__).with_name("results")


def _filtering(quick: bool) -> list[Row]:
    names = [(w.feed, w.name) for w in workloads.workloads() if not quick or w.name == "1k"]
    return [_apart("filtering", *name) for name in names]


def _peers(quick: bool) -> list[Row]:
    feeds = ["news", "nitf"] if workloads.has_shared() and not quick else ["news"]
    return [_apart("lxml", feed, "1k") for feed in feeds]


def _loop(quick: bool) -> list[Row]:
    return loop.measure(quick=True) if quick else _apart_many("loop")


def _insertion(quick: bool) -> list[Row]:
    return [] if quick else _apart_many("insertion")


def _adversarial(quick: bool) -> list[Row]:
    return [] if quick else _apart_many("adversarial")


def _hostile(quick: bool) -> list[Row]:
    return [] if quick else _apart_many("hostile")


def _mixed(quick: bool) -> list[Row]:
    return [] if quick else _apart_many("mixed")


def _waiting(quick: bool) -> list[Row]:
    return [] if quick else _apart_many("waiting")


def _threads(quick: bool) -> list[Row]:
    return [] if quick else _apart_many("threads")


def _real(quick: bool) -> list[Row]:
    return [row for count in real.COUNTS[: 1 if quick else None] for row in _apart_many("real", str(count))]


def _real_peers(quick: bool) -> list[Row]:
    return [] if quick else _apart_many("real_peers")


def _language(quick: bool) -> list[Row]:
    return _apart_many("language", *(["date range"] if quick else []))


def _places(quick: bool) -> list[Row]:
    return [_apart("places", *row) for row in places.rows(quick)]


def _words(quick: bool) -> list[Row]:
    return [_apart("words", *row) for row in words.rows(quick)]


def _transformation(quick: bool) -> list[Row]:
    pairs = [(feed, count) for feed in transformation.feeds() for count in transformation.counts(feed)]
    return [_apart("transformation", feed, str(count)) for feed, count in pairs if not quick or count == 100]


def _transformation_memory(quick: bool) -> list[Row]:
    return [] if quick else [_apart("memory", kind) for kind in transformation.LARGE_QUERIES]


def _transformation_peers(quick: bool) -> list[Row]:
    return [] if quick else [row for feed in transformation_peers.feeds() for row in _apart_many("peers100", feed)]


def _library(quick: bool) -> list[Row]:
    return [] if quick else _apart_many("library")


def _spark(quick: bool) -> list[Row]:
    return [] if quick else _apart_many("spark")


def _webhooks(quick: bool) -> list[Row]:
    return [] if quick else _apart_many("webhooks")


def _urgency(quick: bool) -> list[Row]:
    return [] if quick else _apart_many("urgency")


def _windows(quick: bool) -> list[Row]:
    return _apart_many("windows", "10000" if quick else "1000000")


def _broker(quick: bool) -> list[Row]:
    return _apart_many("broker", *(["quick"] if quick else []))


def _overlay(quick: bool) -> list[Row]:
    return _apart_many("overlay", *(["quick"] if quick else []))


def _neighbours(quick: bool) -> list[Row]:
    return _apart_many("neighbours", *(["quick"] if quick else []))


def _forwarding(quick: bool) -> list[Row]:
    return [row for feed in forwarding.feeds()[: 1 if quick else None] for row in _apart_many("forwarding", feed)]


def _simulator(quick: bool) -> list[Row]:
    sizes = ("100",) if quick else ("100", "1000", "10000")
    return [row for kind in ("ring", "tree") for size in sizes for row in _apart_many("simulator", kind, size)]


def _records(quick: bool) -> list[Row]:
    return [_apart("records", way) for way in list(records.WAYS)[: 1 if quick else None]]


def _doctypes(quick: bool) -> list[Row]:
    return [_apart("doctypes", kind) for kind in list(doctypes.KINDS)[: 1 if quick else None]]


SECTIONS: dict[str, Callable[[bool], list[Row]]] = {
    "filtering": _filtering,
    "peers": _peers,
    "loop": _loop,
    "insertion": _insertion,
    "adversarial": _adversarial,
    "hostile": _hostile,
    "mixed": _mixed,
    "waiting": _waiting,
    "threads": _threads,
    "real": _real,
    "real_peers": _real_peers,
    "language": _language,
    "words": _words,
    "places": _places,
    "transformation": _transformation,
    "transformation_memory": _transformation_memory,
    "transformation_peers": _transformation_peers,
    "library": _library,
    "records": _records,
    "doctypes": _doctypes,
    "spark": _spark,
    "webhooks": _webhooks,
    "urgency": _urgency,
    "windows": _windows,
    "broker": _broker,
    "neighbours": _neighbours,
    "forwarding": _forwarding,
    "overlay": _overlay,
    "simulator": _simulator,
}


def _apart_many(task: str, *arguments: str) -> list[Row]:
    """Run one measurement in a process of its own, so that none inherits another's memory."""
    print("measuring", task, *arguments, file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "benchmarks.run", "--task", task, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: Row | list[Row] = json.loads(done.stdout.splitlines()[-1])
    return answer if isinstance(answer, list) else [answer]


def _apart(task: str, *arguments: str) -> Row:
    [row] = _apart_many(task, *arguments)
    return row


_TASKS: dict[str, Callable[..., Row | list[Row]]] = {
    "filtering": filtering.measure,
    "lxml": filtering.measure_lxml,
    "loop": loop.measure,
    "insertion": changes.measure_insertion,
    "adversarial": adversarial.measure,
    "hostile": hostile.measure,
    "webhooks": webhooks.measure,
    "urgency": urgency.measure,
    "windows": lambda keys: window_states.measure(int(keys)),
    "mixed": changes.measure_mixed,
    "waiting": changes.measure_waiting,
    "threads": changes.measure_threads,
    "real": real.measure,
    "real_peers": real.measure_peers,
    "language": language.measure,
    "words": words.measure,
    "places": places.measure,
    "transformation": transformation.measure,
    "memory": transformation.measure_memory,
    "peers100": transformation_peers.measure,
    "forwarding": forwarding.measure,
    "library": library.measure,
    "records": records.measure,
    "doctypes": doctypes.measure,
}


def _task(task: str, arguments: list[str]) -> Row | list[Row]:
    if task in _TASKS:
        return _TASKS[task](*arguments)
    if task == "spark":
        # Spark takes seconds to import, and not everybody has it.
        from benchmarks import spark

        return spark.measure()
    if task == "broker":
        # Neither does everybody have what a broker is made of.
        from benchmarks import broker

        return broker.measure(quick="quick" in arguments)
    if task == "neighbours":
        from benchmarks import neighbours

        return neighbours.measure(quick="quick" in arguments)
    if task == "overlay":
        from benchmarks import overlay

        return overlay.measure(quick="quick" in arguments)
    if task == "simulator":
        from benchmarks import simulator

        return simulator.measure(*arguments)
    raise SystemExit(f"there is no task {task!r}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small workloads only; print, write nothing")
    parser.add_argument("--task", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(_task(options.sections[0], options.sections[1:])))
        return
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    for name in options.sections or SECTIONS:
        rows = SECTIONS[name](options.quick)
        if options.quick:
            print(report.table(rows))
            continue
        RESULTS.mkdir(exist_ok=True)
        measured = {"measured": datetime.now(UTC).date().isoformat(), "machine": report.machine(), "rows": rows}
        (RESULTS / f"{name}.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    if not options.quick:
        target = Path(__file__).with_name("RESULTS.md")
        target.write_text(report.document(RESULTS), encoding="utf-8")
        print(f"written: {target}")


if __name__ == "__main__":
    main()
