"""The demonstration of alerts that change: what is made up, and that broker and Spark tell the same."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from twigcast import Lifecycle, SubscriptionSet
from twigcast.demo import alerts as demo
from twigcast.demo.__main__ import SEED
from twigcast.demo.hour_of_alerts import MINUTES, county_subscriptions, hour_of_alerts


def test_the_hour_has_all_relations_and_what_nobody_is_told_of() -> None:
    made = hour_of_alerts(SEED)
    assert made == hour_of_alerts(SEED)
    assert len({one.name for one in made}) == len(made)
    assert all(0 <= one.minute < MINUTES for one in made)
    population = SubscriptionSet(list(county_subscriptions()))
    lifecycle, start = Lifecycle("cap"), datetime(2026, 11, 30, 9, tzinfo=UTC)
    answers = [
        lifecycle.match(
            population, one.xml(start), message_id=one.name, published=datetime(2026, 11, 30, 10, tzinfo=UTC)
        )
        for one in made
    ]
    relations = {str(relation) for answer in answers for relation in answer.relations.values()}
    assert relations == {"entered", "updated", "left", "cancelled", "expired"}
    assert [str(answer.effect) for answer in answers].count("duplicate") == sum(bool(one.copy) for one in made) > 0
    assert all(answer.facts.trouble is None for answer in answers)


@pytest.mark.spark
def test_broker_and_spark_tell_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--folder", str(tmp_path / "alerts")]) == 0
    out = capfd.readouterr().out
    assert "Broker and Spark have told the same: " in out
    assert out.index("Through a broker") < out.index("$ twigcast pipeline")
    assert "duty" in out
