"""The registry among real brokers: who holds it, who asks, what is refused, and what survives a restart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from tests.broker.hub.hubs import run
from tests.broker.overlay.overlays import NewStore, Part, part, until
from twigcast.broker.errors import Conflict, Forbidden, Invalid, UnknownObject
from twigcast.broker.overlay.broker_node import BrokerNode
from twigcast.broker.overlay.registry import registrar
from twigcast.broker.overlay.registry.catalogue import Catalogue, scope_and_name, source_name
from twigcast.broker.overlay.registry.registrar import NoRegistry
from twigcast.broker.store.store import Store
from twigcast.overlay.onyx.content.routing_query import routing_query
from twigcast.overlay.onyx.messages import SourceEntry
from twigcast.overlay.onyx.registry import raft

HOLDERS = ("a", "b", "c")
DTD = "<!ELEMENT feed (item*)><!ELEMENT item EMPTY><!ATTLIST item n CDATA #REQUIRED>"


def broker(store: Store, name: str, *join: Any, port: int = 0, **more: Any) -> Any:
    settings = {"url": f"http://{name}.example", "capacity": 1e6} | more
    if name in HOLDERS:
        settings.setdefault("holders", HOLDERS)
    return part(store, name, *join, node_class=BrokerNode, port=port, more=settings)


@contextlib.asynccontextmanager
async def row(stores: dict[str, Store], *names: str) -> AsyncIterator[dict[str, Part]]:
    """Brokers in a row, each far from the others."""
    async with contextlib.AsyncExitStack() as stack:
        parts: dict[str, Part] = {}
        before: list[Any] = []
        for number, name in enumerate(names):
            created = await stack.enter_async_context(
                broker(stores[name], name, *before, location=(float(number * 10), 0.0))
            )
            parts[name] = created
            before = [created.target]
        yield parts


async def register(at: Part, name: str, key: str | None = None, *, x: float = 0.0, dtd: str = "") -> tuple[str, str]:
    """Register a source; its key and the name of its root."""
    key, choice = await at.overlay.registering.register_source(
        "default", name, key, location=(x, 0.0), schema=dtd, rate=1.0, size=100
    )
    return key, choice.broker.name


def entry(at: Part, name: str) -> SourceEntry | None:
    return at.overlay.registering.catalogue.source("default", name)


def check(at: Part, name: str, key: str | None) -> None:
    at.overlay.registering.catalogue.check("default", {name}, key, "token robin")


def test_any_broker_registers_sources_and_all_know_them_with_their_schemas(new_store: NewStore) -> None:
    async def work() -> None:
        names = ("a", "b", "c", "d")
        async with row({name: new_store(name) for name in names}, *names) as parts:
            d = parts["d"]
            await until(lambda: len(parts["a"].overlay.registering.brokers()) == 4)
            # d holds nothing and was told nothing: it learns from the others who holds the registry.
            await until(lambda: d.overlay.registering.report().holders == HOLDERS)
            key, root = await register(d, "news", x=19.0, dtd=DTD)
            assert root == "c"
            for at in parts.values():
                await until(partial(entry, at, "news"))
                result = entry(at, "news")
                assert result is not None
                assert (result.schema, result.root) == (DTD, parts["c"].node.address)
            # It is changed with its key alone, and keeps its root.
            assert await register(parts["a"], "news", key, x=0.0) == (key, "c")
            with pytest.raises(Forbidden, match="not its key"):
                await register(parts["b"], "news", "sk_another")
            with pytest.raises(Forbidden, match="key"):
                await d.overlay.registering.remove_source("default", "news", None)
            with pytest.raises(Invalid, match="schema"):
                await register(d, "other", dtd="<!ELEMENT")
            reports = [at.overlay.registering.report() for at in parts.values()]
            assert sum(report.role == "leader" for report in reports) == 1
            await parts["b"].overlay.registering.remove_source("default", "news", key)
            await until(lambda: not any(entry(at, "news") for at in parts.values()))
            with pytest.raises(UnknownObject):
                await d.overlay.registering.remove_source("default", "news", key)

    run(work())


def test_who_sends_another_sources_id_is_refused_and_named(
    new_store: NewStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with row({name: new_store(name) for name in HOLDERS}, *HOLDERS) as parts:
            await until(lambda: len(parts["b"].overlay.registering.brokers()) == 3)
            key, root = await register(parts["b"], "news", x=10.0)
            assert root == "b"
            a, b = parts["a"], parts["b"]
            await until(lambda: entry(a, "news") and entry(b, "news"))
            check(b, "news", key)
            check(b, "unregistered", None)
            for wrong in (None, "sk_wrong"):
                with pytest.raises(Forbidden, match="this is not its key"):
                    check(b, "news", wrong)
            with pytest.raises(Conflict, match=r"publishes at the broker b \(http://b\.example\)"):
                check(a, "news", key)
            await until(lambda: "source" in b.overlay._inside.driver.troubles.counts)
            report = await b.overlay.report()
            (trouble,) = [one for one in report.troubles if one.kind == "source"]
            assert trouble.peer == "token robin"
            assert "'news'" in trouble.reason

    run(work())
    assert "token robin publishes as the source 'news', and shows no key for it" in caplog.text


@pytest.mark.slow
def test_the_registry_survives_the_loss_of_one_holder_and_a_restart_of_all(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = {name: new_store(name) for name in HOLDERS}
    kept: dict[str, str] = {}

    async def first() -> None:
        async with row(stores, "a", "b") as parts:
            # Two of three are enough.
            await until(lambda: len(parts["a"].overlay.registering.brokers()) == 2)
            kept["key"], _ = await register(parts["a"], "news", dtd=DTD)
            await until(lambda: entry(parts["b"], "news"))

    async def alone() -> None:
        monkeypatch.setattr(registrar, "PATIENCE_SECONDS", 3.0)
        async with broker(stores["b"], "b") as b:
            # Without any link the catalogue is known, and what needs others is refused.
            assert entry(b, "news") is not None
            with pytest.raises(NoRegistry, match=r"too few can be reached.*ask again with the key sk_") as raised:
                await register(b, "more")
            kept["more"] = str(raised.value).rpartition(" ")[2]
            with pytest.raises(NoRegistry, match=r"still be carried out$"):
                await register(b, "more", kept["more"])
        monkeypatch.undo()

    async def again() -> None:
        async with row(stores, *HOLDERS) as parts:
            await until(lambda: len(parts["c"].overlay.registering.brokers()) == 3)
            with pytest.raises(Forbidden):
                await register(parts["c"], "news")
            await register(parts["c"], "news", kept["key"], dtd=DTD)
            await register(parts["c"], "more", kept["more"])
            await until(lambda: all(entry(at, "news") for at in parts.values()))
            # c was not there when it began; it holds all of the log now.
            await until(lambda: parts["c"].overlay.registering.report().entries >= 2)

    for work in (first, alone, again):
        run(work())


def test_subscribers_are_sent_where_they_are_near_and_where_the_same_is_wanted(new_store: NewStore) -> None:
    async def work() -> None:
        async with row({name: new_store(name) for name in HOLDERS}, *HOLDERS) as parts:
            registering = parts["c"].overlay.registering
            await until(lambda: len(registering.brokers()) == 3)
            requested = routing_query("//item[@n = 1]")
            near = await registering.register_profile("default", "p1", (20.0, 1.0), requested)
            assert (near.broker.name, near.broker.url) == ("c", "http://c.example")
            assert near.backup is not None
            chosen = await registering.choose((9.0, 0.0), requested)
            assert chosen.broker.name == "b"
            await registering.remove_profile("default", "p1")
            with pytest.raises(UnknownObject):
                await registering.remove_profile("default", "p1")
            with pytest.raises(Conflict, match="can be reached"):
                await registering.remove_broker("b")
            with pytest.raises(UnknownObject):
                await registering.remove_broker("z")

    run(work())


def test_a_broker_that_is_gone_leaves_its_sources_to_others(new_store: NewStore) -> None:
    async def work() -> None:
        stores = {name: new_store(name) for name in (*HOLDERS, "d", "again")}
        async with row(stores, *HOLDERS) as parts:
            a = parts["a"]
            async with broker(stores["d"], "d", a.target, location=(-10.0, 0.0)) as d:
                await until(lambda: len(a.overlay.registering.brokers()) == 4)
                key, root = await register(a, "far", x=-10.0)
                assert root == "d"
                await until(lambda: entry(d, "far"))
                check(d, "far", key)
            await until(lambda: len(a.overlay.registering.brokers()) == 3)
            # It comes back without its store: another broker, which is not the root of anything.
            async with broker(stores["again"], "d", a.target, location=(-50.0, 0.0)) as d:
                await until(lambda: entry(d, "far") and len(a.overlay.registering.brokers()) == 4)
                with pytest.raises(Conflict, match="publishes at the broker"):
                    check(d, "far", key)
                moved = await a.overlay.registering.remove_broker("d")
                assert len(moved.sources) == 1
                await until(lambda: (result := entry(a, "far")) and result.root == a.node.address)
                check(a, "far", key)
                assert (await a.overlay.registering.remove_broker("d")).sources == ()

    run(work())


def test_a_broker_that_was_gone_may_come_back(new_store: NewStore) -> None:
    async def work() -> None:
        stores = {"a": new_store("a"), "d": new_store("d")}
        async with broker(stores["a"], "a", holders=("a",)) as a:
            holder = a.overlay.registering._registrar._replica
            assert holder is not None
            for _ in range(2):
                async with broker(stores["d"], "d", a.target):
                    await until(lambda: len(holder.registry.brokers) == 2)
                await until(lambda: len(a.overlay.registering.brokers()) == 1)
                await a.overlay.registering.remove_broker("d")
                assert len(holder.registry.brokers) == 1

    run(work())


def test_a_holder_that_lost_its_store_is_not_listened_to(new_store: NewStore) -> None:
    """It has forgotten what it promised: it must not vote again in a term in which it has voted."""

    async def work() -> None:
        stores = {name: new_store(name) for name in (*HOLDERS, "again")}
        async with broker(stores["a"], "a") as a, broker(stores["b"], "b", a.target) as b:
            async with broker(stores["c"], "c", b.target) as c:
                await until(lambda: len(c.overlay.registering.brokers()) == 3)
                await register(c, "news")
                ledger = a.overlay.registering._ledger
                assert ledger is not None
                await until(lambda: "c" in ledger.members)
            async with broker(stores["again"], "c", b.target):
                await until(lambda: "registry" in a.overlay._inside.driver.troubles.counts, seconds=30)
                assert any("another store" in t.reason for t in a.overlay._inside.driver.troubles.latest)
                # The others are a majority without it.
                await register(b, "more")

    run(work())


def test_without_holders_nothing_is_registered_and_all_else_works(new_store: NewStore) -> None:
    async def work() -> None:
        async with broker(new_store("x"), "x") as x:
            with pytest.raises(NoRegistry, match="overlay_registry"):
                await register(x, "news")
            check(x, "news", None)

    run(work())


def test_brokers_that_name_different_holders_say_so(new_store: NewStore) -> None:
    async def work() -> None:
        one = broker(new_store("a"), "a", holders=("a",))
        async with one as a, broker(new_store("b"), "b", a.target, holders=("a", "b")) as b:
            await until(lambda: all("registry" in at.overlay._inside.driver.troubles.counts for at in (a, b)))

    run(work())


def test_a_source_whose_key_is_told_in_nonsense_is_nobodys() -> None:
    catalogue = Catalogue(1, str, lambda *_: None)
    catalogue.learn(SourceEntry(source_name("t", "s"), 1, 1, owner="ké"))
    for key in (None, "a key"):
        with pytest.raises(Forbidden):
            catalogue.check("t", {"s"}, key, "somebody")


def test_names_of_tenants_and_sources_are_kept_apart() -> None:
    pairs = [("a", "b c"), ("a b", "c"), ("", "x"), ("1 a", "b"), ("a", "1 a b")]
    names = [source_name(*pair) for pair in pairs]
    assert len(set(names)) == len(pairs)
    assert [scope_and_name(name) for name in names] == pairs
    assert scope_and_name("no such name") == ("", "no such name")


def test_what_is_written_while_the_store_does_not_answer_is_written_later(new_store: NewStore) -> None:
    """The ledger waits: nothing is told before it is durable."""
    from twigcast.broker.errors import StoreUnavailable
    from twigcast.broker.overlay.registry.registrar import Ledger, Records
    from twigcast.overlay.onyx.registry.raft import LogEntry, LogSnapshot

    class Failing(Records):
        def __init__(self) -> None:
            self.failures = 2
            self.kept: dict[str, dict[str, bytes]] = {}

        def load(self, kind: str) -> dict[str, bytes]:
            return dict(sorted(self.kept.get(kind, {}).items()))

        async def _write(self, kind: str, put: Any, gone: Any) -> None:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("it does not answer")
            kept = self.kept.setdefault(kind, {})
            for name in gone:
                kept.pop(name, None)
            kept.update(put)

    async def work() -> None:
        records = Failing()
        ledger = Ledger(records)
        ledger.durable.term, ledger.durable.voted_for = 3, 7
        ledger.durable.log += [LogEntry(1, None, None), LogEntry(2, "r", "command"), LogEntry(2, "s", "x")]
        ledger.members["b"] = 5
        await ledger.keep()
        assert records.failures == 0
        # A tail that is replaced, and one that is cut off.
        ledger.durable.log[1:] = [LogEntry(3, "t", "other")]
        await ledger.keep()
        again = Ledger(records)
        assert again.durable == ledger.durable
        assert again.members == {"b": 5}
        # A log that is shortened, at once with what stands for its beginning; and then grows.
        durable = again.durable
        durable.snapshot, durable.base, durable.base_term = LogSnapshot(2, 3, "state"), 1, 1
        del durable.log[:1]
        await again.keep()
        durable.log.append(LogEntry(4, "u", "more"))
        await again.keep()
        assert Ledger(records).durable == durable
        # Somebody else's snapshot in place of all of it.
        durable.snapshot, durable.base, durable.base_term, durable.log[:] = LogSnapshot(9, 5, "other"), 9, 5, []
        await again.keep()
        assert Ledger(records).durable == durable
        assert list(records.kept["registry-log"]) == ["snapshot"]

    asyncio.run(work())


@pytest.mark.slow
def test_a_holder_that_was_away_while_the_log_was_shortened_knows_all(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrar, "ENTRIES_MAX", 10)
    monkeypatch.setattr(raft, "PIECE_CHARACTERS", 300)
    stores = {name: new_store(name) for name in HOLDERS}

    async def all_three() -> None:
        async with row(stores, *HOLDERS) as parts:
            await register(parts["a"], "early")
            await until(lambda: entry(parts["c"], "early") is not None)

    async def two() -> None:
        async with row(stores, "a", "b") as parts:
            for number in range(30):
                await register(parts["b"], f"source-{number}")

    async def again() -> None:
        # The first is not there, so that a majority needs the one that was away.
        async with row(stores, "c", "b") as parts:
            report = parts["c"].overlay.registering.report
            await until(lambda: report().entries > 30)
            assert all(entry(parts["c"], f"source-{number}") is not None for number in range(30))
            key, _ = await register(parts["c"], "late")
            check(parts["c"], "late", key)
        assert len(stores["c"].overlay_records("registry-log")) <= 12

    async def alone() -> None:
        # What it knows comes out of its own snapshot then.
        async with row(stores, "c", "a") as parts:
            await register(parts["c"], "last")
            assert entry(parts["c"], "source-7") is not None

    for work in (all_three, two, again, alone):
        run(work())
