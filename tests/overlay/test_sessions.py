"""Sessions of peers: order, repetition, loss, and what a node refuses that was meant for its former life."""

from __future__ import annotations

from typing import Any, NamedTuple

from twigcast.lab.overlays.simulator import NetworkFaults, Simulator
from twigcast.overlay.core import (
    HEADER_BYTES,
    TOKENS_OF_A_LIFE,
    Address,
    LinkAcknowledgement,
    LinkMessage,
    LinkSettings,
    ProtocolNode,
    Traffic,
    carries,
)

LINK = LinkSettings(reliable=True, retry_delay=4.0, attempts_max=5)


@carries(Traffic.DATA, 8)
class Word(NamedTuple):
    """A numbered message."""

    number: int


#: Bytes of a word.
SIZE = HEADER_BYTES + 8


class Talker(ProtocolNode):
    """Notes what it hears, and what it cannot say."""

    def __init__(self, address: Address, incarnation: int = 0) -> None:
        super().__init__(address, LINK, incarnation)
        self.heard: list[tuple[Address, int]] = []
        self.lost: list[tuple[Address, bool]] = []
        self.unsaid: list[int] = []

    def _dispatch(self, sender: Address, message: Any) -> None:
        self.heard.append((sender, message.number))

    def on_link_lost(self, address: Address, restarted: bool) -> None:
        """Notes it."""
        self.lost.append((address, restarted))

    def on_unreachable(self, address: Address, message: Any) -> None:
        """Notes it."""
        self.unsaid.append(message.number)


def say(node: Talker, to: Address, numbers: range) -> None:
    for number in numbers:
        node.send(to, Word(number))


def pair(faults: NetworkFaults | None = None, seed: int = 0) -> tuple[Simulator, Talker, Talker]:
    simulator = Simulator(seed, faults or NetworkFaults())
    talkers = Talker(1), Talker(2)
    for talker in talkers:
        simulator.add(talker)
    return simulator, *talkers


def test_messages_arrive_in_order_and_once_on_a_network_that_loses_doubles_and_reorders() -> None:
    for seed in range(20):
        simulator, one, other = pair(NetworkFaults(0.1, 9.0, loss=0.15, duplication=0.2), seed)
        for number in range(60):
            simulator.at(number * 1.3, simulator.command, 1, say, 2, range(number, number + 1))
        simulator.run(until=600)
        heard = [number for _, number in other.heard]
        if not one.lost:
            assert heard == list(range(60)), seed
        assert len(heard) == len(set(heard))
        assert set(heard) | set(one.unsaid) == set(range(60))


def test_a_node_refuses_what_was_meant_for_its_former_life() -> None:
    simulator, one, _ = pair()
    simulator.command(1, say, 2, range(3))
    simulator.run(until=20)
    simulator.remove(2)
    later = Talker(2, incarnation=simulator.next_life(2))
    simulator.add(later)
    simulator.command(1, say, 2, range(3, 5))
    simulator.run(until=23)
    assert later.heard == []
    assert one.lost == [(2, True)]
    assert one.unsaid == [3, 4]
    simulator.command(1, say, 2, range(5, 6))
    simulator.run(until=30)
    assert later.heard == [(1, 5)]


def test_a_message_that_nobody_had_answered_is_for_the_life_that_is_there() -> None:
    simulator, one, _ = pair()
    simulator.remove(2)
    simulator.command(1, say, 2, range(2))
    simulator.run(until=5)
    later = Talker(2, incarnation=simulator.next_life(2))
    simulator.add(later)
    simulator.run(until=20)
    assert later.heard == [(1, 0), (1, 1)]
    assert one.lost == []


def test_the_word_of_a_former_life_is_not_heard() -> None:
    simulator, _, other = pair()
    simulator.remove(1)
    simulator.add(Talker(1, incarnation=simulator.next_life(1)))
    simulator.command(1, say, 2, range(1))
    simulator.run(until=5)
    late = LinkMessage(0, 7, 0, 0, Word(99))
    effects = other.receive(1, late, 6.0)
    assert other.heard == [(1, 0)]
    assert effects.sends == []


def test_what_others_say_of_a_life_counts_less_than_the_node_itself() -> None:
    simulator, one, other = pair()
    one.presume(2, 99)
    simulator.command(1, say, 2, range(2))
    simulator.run(until=30)
    assert other.heard == [(1, 0), (1, 1)]
    assert one.life_of(2) == 0
    one.presume(2, 99)
    assert one.life_of(2) == 0


def test_a_node_that_was_presumed_in_a_former_life_is_lost_with_its_first_word() -> None:
    simulator, one, _ = pair()
    simulator.remove(2)
    simulator.add(Talker(2, incarnation=3))
    one.presume(2, 1)
    simulator.command(1, say, 2, range(2))
    simulator.run(until=30)
    assert one.lost == [(2, True)]
    assert one.unsaid == [0, 1]


def test_after_a_lost_session_the_next_one_begins_anew() -> None:
    simulator, one, other = pair()
    simulator.cut(1, 2)
    simulator.command(1, say, 2, range(3))
    simulator.run(until=100)
    assert one.lost == [(2, False)]
    assert one.unsaid == [0, 1, 2]
    assert not one.unacknowledged
    simulator.mend(1, 2)
    simulator.command(1, say, 2, range(3, 6))
    simulator.run(until=200)
    assert [number for _, number in other.heard] == [3, 4, 5]


def test_an_acknowledgement_of_a_former_life_changes_nothing() -> None:
    _, one, _ = pair()
    say(one, 2, range(1))
    one.drain()
    one.receive(2, LinkAcknowledgement(0, 5, 1, 1), 1.0)
    assert one.unacknowledged
    one.receive(2, LinkAcknowledgement(0, 0, 1, 1), 1.0)
    assert not one.unacknowledged


def test_no_number_is_drawn_in_two_lives() -> None:
    drawn = [{Talker(1, life).new_token() for _ in range(1)} for life in range(5)]
    assert len(set.union(*drawn)) == 5
    later = Talker(1, 2)
    assert later.new_token() > Talker(1, 1).new_token() + TOKENS_OF_A_LIFE - 2


def test_no_more_than_the_window_is_under_way() -> None:
    talker = Talker(1)
    talker.link = LINK._replace(window_bytes=3 * SIZE + 1)
    say(talker, 2, range(10))

    def sent() -> list[int]:
        return [envelope.message.number for _, envelope in talker.drain().sends]

    assert sent() == [0, 1, 2]
    assert talker.unacknowledged == 10
    talker.receive(2, LinkAcknowledgement(0, 0, 1, 2), 1.0)
    say(talker, 2, range(10, 11))
    talker.receive(2, LinkAcknowledgement(0, 0, 1, 2), 1.0)
    assert talker.unacknowledged == 9


def test_a_window_is_filled_as_messages_arrive_and_one_may_be_larger_than_it() -> None:
    for seed in range(20):
        simulator, one, other = pair(NetworkFaults(0.1, 9.0, loss=0.1, duplication=0.2), seed)
        one.link = LINK._replace(window_bytes=(1, 200)[seed % 2])
        simulator.command(1, say, 2, range(40))
        simulator.run(until=3_000)
        heard = [number for _, number in other.heard]
        assert heard == list(range(len(heard)))
        assert sorted({*heard, *one.unsaid}) == list(range(40))
        assert one.lost or not one.unacknowledged


def test_what_a_lost_connection_had_is_sent_again_in_order() -> None:
    talker = Talker(1)
    talker.link = LINK._replace(window_bytes=2 * SIZE)
    say(talker, 2, range(5))
    talker.drain()
    talker.resume(2)
    assert [envelope.sequence for _, envelope in talker.drain().sends] == [0, 1]
    # More had arrived than was sent again.
    talker.resume(2)
    talker.drain()
    effects = talker.receive(2, LinkAcknowledgement(0, 0, 1, 2), 1.0)
    assert [envelope.sequence for _, envelope in effects.sends] == [2, 3]
    talker.resume(3)
    assert talker.drain().sends == []


def test_who_is_too_slow_is_lost_with_the_next_repetition() -> None:
    simulator, one, other = pair()
    one.link = LINK._replace(window_bytes=SIZE, backlog_bytes_max=20 * SIZE)
    simulator.command(1, say, 2, range(20))
    assert not one.is_too_slow(2)
    simulator.run(until=200)
    assert [number for _, number in other.heard] == list(range(20))
    simulator.command(1, say, 2, range(20, 60))
    assert one.is_too_slow(2)
    simulator.run(until=simulator.now + LINK.retry_delay + 1)
    assert one.lost == [(2, False)]
    assert not one.is_too_slow(2)
    assert sorted({number for _, number in other.heard} | set(one.unsaid)) == list(range(60))
