"""``python -m twigcast.demo.alerts``: an hour of alerts through a broker and through Spark, and who was told what."""

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from twigcast.client import Client
from twigcast.demo.__main__ import SEED, write_subscriptions
from twigcast.demo.hour_of_alerts import COUNTIES, MINUTES, DemoAlert, county_subscriptions, described, hour_of_alerts
from twigcast.errors import TwigcastError

SOURCE: Final = "weather"
SUBSCRIBER: Final = "control-room"
_START_SECONDS: Final = 120
_LINES: Final = {"entered": "+", "updated": "~", "left": "-", "cancelled": "x", "expired": "."}

News = set[tuple[str, str, str]]
"""What subscriptions were told: message, key of the subscription, relation."""


def main(arguments: list[str] | None = None) -> int:
    """Writes the alerts, publishes them to a broker, runs them through Spark, and compares what each of them told."""
    parser = argparse.ArgumentParser(prog="python -m twigcast.demo.alerts", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("demo-output/alerts"), help="folder for all files (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the alerts (%(default)s)")
    options = parser.parse_args(arguments)
    folder: Path = options.folder
    shutil.rmtree(folder, ignore_errors=True)
    alerts = hour_of_alerts(options.seed)
    messages, subscriptions, output = folder / "messages", folder / "subscriptions.jsonl", folder / "output"
    write_alerts(messages, alerts, datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=MINUTES))
    count = write_subscriptions(subscriptions, county_subscriptions())
    print(f"An hour of made-up alerts: {described(alerts)}: {messages}")
    print(f"{count} subscriptions, {len(COUNTIES)} for a county each and one for what is extreme: {subscriptions}\n")

    print("Through a broker, in the order in which they come:\n", flush=True)
    by_broker: News = set()
    with started_broker(folder) as client:
        for line in publish_alerts(client, messages, alerts, by_broker):
            print(line, flush=True)
    print(f"\n{legend()}\n\nThe same on Spark, which takes some seconds to start:\n")
    command = ["pipeline", "--messages", messages, "--subscriptions", subscriptions, "--output", output]
    command += ["--profile", "cap", "--stream", "--once"]
    print(f"$ twigcast {' '.join(map(str, command))}", flush=True)
    status = subprocess.run([sys.executable, "-m", "twigcast", *map(str, command)], check=False).returncode  # noqa: S603
    if status != 0:
        return status
    by_spark = read_deliveries(output)
    print()
    for line in by_subscription(by_spark):
        print(line)
    return compare(by_broker, by_spark)


def write_alerts(folder: Path, alerts: Sequence[DemoAlert], start: datetime) -> None:
    """Writes each message to a file, in order."""
    folder.mkdir(parents=True)
    for alert in alerts:
        (folder / alert.name).write_text(alert.xml(start), encoding="utf-8")


@contextmanager
def started_broker(folder: Path) -> Iterator[Client]:
    """Yields a client of a broker in a process of its own, which is stopped afterwards."""
    token, out, log = folder / "admin-token", folder / "broker.out", folder / "broker.log"
    arguments = ["serve", "--port", "0", "--store", str(folder / "store"), "--token-file", str(token)]
    with out.open("wb") as stdout, log.open("wb") as stderr:
        process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-m", "twigcast", *arguments], stdout=stdout, stderr=stderr
        )
    try:
        end = time.monotonic() + _START_SECONDS
        while (found := re.search(r"at (http://\S+)", out.read_text())) is None:
            if process.poll() is not None or time.monotonic() > end:
                raise TwigcastError(f"the broker does not start: see {log}")
            time.sleep(0.05)
        with Client(found[1], token.read_text().strip()) as client:
            yield client
    finally:
        process.terminate()
        process.wait()


def publish_alerts(client: Client, folder: Path, alerts: Sequence[DemoAlert], news: News) -> Iterator[str]:
    """Publishes alerts one by one, and yields a line for each: who was told, and what it is to them."""
    client.put_source(SOURCE, profile="cap")
    for one in county_subscriptions():
        client.subscribe(one.key, one.query, namespaces=one.namespaces, subscriber=SUBSCRIBER)
    for alert in alerts:
        client.publish((folder / alert.name).read_bytes(), message_id=alert.name, source=SOURCE)
        deliveries = client.pull(SUBSCRIBER)
        client.acknowledge(SUBSCRIBER, deliveries)
        news |= {(one.message, one.key, one.relation or "") for one in deliveries}
        yield f"  {_headline(alert)}  {_told({one.key: one.relation or '' for one in deliveries})}"


def read_deliveries(output: Path) -> News:
    """Returns what is in the table of deliveries."""
    rows = pq.read_table(output / "deliveries").to_pylist()
    return {(row["message_id"], row["key"], row["relation"]) for row in rows}


def by_subscription(news: News) -> Iterator[str]:
    """Yields a line for each subscription: what it was told, in order."""
    for key in sorted({key for _, key, _ in news}):
        mine = sorted((message, relation) for message, of, relation in news if of == key)
        yield f"  {key:<7} {len(mine):2} times: " + " ".join(
            f"{_LINES[relation]}{message.removesuffix('.xml').partition('-')[2]}" for message, relation in mine
        )


def compare(by_broker: News, by_spark: News) -> int:
    """Says whether broker and Spark told the same, and returns the exit status."""
    if by_broker == by_spark:
        print(f"\nBroker and Spark have told the same: {len(by_spark)} deliveries.")
        return 0
    print("\nBroker and Spark have not told the same:")
    for name, more in (("the broker", by_broker - by_spark), ("Spark", by_spark - by_broker)):
        for message, key, relation in sorted(more):
            print(f"  only {name}: {message} to {key}: {relation}")
    return 1


def legend() -> str:
    """Returns what the signs mean."""
    return ", ".join(f"{sign} {relation}" for relation, sign in _LINES.items()) + "; nobody is told of a repetition"


def _headline(alert: DemoAlert) -> str:
    about = "" if alert.refers is None else f" of {alert.refers}"
    copied = f" ({alert.copy})" if alert.copy else ""
    what = f"{alert.number:2} {alert.kind}{about}{copied}"
    return f"{alert.minute:02d} min  {what:<24} {alert.event:<19} {', '.join(alert.counties):<22}"


def _told(relations: Mapping[str, str]) -> str:
    return " ".join(f"{_LINES[relation]}{key}" for key, relation in sorted(relations.items())) or "nobody"


if __name__ == "__main__":
    sys.exit(main())
