"""``python -m twigcast.demo``: a synthetic feed against a thousand subscriptions, alone and through the pipeline."""

import argparse
import contextlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from twigcast.answers import Match
from twigcast.demo.messages import feed
from twigcast.demo.subscriptions import subscriptions
from twigcast.errors import RejectedMessage
from twigcast.reading.messages import Message, read_messages
from twigcast.registration import Subscription
from twigcast.subscription_files import load_subscriptions
from twigcast.subscriptions import SubscriptionSet

SEED: Final = 7
DELIVERIES_SHOWN: Final = 3
MATCHING_ROUNDS: Final = 5
"""How often the feed is matched; the fastest round is shown."""
_PAYLOAD_WIDTH: Final = 300


def main(arguments: list[str] | None = None) -> int:
    """Writes the feed and the subscriptions, runs the pipeline, and shows the results."""
    parser = argparse.ArgumentParser(prog="python -m twigcast.demo", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("demo-output"), help="folder for all files (%(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the feed (%(default)s)")
    options = parser.parse_args(arguments)
    folder: Path = options.folder
    messages, population, output = folder / "messages", folder / "subscriptions.jsonl", folder / "output"

    families = write_feed(messages, feed(options.seed))
    count = write_subscriptions(population, subscriptions(options.seed))
    print(f"{', '.join(f'{number} {family}' for family, number in families.items())}: {messages}")
    print(f"{count:,} subscriptions: {population}\n", flush=True)

    for line in matching_speed(messages, population):
        print(line)
    print("The same on Spark, which takes some seconds to start:\n")
    command = ["pipeline", "--messages", messages, "--subscriptions", population, "--output", output]
    print(f"$ twigcast {' '.join(map(str, command))}", flush=True)
    status = subprocess.run([sys.executable, "-m", "twigcast", *map(str, command)], check=False).returncode  # noqa: S603
    if status not in (0, 3):  # 3: some messages were rejected, as expected
        return status
    for line in report(output):
        print(line)
    return 0


def write_feed(folder: Path, messages: Iterable[tuple[str, bytes]]) -> dict[str, int]:
    """Writes news and alerts as files and auctions in an archive, and returns the number of messages by family."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    families: dict[str, int] = {}
    with tarfile.open(folder / "auctions.tar.gz", "w:gz") as archive:
        for name, data in messages:
            family, _, file_name = name.partition("/")
            families[family] = families.get(family, 0) + 1
            if family == "auctions":
                member = tarfile.TarInfo(file_name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
                continue
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
    return dict(sorted(families.items()))


def write_subscriptions(path: Path, population: Iterable[Subscription]) -> int:
    """Writes subscriptions as JSON lines, and returns how many there are."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for subscription in population:
            row: dict[str, Any] = {"key": subscription.key, "query": subscription.query}
            if subscription.namespaces:
                row["namespaces"] = dict(subscription.namespaces)
            print(json.dumps(row), file=file)
            count += 1
    return count


def matching_speed(folder: Path, population: Path) -> Iterator[str]:
    """Yields lines that show how fast the feed is matched in this process, on one core, without Spark."""
    subscriptions, _ = load_subscriptions(population)
    read = [item for item in read_messages([folder]) if isinstance(item, Message)]
    rates, matches = [], 0
    for _ in range(MATCHING_ROUNDS):
        started = time.perf_counter()
        matches = sum(map(len, _matches(subscriptions, read)))
        rates.append(len(read) / (time.perf_counter() - started))
    size = sum(len(message.xml) for message in read) / len(read)
    yield f"Matching, on one core: {max(rates):,.0f} messages a second against {len(subscriptions):,} subscriptions"
    first = f"the first time, with cold caches, {rates[0]:,.0f} a second"
    yield f"({matches:,} matches; {size:,.0f} bytes a message; {first})\n"


def _matches(subscriptions: SubscriptionSet, messages: Iterable[Message]) -> Iterator[Match]:
    for message in messages:
        with contextlib.suppress(RejectedMessage):  # some are malformed on purpose; the pipeline shows them below
            yield subscriptions.match(message.xml)


def report(output: Path) -> Iterator[str]:
    """Yields lines that show the results."""
    deliveries = pq.read_table(output / "deliveries").to_pylist()
    yield f"\nThree of {len(deliveries):,} deliveries, one of each family:"
    for row in _one_of_each(deliveries):
        yield f"  {row['key']} gets of {row['message_id']}:"
        yield f"    {_shortened(row['payload'])}"
    rejected = pq.read_table(output / "rejected").to_pylist()
    yield f"\nAll {len(rejected):,} rejected messages:"
    for row in sorted(rejected, key=lambda row: str(row["message_id"])):
        position = "" if row["line"] is None else f"line {row['line']}, column {row['column']}: "
        yield f"  {row['message_id']}: {position}{row['reason']}"
    yield f"\nParquet for everything: {output}/matches, {output}/deliveries, {output}/rejected; {output}/summary.json"


def _one_of_each(deliveries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the first delivery of each family."""
    shown: dict[str, dict[str, Any]] = {}
    for row in sorted(deliveries, key=lambda row: (row["message_id"], row["key"])):
        shown.setdefault(row["key"].partition("-")[0], row)
    return list(shown.values())[:DELIVERIES_SHOWN]


def _shortened(payload: str) -> str:
    line = " ".join(payload.split())
    return line if len(line) <= _PAYLOAD_WIDTH else line[:_PAYLOAD_WIDTH] + "..."


if __name__ == "__main__":
    sys.exit(main())
