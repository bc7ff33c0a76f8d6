"""``python -m twigcast.demo``: a synthetic feed against a thousand subscriptions, through ``twigcast pipeline``."""

import argparse
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from twigcast.demo.messages import feed
from twigcast.demo.subscriptions import subscriptions
from twigcast.registration import Subscription

SEED: Final = 7
DELIVERIES_SHOWN: Final = 3
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
