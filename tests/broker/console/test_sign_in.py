"""Signing in and out: cookies, forms of other sites, scopes, deleted tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from tests.broker.console.conftest import Party
from tests.broker.console.running import BrokerWithConsole, Person
from twigcast.broker.console.requests import IDLE_SECONDS, LIFE_SECONDS, SESSIONS_MAX, SignInSessions
from twigcast.broker.model import Scope


@pytest.fixture
def person(running: BrokerWithConsole) -> Iterator[Person]:
    result = Person(running)
    yield result
    result.http.close()


@pytest.mark.parametrize("address", ["/", "/console/subscriptions?search=a%26b", "/console/tokens", "/console/live"])
def test_nothing_is_shown_to_who_is_not_signed_in(person: Person, address: str) -> None:
    page = person.get(address, follow=False)
    assert page.status == 303
    assert page.response.headers["location"].startswith("/console/sign-in")
    assert not page.text


def test_after_signing_in_the_page_that_was_asked_for_is_shown(person: Person, running: BrokerWithConsole) -> None:
    page = person.get("/console/subscriptions?search=a%26b")
    page = person.submit(page.form("/console/sign-in"), token=running.token())
    assert page.response.url.path == "/console/subscriptions"
    assert page.response.url.params["search"] == "a&b"


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/console/", "/console/\\evil", "javascript:x"]
)
def test_signing_in_leads_to_no_other_site(person: Person, running: BrokerWithConsole, target: str) -> None:
    form = person.get("/console/sign-in").form("/console/sign-in")
    page = person.submit(form, follow=False, token=running.token(), next=target)
    assert page.response.headers["location"] == "/"


def test_cookies_are_out_of_reach_of_scripts_and_other_sites(person: Person, running: BrokerWithConsole) -> None:
    token = running.token()
    form = person.get("/console/sign-in").form("/console/sign-in")
    response = person.submit(form, follow=False, token=token).response
    cookies = [SimpleCookie(header) for header in response.headers.get_list("set-cookie")]
    (session,) = [m for c in cookies for name, m in c.items() if name == f"twigcast_session_{running.port}"]
    assert session["httponly"]
    assert session["samesite"].lower() == "strict"
    assert token not in response.headers.get("set-cookie", "")


def test_a_wrong_token_opens_nothing(person: Person) -> None:
    page = person.sign_in("tc_" + "x" * 43)
    assert page.status == 401
    assert "unknown" in page.words
    assert person.get("/", follow=False).status == 303


def test_a_token_that_only_publishes_does_not_open_the_console(person: Person, running: BrokerWithConsole) -> None:
    page = person.sign_in(running.token(Scope.PUBLISH))
    assert page.status == 403
    assert "subscribe" in page.words


def test_nobody_is_signed_in_by_another_site(person: Person, running: BrokerWithConsole) -> None:
    token = running.token()
    page = person.send("/console/sign-in", {"token": token, "csrf": "guessed", "next": ""})
    assert page.status == 403
    form = person.get("/console/sign-in").form("/console/sign-in")
    fields = {**dict(form.form_values()), "token": token}
    page = person.send("/console/sign-in", fields, {"origin": "https://evil.example"})
    assert page.status == 403
    assert person.get("/", follow=False).status == 303


def test_a_proxy_may_hide_the_host_that_the_browser_asked_for(tmp_path: Path) -> None:
    broker = BrokerWithConsole(tmp_path / "store", public_url="https://news.example")
    person = Person(broker)
    try:
        person.sign_in(broker.token())
        csrf = person.get("/").all("//input[@name='csrf']/@value")[0]
        fields = {"csrf": csrf, "key": "k", "query": "//a"}
        for origin, status in {"https://news.example": 303, "https://evil.example": 403, broker.url: 422}.items():
            page = person.send("/console/subscriptions/new", fields, {"origin": origin}, follow=False)
            assert page.status == status, origin
        browser = {"origin": "https://elsewhere.example", "sec-fetch-site": "same-origin"}
        assert person.send("/console/subscriptions/pause", fields, browser, follow=False).status == 303
    finally:
        person.http.close()
        broker.stop()


def test_signing_out_ends_the_session_on_the_server(party: Party) -> None:
    person = party.person
    cookies = dict(person.http.cookies)
    page = person.submit(person.get("/").form("/console/sign-out"))
    assert page.response.url.path == "/console/sign-in"
    for name, value in cookies.items():
        person.http.cookies.set(name, value)
    assert person.get("/", follow=False).status == 303


def test_a_deleted_token_ends_its_sessions(new_party: Callable[..., Party], running: BrokerWithConsole) -> None:
    party = new_party()
    reader = Person(running)
    reader.sign_in(running.token(Scope.SUBSCRIBE, tenant_id=party.tenant_id, name="reader"))
    assert reader.get("/").status == 200
    page = party.person.get("/console/tokens")
    (number,) = [token.id for token in running.store.tokens(party.tenant_id) if token.name == "reader"]
    party.person.submit(page.form("/console/tokens/delete", id=str(number)))
    assert reader.get("/", follow=False).status == 303
    reader.http.close()


@pytest.mark.parametrize(
    "address",
    [
        "/console/sign-out",
        "/console/subscriptions/new",
        "/console/subscriptions/edit",
        "/console/subscriptions/pause",
        "/console/subscriptions/resume",
        "/console/subscriptions/seek",
        "/console/subscriptions/delete",
        "/console/sources/add",
        "/console/sources/change",
        "/console/sources/pause",
        "/console/sources/resume",
        "/console/sources/delete",
        "/console/tables/put",
        "/console/tables/delete",
        "/console/consumers/purge",
        "/console/consumers/skip",
        "/console/consumers/seek",
        "/console/consumers/redrive",
        "/console/dead-letters/retry",
        "/console/dead-letters/remove",
        "/console/rejected/remove",
        "/console/tokens/add",
        "/console/tokens/delete",
        "/console/tokens/rotate",
        "/console/clock/confirm",
        "/console/tenants/add",
        "/console/tenants/erase",
        "/console/tenants/limits",
        "/console/tenants/look",
        "/console/workbench/results",
    ],
)
def test_no_change_is_made_without_the_mark_of_the_session(party: Party, address: str) -> None:
    person = party.person
    fields = {"key": "k", "query": "//a", "name": "n", "scope_admin": "1", "id": "1"}
    assert person.send(address, fields).status == 403
    assert person.send(address, {**fields, "csrf": "guessed"}).status == 403
    csrf = person.get("/").all("//input[@name='csrf']/@value")[0]
    assert person.send(address, {**fields, "csrf": csrf}, {"sec-fetch-site": "cross-site"}).status == 403
    assert person.send(address, {**fields, "csrf": csrf}, {"origin": "null"}).status == 403
    assert person.get("/").status == 200


def test_every_change_is_in_the_list_above(running: BrokerWithConsole) -> None:
    (marker,) = test_no_change_is_made_without_the_mark_of_the_session.pytestmark  # type: ignore[attr-defined]
    listed = set(marker.args[1])
    from twigcast.broker.console import console_router

    existing = {
        route.path  # type: ignore[attr-defined]
        for route in console_router().routes
        if "POST" in (getattr(route, "methods", None) or ())
    }
    assert existing - {"/console/sign-in"} == listed


def test_who_may_only_subscribe_administers_nothing(new_party: Callable[..., Party]) -> None:
    person = new_party(Scope.SUBSCRIBE).person
    page = person.get("/")
    assert not page.all("//a[@href='/console/tokens']")
    csrf = page.all("//input[@name='csrf']/@value")[0]
    assert person.get("/console/tokens").status == 403
    assert person.get("/console/tenants").status == 403
    for address in ("/console/tokens/add", "/console/sources/add", "/console/tenants/add", "/console/tenants/look"):
        page = person.send(address, {"csrf": csrf, "name": "n", "scope_admin": "1", "tenant": "1"})
        assert page.status == 403, address


def test_sessions_end_by_time_and_number() -> None:
    now = [0.0]
    sessions = SignInSessions(lambda: now[0])
    cookie = sessions.start(b"token")
    now[0] = IDLE_SECONDS - 1
    assert sessions.find(cookie) is not None
    now[0] += IDLE_SECONDS + 1
    assert sessions.find(cookie) is None
    cookie = sessions.start(b"token")
    begun = now[0]
    while now[0] <= begun + LIFE_SECONDS:
        assert sessions.find(cookie) is not None
        now[0] += IDLE_SECONDS / 2
    assert sessions.find(cookie) is None
    first = sessions.start(b"token")
    second = sessions.start(b"token")
    assert sessions.find(first) is not None
    for _ in range(SESSIONS_MAX - 1):
        sessions.start(b"token")
    assert sessions.find(second) is None
    assert sessions.find(first) is not None
