"""Messages that are reduced on links: all results are those of one broker, and links do carry less.

``TWIGCAST_TEST_SEED`` and ``TWIGCAST_TEST_HISTORIES`` choose which histories, and how many.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.lab.overlays.many_seeds import failures
from tests.overlay.onyx.protocol.reducing_histories import (
    QUERIES,
    ReducingHistory,
    draw_batch,
    part,
    result,
    run_reducing_history,
    wanted,
)
from tests.seeds import seed_or
from twigcast.lab.overlays.onyx.scenario import OnyxNetwork
from twigcast.overlay.onyx.content.projection import Projection, read_part
from twigcast.overlay.onyx.messages import OverlayMessage
from twigcast.overlay.onyx.protocol.link_projection import LinkProjections
from twigcast.overlay.onyx.protocol.node import OnyxNode
from twigcast.overlay.onyx.protocol.settings import OnyxSettings

SEED = seed_or(20261128)
HISTORIES = int(os.environ.get("TWIGCAST_TEST_HISTORIES", "2000")) // 16


@pytest.mark.slow
def test_every_result_is_that_of_one_broker_whatever_happens() -> None:
    assert not failures(run_reducing_history, range(SEED, SEED + HISTORIES))


def test_histories_do_reduce() -> None:
    """Shows with twelve histories, always the same ones, that the test above has something to find."""
    reduced = insufficient = 0
    for seed in range(20261128, 20261140):
        history = ReducingHistory(seed)
        history.run()
        reduced += history.counts["reduced"]
        brokers = [history.network.broker(one) for one in history.network.addresses if history.network.is_alive(one)]
        insufficient += sum(broker.counts["insufficient"] for broker in brokers)
    assert reduced > 20
    assert insufficient > 0


@pytest.mark.parametrize("names", ['[[1,2],["a","b"]]', '[["a",null]]', '[[1,""]]', '["ab"]', '[["a","b","c"]]'])
def test_a_part_that_names_no_names_is_the_whole_message(names: str) -> None:
    """Whatever a neighbour tells, messages on their way to it are not in danger."""
    query = '"<a>{ for $n in /a/b return $n }</a>",[]'
    assert read_part(f'[{query},[["x",""]],[]]') is not None
    for text in (f"[{query},{names},[]]", f"[{query},null,{names}]"):
        part = read_part(text)
        whole = OverlayMessage(0, 1, "s", "s", "1", "application/xml", b"<a><b/></a>")
        assert part is None or LinkProjections().reduced(whole, part) is not None


@pytest.mark.parametrize("reduces", [False, True])
def test_a_row_of_brokers_carries_what_those_behind_take(reduces: bool) -> None:
    network = OnyxNetwork({(0, 1): 1, (1, 2): 1, (1, 3): 1}, OnyxSettings(reduces=reduces))
    network.start_all()
    network.run(5.0)
    asked = {2: QUERIES[0], 3: QUERIES[1]}
    for broker, query in asked.items():
        network.subscribe(broker, "k", wanted(query), part(query))
    network.run(5.0)
    rng = random.Random(SEED)
    sent = [network.publish(0, draw_batch(rng)) for _ in range(60)]
    network.run(10.0)
    bytes_stored = 0
    for broker, query in asked.items():
        accepted = network.stores[broker].accepted
        bytes_stored += sum(len(message.body) for message in accepted.values())
        for message in sent:
            got = accepted.get((0, message.number))
            expected = result(query, message.body)
            assert (None if got is None else result(query, got.body)) == expected
            if reduces and got is not None:
                assert b"image" not in got.body
    # Only what one of the two takes went over the first link.
    whole = sum(len(message.body) for message in sent)
    assert bytes_stored < whole / 2 if reduces else bytes_stored > whole / 2


def test_a_subscription_that_needs_more_gets_the_whole_at_once() -> None:
    """What was reduced when it came, and what comes later, by way of a broker between."""
    network = OnyxNetwork({(0, 1): 1, (1, 2): 1}, OnyxSettings(reduces=True))
    network.start_all()
    network.run(5.0)
    network.subscribe(2, "some", wanted(QUERIES[0]), part(QUERIES[0]))
    network.run(5.0)
    body = b"<b><n area='1'><head/></n><n area='3'/></b>"
    first = network.publish(0, body)
    network.run(2.0)
    assert network.stores[2].accepted[0, first.number].reduced
    # Both at one time: the message is under way when the subscription comes.
    second = network.publish(0, body)
    network.subscribe(2, "all", wanted("count(/b/n) = 1"))
    network.run(5.0)
    third = network.publish(0, body)
    network.run(2.0)
    for message in (second, third):
        got = network.stores[2].accepted[0, message.number]
        assert (got.body, got.reduced) == (body, "")
    assert network.broker(2).counts["insufficient"] == 1
    network.unsubscribe(2, "all")
    network.run(2.0)
    fourth = network.publish(0, body)
    network.run(2.0)
    assert network.stores[2].accepted[0, fourth.number].reduced


def test_what_goes_as_it_is_goes_first_and_nothing_is_reduced_for_links_that_do_not_want_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The order of the thesis: routing, then transformation for selected links alone (users' queries run elsewhere)."""
    network = OnyxNetwork({(0, 1): 1, (0, 2): 1, (0, 3): 1}, OnyxSettings(reduces=True))
    network.start_all()
    network.run(5.0)
    network.subscribe(1, "k", wanted(QUERIES[0]), part(QUERIES[0]))
    network.subscribe(2, "k", wanted(QUERIES[3]), part(QUERIES[3]))
    network.subscribe(3, "k", wanted("//urgent"))
    network.run(5.0)
    done: list[str] = []
    root = network.broker(0)
    assert root.projections is not None
    reduce = root.projections.reduced

    def noted(message: OverlayMessage, taken: Projection) -> OverlayMessage | None:
        done.append("reduce")
        return reduce(message, taken)

    def sent(node: OnyxNode, to: int, message: object) -> None:
        done.append(f"send {to}")

    monkeypatch.setattr(root.projections, "reduced", noted)
    monkeypatch.setattr(OnyxNode, "send", sent)
    for number, body in enumerate((b"<b><n area='1'/><urgent/></b>", b"<b><n area='3'/></b>", b"<b><urgent/></b>"), 1):
        done.clear()
        root.published([OverlayMessage(0, number, "", "", "", "application/xml", body)], 50.0)
        assert done == [["send 3", "reduce", "send 1"], ["reduce", "send 2"], ["send 3"]][number - 1]
