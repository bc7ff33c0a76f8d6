"""Life cycles in the library against a model, on generated histories."""

from __future__ import annotations

import pickle
import random
from datetime import UTC, datetime

from tests.lifecycle.model import AREAS, PROFILE, Model, history
from tests.seeds import printed_seed
from twigcast import Lifecycle, SubscriptionSet


def run_history(seed: int, count: int) -> int:
    """Runs one history through library and model; returns how many deliveries there were."""
    random_ = random.Random(seed)
    messages = history(random_, count)
    keys = [f"k{n}" for n in range(8)]
    follows = {key: random_.random() < 0.7 for key in keys}
    withdraw = False
    lifecycle = Lifecycle(PROFILE, follow=follows, withdraw_expired=withdraw)
    model = Model()
    subscriptions = SubscriptionSet()
    areas: dict[str, str] = {}
    deliveries = 0
    for at, message in enumerate(messages):
        key = random_.choice(keys)
        if random_.random() < 0.3 and key in areas:
            del areas[key]
            subscriptions.remove(key)
        elif random_.random() < 0.6:
            areas[key] = random_.choice(AREAS)
            subscriptions.replace(key, f"//area = '{areas[key]}'")
        now = datetime.fromtimestamp(at, UTC)
        answer = lifecycle.match(subscriptions, message.xml, message_id=f"{at:06}", published=now)
        expected = model.enter(message, areas, follows, at)
        got = {key: relation or "" for key, relation in answer.relations.items()}
        assert got == expected, f"message {at} of seed {seed}: {message}"
        deliveries += len(got)
        if at % 7 == 0:
            over = set()
            for one in lifecycle.expire(subscriptions, now):
                chain = lifecycle.history(one.identity)
                assert chain is not None
                over.add(f"{','.join(one.keys)} of {sorted(chain.names)}")
            assert over == model.expire(at, areas, follows), f"at {at} of seed {seed}"
        if at % 11 == 0:
            lifecycle = pickle.loads(pickle.dumps(lifecycle))
    return deliveries


def test_the_library_does_what_the_model_does() -> None:
    seed = printed_seed()
    assert sum(run_history(seed + n, 60) for n in range(12)) > 100
