"""The start: what the hub makes of stored subscriptions, those without anything rare as columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from twigcast.broker.hub.population import BrokerPopulation, RegisteredSubscription
from twigcast.broker.model import (
    DeliverySettings,
    NewSubscription,
    OverflowPolicy,
    PlainSubscriptions,
    StoredSubscription,
    SubscriptionState,
)
from twigcast.broker.store import subscriptions as subscriptions_module
from twigcast.broker.store.store import Store
from twigcast.limits import Limits
from twigcast.windows.declarations import read_window

SOURCE_TOPIC = "https://hub.example/feeds/1-x/sources/wires"

PLAIN = [
    NewSubscription(1, "path", "/a/b", subscriber="desk"),
    NewSubscription(1, "value", "//a[b = '☃']"),
    NewSubscription(1, "names", "/p:a", {"p": "urn:ü", "": "urn:d"}),
    NewSubscription(1, "exponents", "//a[b > 1]", dialect="doubles"),
    NewSubscription(1, "hook", "//c", delivery=DeliverySettings("webhook", "https://example.org/hook", "s3cret")),
    NewSubscription(1, "desk too", "//d", subscriber="desk"),
]
RARE = [
    NewSubscription(1, "params", "//a[b = $x]", params={"x": "y"}),
    NewSubscription(1, "policy", "//a", overflow=OverflowPolicy.DROP_OLDEST),
    NewSubscription(1, "follows", "//a", follow=False),
    NewSubscription(1, "window", "//a", window=read_window({"digest": "1 h"})),
    NewSubscription(
        1, "of a source", "//a", delivery=DeliverySettings("websub", "https://x.example/cb", topic=SOURCE_TOPIC)
    ),
    NewSubscription(1, "xquery", "for $a in //a return count($a)", dialect="xquery"),
]

REFUSED = [
    NewSubscription(1, "too long", "//a[b = 'a query that is longer than lower limits permit']", subscriber="desk"),
    NewSubscription(1, "too long too", "//a[b = $x and c = 'longer than lower limits permit']", params={"x": "y"}),
]
LOWER = Limits(query_bytes_max=40)


def stored(store: Store) -> list[StoredSubscription]:
    """Stores all of the above for two tenants, in turns, with one that is paused and one that replays."""
    with store.transaction() as transaction:
        other = transaction.add_tenant("other", {}).id
        added = transaction.add_subscriptions(
            [
                replace(one, tenant_id=tenant)
                for one in (
                    *(part for pair in zip(PLAIN, RARE, strict=True) for part in pair),
                    *REFUSED,
                    NewSubscription(1, "paused", "//a"),
                    NewSubscription(1, "last", "/z"),
                )
                for tenant in (1, other)
            ],
            at=1.0,
        )
    result = [one for one in added if isinstance(one, StoredSubscription)]
    assert len(result) == len(added)
    with store.transaction() as transaction:
        for one in result:
            if one.key == "paused":
                transaction.set_subscription_state(one.id, SubscriptionState.PAUSED, None)
    return list(store.all_subscriptions())


def contents(
    population: BrokerPopulation, of: Iterable[StoredSubscription]
) -> dict[int, RegisteredSubscription | None]:
    return {one.id: population.of(one.tenant_id).member(one.tenant_id, one.id) for one in of}


@pytest.mark.parametrize("page", [3, 10_000])
@pytest.mark.parametrize("limits", [Limits(), LOWER], ids=["same", "lower"])
def test_columns_lead_to_the_same_population_as_objects(
    store: Store, monkeypatch: pytest.MonkeyPatch, page: int, limits: Limits
) -> None:
    monkeypatch.setattr(subscriptions_module, "PAGE", page)
    everything = stored(store)
    one_by_one, at_once = BrokerPopulation(limits), BrokerPopulation(limits)
    refused = one_by_one.load(everything)
    refused_at_once = at_once.load(store.loaded_subscriptions())
    assert len(refused) == (0 if limits == Limits() else 2 * len(REFUSED))
    assert sorted((member.id, str(error)) for member, error in refused_at_once) == sorted(
        (member.id, str(error)) for member, error in refused
    )
    assert contents(at_once, everything) == contents(one_by_one, everything)
    assert contents(at_once, everything) == {one.id: RegisteredSubscription.of(one) for one in everything}
    message = b"<a><b>\xe2\x98\x83</b></a>"
    for tenant_id in {one.tenant_id for one in everything}:
        first, second = one_by_one.of(tenant_id), at_once.of(tenant_id)
        assert second.dormant == first.dormant
        assert second.followers == first.followers
        (expected,) = first.evaluate([message], ["wires"], 1.0)
        (found,) = second.evaluate([message], ["wires"], 1.0)
        assert (found.numbers, found.queues, found.keys, found.pushed) == (
            expected.numbers,
            expected.queues,
            expected.keys,
            expected.pushed,
        )
        assert {"value", "of a source"} <= set(found.keys)


def test_only_what_has_something_rare_comes_as_an_object(store: Store) -> None:
    everything = stored(store)
    loaded = list(store.loaded_subscriptions())
    objects = [one for one in loaded if isinstance(one, StoredSubscription)]
    columns = [one for one in loaded if isinstance(one, PlainSubscriptions)]
    rare = {one.key for one in RARE} | {"paused", "too long too"}
    assert objects == [one for one in everything if one.key in rare]
    assert sorted(number for some in columns for number in some.ids) == [
        one.id for one in everything if one.key not in rare
    ]
    assert len(columns) == 2, "one of each tenant"


def test_an_empty_store_has_nothing_to_load(store: Store) -> None:
    assert list(store.loaded_subscriptions()) == []
    assert BrokerPopulation(Limits()).load(store.loaded_subscriptions()) == []
