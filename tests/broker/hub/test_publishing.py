"""Publishing: who gets what, what is kept of messages that cannot be processed, and when something was there before."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from lxml import etree

from tests.broker.hub.hubs import TENANT, drain, heard, publish, publish_any, run, running, subscribe, subscribe_many
from tests.seeds import printed_seed
from twigcast.broker.errors import IdReused
from twigcast.broker.model import Accepted, NewSubscription, RejectedRecord, Submission
from twigcast.broker.store.store import Store
from twigcast.errors import QueryWarning
from twigcast.limits import Limits

QUERIES = [
    "//a",
    "/m/b[c]",
    "//c[. > 5]",
    "//b/@x",
    "count(//a) > 2",
    "//a[following-sibling::b]",
    "/m[not(.//c)]",
    "//b[@x = 'u']/c",
    "string(//a) = '3'",
    "//*[@x][c]",
]


def random_message(source: random.Random, depth: int = 0) -> str:
    parts = []
    for name in source.choices("abc", k=source.randint(0, 3) if depth < 3 else 0):
        attribute = source.choice(["", " x='u'", " x='v'"])
        parts.append(f"<{name}{attribute}>{random_message(source, depth + 1)}</{name}>")
    return "".join(parts) or str(source.randrange(9))


def test_each_message_reaches_whom_lxml_says(store: Store) -> None:
    seed = 11
    source = random.Random(seed)
    messages = [f"<m>{random_message(source)}</m>" for _ in range(300)]

    async def play() -> None:
        async with running(store, group_messages_max=50) as broker:
            subscriptions = [await subscribe(broker, query, query) for query in QUERIES]
            accepted = []
            for start in range(0, len(messages), 30):
                accepted += await publish(broker, *messages[start : start + 30])
            for subscription in subscriptions:
                requested = [
                    result.seq
                    for result, message in zip(accepted, messages, strict=True)
                    if etree.fromstring(message).xpath(f"boolean({subscription.query})")
                ]
                got = await drain(broker, subscription.queue_id)
                assert [d.id.seq for d in got] == requested, (seed, subscription.query)
            assert broker.metrics.deliveries == sum(result.matches for result in accepted)

    run(play())


def test_a_change_counts_from_the_next_message(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            first = await subscribe(broker, "first", "//a")
            (before,) = await publish(broker, "<a/>")
            second = await subscribe(broker, "second", "//a")
            (after,) = await publish(broker, "<a/>")
            assert (before.matches, after.matches) == (1, 2)
            assert [d.id.seq for d in await drain(broker, second.queue_id)] == [after.seq]
            await broker.unsubscribe(first)
            (last,) = await publish(broker, "<a/>")
            assert last.matches == 1

    run(play())


def test_the_same_message_is_accepted_once(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            subscription = await subscribe(broker, "k", "//a")
            same = Submission(TENANT, b"<a/>", message_id="one")
            other_source = Submission(TENANT, b"<a/>", source="other", message_id="one")
            results = await publish_any(broker, same, same, other_source)
            assert all(isinstance(r, Accepted) for r in results)
            first, again, other = results
            assert isinstance(first, Accepted)
            assert again == Accepted(first.seq, "one", 1, duplicate=True)
            assert isinstance(other, Accepted)
            assert not other.duplicate
            assert await publish_any(broker, same) == [again]
            assert len(await drain(broker, subscription.queue_id)) == 2
            assert broker.metrics.duplicates == 2

    run(play())


def test_another_body_under_a_used_id_is_refused_also_after_a_restart(open_again: Callable[[], Store]) -> None:
    first, other = (Submission(TENANT, body, message_id="one") for body in (b"<a/>", b"<a>2</a>"))
    broken = Submission(TENANT, b"<a", message_id="one")

    async def play(store: Store, *, again: bool) -> None:
        async with running(store) as broker:
            results = await publish_any(broker, first, other, first, broken, Submission(TENANT, b"<b/>"))
            taken = results[0]
            assert isinstance(taken, Accepted)
            assert (taken.seq, taken.duplicate) == (1, again)
            assert results[2] == Accepted(1, "one", 0, duplicate=True)
            for refused in (results[1], results[3]):
                assert isinstance(refused, IdReused)
                assert (refused.seq, refused.message_id) == (1, "one")
                assert "'one', as message 1" in str(refused)
            assert isinstance(results[4], Accepted), "the others of the batch are stored"
            (alone,) = await publish_any(broker, other)
            assert str(alone) == str(results[1])
            assert broker.metrics.ids_reused == 3
            assert broker.store.rejected(TENANT, limit=9) == []

    store = open_again()
    run(play(store, again=False))
    store.close()
    run(play(open_again(), again=True))


def test_messages_stored_before_digests_are_repeated_by_any_body(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            await publish(broker, "<a/>", message_id="one")
            with store.transaction() as transaction:
                transaction.session.execute("UPDATE messages SET digest = NULL")
            (again,) = await publish(broker, "<other/>", message_id="one")
            assert again.duplicate

    run(play())


def test_a_rejected_message_does_not_take_its_id(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            bad, good = (Submission(TENANT, body, message_id="one") for body in (b"<a>", b"<a/>"))
            results = await publish_any(broker, bad, good, good)
            assert [type(r) for r in results] == [RejectedRecord, Accepted, Accepted]
            assert [getattr(r, "duplicate", None) for r in results] == [None, False, True]

    run(play())


def test_b18_broken_messages_among_good_ones_are_kept_with_the_place(store: Store) -> None:
    messages = [f"<m><n>{number}</n></m>".encode() for number in range(1_000)]
    messages[17] = b"<m>\n  <n>17</m>"
    messages[500] = b"<m><n>\xff</n></m>"
    messages[999] = b"no markup"

    async def play() -> None:
        async with running(store) as broker:
            subscription = await subscribe(broker, "all", "/m")
            results = await broker.publish([Submission(TENANT, body) for body in messages])
            rejected = [r for r in results if isinstance(r, RejectedRecord)]
            assert [results.index(r) for r in rejected] == [17, 500, 999]
            assert [(r.line, r.column is not None, r.body) for r in rejected] == [
                (2, True, messages[17]),
                (1, True, messages[500]),
                (1, True, messages[999]),
            ]
            assert all(r.reason for r in rejected)
            assert len(await drain(broker, subscription.queue_id)) == 997
            kept = broker.store.rejected(TENANT, limit=10)
            assert [k.body for k in reversed(kept)] == [r.body for r in rejected]
            assert (broker.metrics.accepted, broker.metrics.rejected) == (997, 3)

    run(play())


def test_ten_thousand_malformed_messages_among_good_ones(store: Store) -> None:
    seed = printed_seed()
    chance = random.Random(seed)
    broken = [b"<m>", b"<m><n></m>", b"\xff\xfe<", b"", b"<m a='1' a='2'/>", b"<m>&no;</m>", b"<a/><b/>", b"<m:n/>"]
    bodies = [chance.choice(broken) for _ in range(10_000)] + [b"<m>%d</m>" % n for n in range(200)]
    chance.shuffle(bodies)
    good = [body for body in bodies if body not in broken]

    async def play() -> None:
        async with running(store) as broker:
            subscription = await subscribe(broker, "all", "/m")
            parts = [bodies[first : first + 300] for first in range(0, len(bodies), 300)]
            answers = await asyncio.gather(
                *(broker.publish([Submission(TENANT, body) for body in part]) for part in parts)
            )
            results = [result for answer in answers for result in answer]
            for body, result in zip(bodies, results, strict=True):
                assert isinstance(result, RejectedRecord) == (body in broken), body
            assert [d.body for d in await drain(broker, subscription.queue_id)] == good
            assert store.statistics(TENANT).rejected == 10_000

    run(play())


def test_b05_a_subscription_that_fails_gets_an_error_record_and_the_others_their_delivery(store: Store) -> None:
    # Each step starts at all that the one before has found, so that the failing query visits too much.
    body = "<m>" + "<a><b/></a>" * 60 + "</m>"
    failing = "//a[count(following::b/preceding::a/following::b) > 100000000]"

    async def play() -> None:
        async with running(store, limits=Limits(query_visits_max=1_000)) as broker:
            good = [await subscribe(broker, f"good{number}", "//a[b]") for number in range(3)]
            faulty = await subscribe(broker, "faulty", failing)
            (accepted,) = await publish(broker, body)
            assert accepted.matches == 3
            for subscription in good:
                assert len(await drain(broker, subscription.queue_id)) == 1
                assert not broker.store.errors(subscription.id, 10)
            assert not await drain(broker, faulty.queue_id)
            (record,) = broker.store.errors(faulty.id, 10)
            assert record.seq == accepted.seq
            assert record.reason
            assert broker.metrics.undecided == 1

    run(play())


def test_a_subscription_that_is_always_too_expensive_is_set_aside_and_its_owner_hears_why(store: Store) -> None:
    # It takes the square of the message, and limits grow with the message.
    body = "<r>" + "".join(f"<a x='{n}'><b>{n}</b></a>" for n in range(2_000)) + "</r>"

    async def play() -> None:
        async with running(store, limits=Limits(message_visits_max=50_000)) as broker:
            good = await subscribe(broker, "good", "//a[@x = '7']")
            costly = await subscribe(broker, "costly", "//a[following::a[position() mod @x = 0]/@none]")
            for _ in range(6):
                await publish(broker, body)
            assert len(await drain(broker, good.queue_id)) == 6
            reasons = [record.reason for record in broker.store.errors(costly.id, 10)]
            assert any("message_visits_max" in reason for reason in reasons)
            assert any("throttled" in reason for reason in reasons)
            assert broker.metrics.undecided == 6
            assert broker.metrics.throttled == 1

    run(play())


def test_numbers_with_exponents_that_are_not_read_are_counted_and_not_logged(
    store: Store, recwarn: pytest.WarningsRecorder
) -> None:
    async def play() -> None:
        async with running(store) as broker:
            await subscribe(broker, "heavy", "//planet[@mass > 1000000]")
            await publish(broker, "<planet mass='5000000'/>")
            assert broker.metrics.unread_numbers == 0
            await publish(broker, "<planet mass='5.97e24'/>")
            assert broker.metrics.unread_numbers > 0

    run(play())
    assert [one for one in recwarn if issubclass(one.category, QueryWarning)] == []


def test_b14_work_does_not_grow_with_those_that_do_not_match(store: Store) -> None:
    body = b"<order><item sku='s7'>x</item></order>"

    async def seconds(count: int) -> float:
        async with running(store) as broker:
            have = broker.metrics.subscriptions
            new = [
                NewSubscription(TENANT, f"k{number}", f"//item[@sku='s{number}']", subscriber="all")
                for number in range(have, count)
            ]
            await subscribe_many(broker, new)
            await publish(broker, body)
            before = broker.metrics.group_seconds.total
            times = []
            for _ in range(7):
                results = await broker.publish([Submission(TENANT, body)] * 200)
                assert all(isinstance(r, Accepted) and r.matches == 1 for r in results)
                times.append(broker.metrics.group_seconds.total - before)
                before = broker.metrics.group_seconds.total
            return min(times)

    few = run(seconds(100))
    many = run(seconds(10_000))
    assert many < 3 * few, (few, many)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["one lane", "a lane each"])
def test_b09_one_message_for_a_hundred_thousand_subscriptions(store: Store, shared: bool) -> None:
    # The store has a test of its own with as many on PostgreSQL, where adding them takes longest.
    count = 100_000 if shared and store.url.startswith("sqlite") else 20_000

    async def play() -> None:
        async with running(store) as broker:
            await subscribe_many(
                broker,
                [
                    NewSubscription(
                        TENANT, f"k{number}", f"/m[n > {number % 50}]", subscriber="all" if shared else None
                    )
                    for number in range(count)
                ],
            )
            (accepted,) = await publish(broker, "<m><n>1000</n></m>")
            assert accepted.matches == count
            assert broker.metrics.deliveries == count
            if shared:
                queue = broker.store.queue(TENANT, "all")
                assert queue is not None
                got = await heard(broker, queue.id, count)
                assert len({d.key for d in got}) == len(got) == count
                assert all(d.message is got[0].message for d in got[:100])
            else:
                queue = broker.store.queue(TENANT, f"k{count - 1}")
                assert queue is not None
                assert len(await drain(broker, queue.id)) == 1

    run(play(), 120)


def test_bodies_are_kept_as_utf8_whatever_they_came_in(store: Store) -> None:
    declared = '<?xml version="1.0" encoding="iso-8859-1"?><m>\xe9</m>'
    cases = [
        (declared.encode("latin-1"), None),
        # The transport wins over the declaration, and a mark over both.
        (declared.encode(), "utf-8"),
        ("<m>\xe9</m>".encode("utf-16"), None),
        ("\ufeff<m>\xe9</m>".encode(), "iso-8859-1"),
        ("<m>\xe9</m>".encode("latin-1"), "iso-8859-1"),
    ]

    async def play() -> None:
        async with running(store) as broker:
            subscription = await subscribe(broker, "k", "/m[. = '\xe9']")
            results = await broker.publish([Submission(TENANT, body, charset=charset) for body, charset in cases])
            assert [getattr(r, "matches", r) for r in results] == [1] * len(cases)
            for delivery in await drain(broker, subscription.queue_id):
                assert "<m>\xe9</m>" in delivery.body.decode()
                assert etree.fromstring(delivery.body).text == "\xe9"
            (unknown,) = await publish_any(broker, Submission(TENANT, b"<m/>", charset="x-nothing"))
            assert isinstance(unknown, RejectedRecord)
            assert "x-nothing" in unknown.reason

    run(play())


def test_what_a_doctype_declares_counts_and_is_written_into_what_is_delivered(store: Store) -> None:
    body = b"<!DOCTYPE m [<!ENTITY e 'seen'><!ATTLIST m kind CDATA 'plain'>]><m>&e;</m>"

    async def play() -> None:
        async with running(store) as broker:
            subscription = await subscribe(broker, "k", "/m[@kind = 'plain'][. = 'seen']")
            await publish(broker, body, "<m/>")
            (delivery,) = await drain(broker, subscription.queue_id)
            assert delivery.body == b'<m kind="plain">seen</m>'

    run(play())


def test_tenants_do_not_see_each_other(store: Store) -> None:
    with store.transaction() as transaction:
        other = transaction.add_tenant("other", {}).id

    async def play() -> None:
        async with running(store) as broker:
            mine = await subscribe(broker, "k", "//a")
            theirs = await subscribe(broker, "k", "//a", tenant_id=other)
            results = await broker.publish(
                [Submission(tenant, b"<a/>", message_id="same") for tenant in (TENANT, other, TENANT)]
            )
            assert [(getattr(r, "matches", r), getattr(r, "duplicate", r)) for r in results] == [
                (1, False),
                (1, False),
                (1, True),
            ]
            assert len(await drain(broker, mine.queue_id)) == len(await drain(broker, theirs.queue_id)) == 1

    run(play())
