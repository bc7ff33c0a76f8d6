"""Shards answer what the whole population answers, and messages go only where somebody wants them."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("pyspark")

from tests.seeds import printed_seed
from twigcast import Limits, Subscription, SubscriptionSet
from twigcast.demo.messages import feed
from twigcast.demo.subscriptions import subscriptions
from twigcast.errors import PipelineError, RefusedSubscriptions, RejectedMessage
from twigcast.overlay.onyx.content.exclusiveness import PatternReader
from twigcast.spark import match_messages, match_shards, matches, route_messages, shard_subscriptions
from twigcast.spark.sharding import _Divider, _Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = ["a", "b", "c"]


def keyed_queries(source: random.Random, count: int) -> list[Subscription]:
    """Queries that compare attributes and texts, with numbers and strings, and some that compare nothing."""
    made = []
    for number in range(count):
        name, value = source.choice(NAMES), source.randrange(40)
        made.append(
            Subscription(
                f"q{number}",
                source.choice(
                    [
                        f"/m/{name}[@v = '{value}']",
                        f"/m/{name}[@v = {value}]",
                        f"//{name}[. = '{value}']",
                        f"/m[{name} = {value}.0]/*",
                        f"/m[{name}/@v = '{value}' or {name}/@v = '{value + 1}']",
                        f"for $x in /m/{name} where $x/@v = '{value}' return <r>{{ $x }}</r>",
                        f"/m[{name}/@v = $p]",
                        f"//{name}[@v > {value}]",
                        f"/m[not({name}/@v = '{value}')]",
                    ]
                ),
            )
        )
        if "$p" in made[-1].query:
            param: str | float = str(value) if source.random() < 0.5 else float(value)
            made[-1] = replace(made[-1], params={"p": param})
    return made


def keyed_messages(source: random.Random, count: int) -> list[bytes]:
    forms = ["{}", "0{}", "{}.0", " {} ", "-{}", "{}x"]
    return [
        b"<m>"
        + b"".join(
            f"<{name} v='{source.choice(forms).format(source.randrange(40))}'>"
            f"{source.choice(forms).format(source.randrange(40))}</{name}>".encode()
            for name in source.choices(NAMES, k=source.randrange(4))
        )
        + b"</m>"
        for _ in range(count)
    ]


@pytest.mark.parametrize("kind", ["keyed", "demo"])
def test_messages_are_routed_to_all_partitions_with_a_match(kind: str) -> None:
    source = random.Random(printed_seed())
    if kind == "keyed":
        queries, messages = keyed_queries(source, 300), keyed_messages(source, 150)
    else:
        queries = [replace(one, key=f"k{n}") for n, one in enumerate(subscriptions(source.randrange(1 << 20), 200))]
        messages = [xml for _, xml in feed(source.randrange(1 << 20), 60)]
    population = SubscriptionSet(queries)
    whole = _Source(population, None, "xpath", None, "fail")
    divider = _Divider(8, "content", queries, messages[:5] if kind == "keyed" else [], whole)
    partition = {one.key: divider._partition(one) for one in whole}
    assert divider.routes is not None
    divider.routes.finish()
    reader = PatternReader(divider.routes.patterns)
    reached = matched = 0
    for message in messages:
        try:
            keys = population.match(message).keys
        except RejectedMessage:
            continue
        partitions = divider.routes.matched(reader.values(message))
        assert {partition[key] for key in keys} <= partitions
        reached += len(partitions)
        matched += len(keys)
    assert matched
    if kind == "keyed":
        assert reached < 9 * len(messages) * 0.7
        assert len(set(partition.values())) == 9


def rows(frame: "DataFrame", *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.select(*columns).collect()), key=str)


@pytest.mark.spark
@pytest.mark.slow
def test_answers_are_those_of_the_whole_population(spark: "SparkSession") -> None:
    source = random.Random(printed_seed())
    population = SubscriptionSet(keyed_queries(source, 200))
    bodies = [*keyed_messages(source, 80), b"<m", b"<a/>"]
    frame = spark.createDataFrame(
        [(str(number), bytearray(body)) for number, body in enumerate(bodies)], "message_id string, xml binary"
    ).repartition(3)
    expected = rows(matches(match_messages(frame, population)), "message_id", "key")
    assert len(expected) > 80
    reached = {}
    for by in ("content", "hash"):
        sharded = shard_subscriptions(spark, population, shards=5, by=by)
        assert sharded.subscriptions == 200
        answers = match_shards(frame, sharded).cache()
        assert rows(answers.where("key is not null"), "message_id", "key") == expected
        assert rows(answers.where("problem is not null"), "message_id") == [("80",)]
        assert answers.where("key is not null").groupBy("key").agg({"shard": "max"}).count() > 50
        reached[by] = route_messages(frame, sharded).count()
        answers.unpersist()
    assert reached["hash"] == 5 * len(bodies)
    assert reached["content"] < reached["hash"] * 0.8


@pytest.mark.spark
def test_what_does_not_fit_says_how_many_shards_would_do(spark: "SparkSession", tmp_path: Path) -> None:
    file = tmp_path / "rules.jsonl"
    lines = [{"key": f"k{n}", "query": f"/m[@n = {n}]"} for n in range(3_000)]
    file.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(PipelineError, match=r"3,000 subscriptions in 1 shards take about .*: shards=\d+ would do"):
        shard_subscriptions(spark, file, shards=1, memory_bytes=200_000)
    sharded = shard_subscriptions(spark, file, memory_bytes=90_000)
    assert len(sharded.shards) > 1
    assert sharded.subscriptions == 3_000
    assert max(shard.subscriptions for shard in sharded.shards) < 2 * 3_000 / len(sharded.shards)
    wrong = [{"key": "k1", "query": "/other"}, {"key": "x", "query": "/["}]
    file.write_text("\n".join(map(json.dumps, [*lines[:3], *wrong])))
    with pytest.raises(RefusedSubscriptions):
        shard_subscriptions(spark, file, shards=2)
    sharded = shard_subscriptions(spark, file, shards=2, on_bad_subscription="skip", limits=Limits())
    assert (sharded.subscriptions, sharded.refused) == (3, 2)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"shards": 0}, "a whole number of 1 or more, or 'auto', not 0"),
        ({"shards": "many"}, "or 'auto', not 'many'"),
        ({"by": "contents"}, "by must be 'content' or 'hash', not 'contents'"),
        ({"memory_bytes": 0}, "memory_bytes must be more than 0, not 0"),
        ({"shards": 2, "sample": [b"<m/>", b"<m"]}, "a message of the sample is rejected: line 1, column 3"),
    ],
)
def test_arguments_that_are_wrong_are_refused_before_anything_is_shipped(arguments: Any, error: str) -> None:
    queries = SubscriptionSet({name: f"/m[@v = '{name}']" for name in NAMES})
    with pytest.raises(PipelineError, match=error):
        shard_subscriptions(cast("SparkSession", None), queries, **arguments)
