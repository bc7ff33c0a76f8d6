"""Tokens, tenants and sources in the console."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.broker.console.conftest import Party
from tests.broker.console.running import BrokerWithConsole, Person
from twigcast.broker.console.sources import LATELY_SECONDS, LOOKED_AT, lately
from twigcast.broker.model import MessageSummary, Scope
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
