"""Tokens, tenants and sources in the console."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.broker.console.conftest import Party
from tests.broker.console.running import BrokerWithConsole, Person
from twigcast.broker.console.sources import LATELY_SECONDS, LOOKED_AT, lately
from twigcast.broker.model import MessageSummary, Scope, Source
from twigcast.broker.sources.reports import PollReport
from twigcast.errors import MalformedMessage

ALERT = b"<alert><area>harbour</area><severity>high</severity></alert>"


def test_a_token_is_shown_once_and_works(party: Party) -> None:
    page = party.person.get("/console/tokens")
    page = party.person.submit(page.form("/console/tokens/add"), name="no scope")
    assert page.status == 422
    page = party.person.submit(page.form("/console/tokens/add"), name="reader", scope_subscribe="1")
    secret = page.all("//div[contains(@class, 'note')]//pre")[0].text
    assert secret not in party.person.get("/console/tokens").text
    reader = Person(party.broker)
    assert reader.sign_in(secret).status == 200
    assert party.name in reader.get("/").words
    reader.http.close()


def test_the_token_in_use_is_not_deleted(party: Party) -> None:
    (own,) = party.broker.store.tokens(party.tenant_id)
    csrf = party.person.get("/").all("//input[@name='csrf']/@value")[0]
    page = party.person.send("/console/tokens/delete", {"id": str(own.id), "csrf": csrf})
    assert page.status == 409
    assert party.person.get("/").status == 200


def test_an_operator_makes_tenants_and_looks_at_them(
    operator: Person, party: Party, running: BrokerWithConsole
) -> None:
    party.publish(ALERT, source="only here")
    page = operator.get("/console/tenants")
    name = f"museum of {party.name}"
    page = operator.submit(page.form("/console/tenants/add"), name=name)
    assert name in page.words
    assert operator.submit(page.form("/console/tenants/add"), name=name).status == 422
    assert "only here" not in operator.get("/console/messages").words
    page = operator.submit(page.form("/console/tenants/look", tenant=str(party.tenant_id)))
    assert f"You are viewing the tenant {party.name}" in page.words
    assert "only here" in operator.get("/console/messages").words
    form = operator.get("/console/subscriptions/new").form("/console/subscriptions/new")
    operator.submit(form, key="made by the operator", query="//a")
    assert running.store.subscription(party.tenant_id, "made by the operator") is not None
    page = operator.submit(operator.get("/").form("/console/tenants/look", tenant=""))
    assert "You look at" not in page.words
    assert "only here" not in operator.get("/console/messages").words


def test_limits_of_a_tenant_are_set(operator: Person, party: Party, running: BrokerWithConsole) -> None:
    page = operator.get("/console/tenants")
    page = operator.submit(page.form("/console/tenants/limits", tenant=str(party.tenant_id)), tokens_max="1")
    assert {t.id: t.limits for t in running.store.tenants()}[party.tenant_id] == {"tokens_max": 1}
    page = party.person.get("/console/tokens")
    page = party.person.submit(page.form("/console/tokens/add"), name="second", scope_publish="1")
    assert "tokens_max" in page.words


def test_sources_are_registered_paused_and_deleted(party: Party) -> None:
    person, store = party.person, party.broker.store
    page = person.get("/console/sources")
    page = person.submit(page.form("/console/sources/add"), name="feed", url="ftp://x/", kind="rss")
    assert page.status == 422
    page = person.submit(page.form("/console/sources/add"), name="feed", url="http://127.0.0.1:9/feed", interval="60")
    source = store.source(party.tenant_id, "feed")
    assert source is not None
    assert (source.kind, source.url, source.interval) == ("rss", "http://127.0.0.1:9/feed", 60)
    page = person.submit(page.form("/console/sources/pause", name="feed"))
    source = store.source(party.tenant_id, "feed")
    assert source is not None
    assert source.paused
    page = person.submit(page.form("/console/sources/resume", name="feed"))
    page = person.submit(page.form("/console/sources/delete", name="feed"))
    assert store.source(party.tenant_id, "feed") is None


def test_tables_are_stored_used_and_deleted(party: Party) -> None:
    person = party.person
    page = person.get("/console/tables")
    assert "No tables yet" in page.words
    page = person.submit(page.form("/console/tables/put"), name="counties", content="code,name\n1\n")
    assert page.status == 422
    assert "line 2: it has 1 values, for 2 columns" in page.words
    content = "code,name\n06037,Los Angeles\n<b>,&\n"
    page = person.submit(page.form("/console/tables/put"), name="counties", content=content)
    assert "counties is stored, with 2 rows." in page.words
    assert "Los Angeles" in person.get("/console/tables/one?name=counties").words
    source = Source(0, party.tenant_id, "nws", "push")
    party.broker.do(party.broker.broker.change(lambda t: t.put_source(source)))
    page = person.get("/console/sources/one?name=nws")
    page = person.submit(page.form("/console/sources/change"), lookups="[{")
    assert page.status == 422
    assert "look-ups: it is no JSON" in page.words
    lookups = '[{"table": "counties", "key": "//code", "element": "county"}]'
    page = person.submit(page.form("/console/sources/change"), lookups=lookups)
    stored = party.broker.store.source(party.tenant_id, "nws")
    assert stored is not None
    assert stored.lookups[0]["table"] == "counties"
    # Other changes leave the look-ups alone, and an empty field removes them.
    page = person.get("/console/sources/one?name=nws")
    page = person.submit(page.form("/console/sources/change"), doctype="refuse")
    changed = party.broker.store.source(party.tenant_id, "nws")
    assert changed is not None
    assert (changed.lookups, changed.doctype) == (stored.lookups, "refuse")
    page = person.get("/console/tables")
    page = person.submit(page.form("/console/tables/delete"))
    assert "the source 'nws' uses this table" in page.words
    page = person.get("/console/sources/one?name=nws")
    page = person.submit(page.form("/console/sources/change"), lookups="")
    page = person.submit(person.get("/console/tables").form("/console/tables/delete"))
    assert "counties is deleted." in page.words


def test_a_source_shows_its_polls_and_takes_settings(party: Party) -> None:
    person = party.person
    page = person.get("/console/sources")
    form = page.form("/console/sources/add")
    page = person.submit(form, {"follow": "nonsense"}, name="feed", url="http://127.0.0.1:9/feed")
    assert page.status == 422
    types = {"follow": "application/cap+xml, text/xml"}
    page = person.submit(page.form("/console/sources/add"), types, updates="updated")
    source = party.broker.store.source(party.tenant_id, "feed")
    assert source is not None
    assert (source.updates, source.follow) == ("updated", ["application/cap+xml", "text/xml"])
    page = person.get("/console/sources/one?name=feed")
    assert "No polls yet" in page.words
    report = PollReport(time.time() - 90, status=200, took=3, updated=1, warnings=["junk behind the feed"])
    report.skipped["known"] = 7
    report.refuse("g-9", MalformedMessage(4, 2, "no such entity"))
    state = {"reports": [report.as_dict()], "warnings": report.warnings, "last_poll": report.at}
    party.broker.do(party.broker.broker.change(lambda t: t.set_source_state(source.id, state)))
    assert "took 3, updated 1, refused 1" in person.get("/console/sources").words
    page = person.get("/console/sources/one?name=feed")
    for shown in ("7 known", "line 4, column 2: no such entity g-9", "junk behind the feed", "application/cap+xml"):
        assert shown in page.words + " ".join(page.tree.xpath("//input/@value")), shown
    fields = {"updates": "content", "follow": "", "follow_hosts": "a.example *"}
    page = person.submit(page.form("/console/sources/change"), fields)
    changed = party.broker.store.source(party.tenant_id, "feed")
    assert changed is not None
    assert (changed.updates, changed.follow, changed.follow_hosts) == ("content", (), ["a.example", "*"])
    assert (changed.url, changed.state) == (source.url, state)
    page = person.submit(page.form("/console/sources/change"), follow_hosts="not/a/host")
    assert page.status == 422
    assert person.get("/console/sources/one?name=none").status == 404


def test_sources_tell_what_they_published_lately(party: Party) -> None:
    party.publish(*([ALERT] * 30), source="busy")
    words = party.person.get("/console/sources").words
    assert "busy" in words
    assert "not registered" in words
    assert "0.5 a minute" in words


def test_rates_are_those_of_the_last_hour_or_of_the_messages_looked_at() -> None:
    def summaries(count: int, every: float) -> list[MessageSummary]:
        return [MessageSummary(n, "s", "", 10_000 - n * every, 0, 1) for n in range(count)]

    assert lately(summaries(60, 1.0), 10_000) == {"s": 1.0}
    assert lately(summaries(100, 60.0), 10_000) == {"s": pytest.approx(61 / 60)}
    assert lately(summaries(LOOKED_AT, 0.1), 10_000) == {"s": pytest.approx(600, rel=0.01)}
    assert lately(summaries(3, 0.0), 10_000 + LATELY_SECONDS + 1) == {}


def test_who_may_not_administer_is_not_offered_it(new_party: Callable[..., Party]) -> None:
    person = new_party(Scope.SUBSCRIBE).person
    page = person.get("/console/sources")
    assert not page.all("//form[contains(@action, 'sources')]")
    page = person.get("/")
    assert not page.all("//a[contains(@href, 'tokens') or contains(@href, 'tenants')]")


def test_tokens_expire_are_narrowed_and_rotated(party: Party) -> None:
    page = party.person.get("/console/tokens")
    bounds = {"days": "90", "sources": "gauges\n\n  north  \n"}
    form = page.form("/console/tokens/add")
    page = party.person.submit(form, bounds, name="gauges' feeder", scope_publish="1")
    assert "only as gauges, north" in page.words
    assert "expires" in page.words
    first = page.all("//div[contains(@class, 'note')]//pre")[0].text
    (token,) = [one for one in party.broker.store.tokens(party.tenant_id) if one.name == "gauges' feeder"]
    assert token.sources == frozenset({"gauges", "north"})
    assert token.expires is not None
    assert 89 < (token.expires - time.time()) / 86_400 < 91
    csrf = page.all("//input[@name='csrf']/@value")[0]
    page = party.person.send("/console/tokens/rotate", {"id": str(token.id), "csrf": csrf})
    second = page.all("//div[contains(@class, 'note')]//pre")[0].text
    assert second != first
    assert second not in party.person.get("/console/tokens").text
    form = page.form("/console/tokens/add")
    assert party.person.submit(form, {"subscribers": "k"}, name="x", scope_publish="1").status == 422


def test_a_source_that_publishes_by_itself_has_settings(party: Party) -> None:
    source = Source(0, party.tenant_id, "s", "push")
    party.broker.do(party.broker.broker.change(lambda transaction: transaction.put_source(source)))
    page = party.person.get("/console/sources/one?name=s")
    page = party.person.submit(page.form("/console/sources/change"), doctype="refuse")
    assert "Changed." in page.words
    changed = party.broker.store.source(party.tenant_id, "s")
    assert changed is not None
    assert changed.doctype == "refuse"


def test_a_message_shows_what_became_of_it_and_what_it_was_to_whom(party: Party) -> None:
    source = Source(0, party.tenant_id, "weather", "push")
    party.broker.do(party.broker.broker.change(lambda transaction: transaction.put_source(source)))
    page = party.person.get("/console/sources/one?name=weather")
    party.person.submit(page.form("/console/sources/change"), profile="rss")
    changed = party.broker.store.source(party.tenant_id, "weather")
    assert changed is not None
    assert changed.profile == "rss"
    party.broker.subscribe("rising", "/item[title = 'Rising']", tenant_id=party.tenant_id, follow=True)
    titles = ("Rising", "Falling")
    bodies = [f"<item><guid>g</guid><title>{t}</title><pubDate>{t}</pubDate></item>".encode() for t in titles]
    outcomes = party.broker.publish(*bodies, tenant_id=party.tenant_id, source="weather")
    first, second = [one.seq for one in outcomes]
    words = party.person.get(f"/console/messages/one?seq={second}&key=rising").words
    for shown in ("rising left", f"{first}: first", f"{second}: update", "an earlier one of the same matter (left)"):
        assert shown in words, shown
    page = party.person.get("/console/sources/one?name=weather")
    party.person.submit(page.form("/console/sources/change"), profile="none")
    changed = party.broker.store.source(party.tenant_id, "weather")
    assert changed is not None
    assert changed.profile is None
