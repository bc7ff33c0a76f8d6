"""The demonstration: its first number is the speed of matching, before Spark is started."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from twigcast import SubscriptionSet
from twigcast.demo import __main__ as demo
from twigcast.demo.messages import feed
from twigcast.demo.subscriptions import subscriptions
from twigcast.errors import RejectedMessage


def test_the_first_number_is_the_speed_of_matching(tmp_path: Path) -> None:
    demo.write_feed(tmp_path / "messages", feed(demo.SEED))
    demo.write_subscriptions(tmp_path / "subscriptions.jsonl", subscriptions(demo.SEED))
    first, second = demo.matching_speed(tmp_path / "messages", tmp_path / "subscriptions.jsonl")
    speed = re.fullmatch(r"Matching, on one core: ([\d,]+) messages a second against 1,000 subscriptions", first)
    assert speed is not None
    assert int(speed[1].replace(",", "")) > 0
    population = SubscriptionSet()
    population.add_many(subscriptions(demo.SEED)).raise_if_refused()
    expected = 0
    for _, data in feed(demo.SEED):
        try:
            expected += len(population.match(data))
        except RejectedMessage:
            continue
    assert second.startswith(f"({expected:,} matches; ")


@pytest.mark.spark
def test_the_demonstration_runs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--folder", str(tmp_path)]) == 0
    out = capfd.readouterr().out
    assert out.index("Matching, on one core: ") < out.index("$ twigcast pipeline")
    summary = json.loads((tmp_path / "output" / "summary.json").read_text())
    assert summary["subscriptions"] == 1_000
