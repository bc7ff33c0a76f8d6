"""The pages: what they show, where they lead, what their forms do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from urllib.parse import quote, urljoin, urlsplit

import pytest

from tests.broker.console.conftest import Party
from tests.broker.console.running import Person
from twigcast.broker.model import NewSubscription, SubscriptionState
from twigcast.broker.urgency import OverduePolicy, Urgency
from twigcast.windows.declarations import read_window

ALERT = b"<alert><area>harbour</area><severity>high</severity></alert>"
CALM = b"<alert><area>inland</area><severity>low</severity></alert>"


def _fill(party: Party) -> None:
    """Something of everything."""
    party.broker.subscribe("high", "//alert[severity = 'high']", tenant_id=party.tenant_id)
    party.broker.subscribe("hill", "/alert/area", tenant_id=party.tenant_id, subscriber="a screen / 1")
    party.broker.webhook("hook", "//alert", "http://hook.example/", tenant_id=party.tenant_id)
    party.publish(ALERT, CALM, b"<alert><area>", source="coast & sea")
    party.broker.dead_letter("hook", "it answered 500", tenant_id=party.tenant_id)


def test_no_page_is_a_dead_end_for_a_newcomer(party: Party) -> None:
    """Each screen without anything on it says what to do."""
    person = party.person
    page = person.get("/")
    assert f"curl {party.broker.url}/messages" in page.words
    for address, word in {
        "/console/messages": "curl",
        "/console/subscriptions": "workbench",
        "/console/workbench": "Nothing to check yet",
        "/console/workbench?query=//a": "Publish some first",
        "/console/sources": "Register a feed",
        "/console/consumers": "Subscribe",
        "/console/dead-letters": "None",
        "/console/rejected": "None",
        "/console/tokens": "Make a token",
    }.items():
        page = person.get(address)
        assert page.status == 200
        assert word in page.words, address


def test_all_links_lead_somewhere_and_labels_belong_to_fields(party: Party) -> None:
    _fill(party)
    party.broker.tenant(f"another beside {party.name}")
    seen: set[str] = set()
    waiting = ["/"]
    while waiting:
        address = waiting.pop()
        if address in seen:
            continue
        seen.add(address)
        page = party.person.get(address)
        assert page.status == 200, address
        if not page.response.headers["content-type"].startswith("text/html"):
            continue
        tree = page.tree
        ids = [str(outcome) for outcome in tree.xpath("//@id")]
        assert len(ids) == len(set(ids)), (address, sorted(ids))
        assert len(tree.xpath("//h1")) == 1, address
        assert tree.xpath("//main"), address
        assert tree.get("lang") == "en"
        for reference in tree.xpath("//label/@for | //@aria-labelledby | //@aria-controls | //@aria-describedby"):
            assert reference in ids, (address, reference)
        for field in tree.xpath("//input[not(@type='hidden')] | //select | //textarea"):
            labelled = (
                field.get("aria-label")
                or tree.xpath("//label[@for=$id]", id=field.get("id", ""))
                or field.xpath("ancestor::label")
            )
            assert labelled, (address, field.get("name"))
        for link in tree.xpath("//a/@href"):
            if link.startswith("#"):
                assert link[1:] in ids, (address, link)
                continue
            result = urljoin(str(page.response.url), link)
            if urlsplit(result).netloc == urlsplit(party.broker.url).netloc:
                parts = urlsplit(result)
                waiting.append(parts.path + (f"?{parts.query}" if parts.query else ""))
    assert len(seen) > 25, seen


def test_nothing_of_one_tenant_is_seen_or_changed_by_another(new_party: Callable[..., Party]) -> None:
    owner, other = new_party(), new_party()
    _fill(owner)
    owner.publish(b"<alert><area>quay 17</area></alert>", b"<alert>quay 17", source="coast & sea")
    owner.broker.subscribe("private key", "//area[. = 'quay 17']", tenant_id=owner.tenant_id)
    secret_words = ("hook.example", "quay 17", "coast &amp; sea", "private key")
    (letter,) = owner.broker.store.dead_letters(owner.tenant_id, limit=1)
    (rejected,) = owner.broker.store.rejected(owner.tenant_id, limit=1)
    seq = owner.broker.store.messages(owner.tenant_id, limit=1)[0].seq
    token = owner.broker.store.tokens(owner.tenant_id)[0].id
    for address in (
        "/",
        "/console/live?sample=0&message=0&totals=1",
        "/console/messages",
        f"/console/messages/one?seq={seq}",
        f"/console/messages/find?id={seq}",
        f"/console/messages/download?seq={seq}",
        "/console/subscriptions?search=alert",
        "/console/subscriptions/one?key=private%20key",
        "/console/subscriptions/edit?key=private%20key",
        "/console/workbench?key=private%20key",
        f"/console/workbench?query=//alert&message={seq}&count=1000",
        "/console/consumers",
        "/console/consumers?subscriber=private%20key",
        "/console/dead-letters",
        f"/console/dead-letters/one?id={letter.id}",
        "/console/rejected",
        f"/console/rejected/one?id={rejected.id}",
        f"/console/rejected/download?id={rejected.id}",
        "/console/tokens",
        "/console/tenants",
    ):
        page = other.person.get(address)
        text = page.text
        assert page.status in (200, 403, 404), address
        for word in secret_words:
            # What was asked for may be repeated in the answer that it is not there.
            assert word not in text or (page.status == 404 and "private" in address), (address, word)
    csrf = other.person.get("/").all("//input[@name='csrf']/@value")[0]
    for address, fields in {
        "/console/subscriptions/pause": {"key": "high"},
        "/console/subscriptions/delete": {"key": "high"},
        "/console/subscriptions/edit": {"key": "high", "query": "//b"},
        "/console/consumers/purge": {"subscriber": "private key"},
        "/console/consumers/skip": {"subscriber": "private key"},
        "/console/consumers/seek": {"subscriber": "private key"},
        "/console/consumers/redrive": {"subscriber": "hook"},
        "/console/dead-letters/retry": {"id": str(letter.id)},
        "/console/dead-letters/remove": {"id": str(letter.id)},
        "/console/rejected/remove": {"id": str(rejected.id)},
        "/console/tokens/delete": {"id": str(token)},
    }.items():
        assert other.person.send(address, {**fields, "csrf": csrf}).status == 404, address
    for address in ("/console/tenants/add", "/console/tenants/limits", "/console/tenants/look"):
        assert other.person.send(address, {"csrf": csrf, "name": "x", "tenant": "1"}).status == 403, address
    existing = owner.broker.store.subscription(owner.tenant_id, "high")
    assert existing is not None
    assert existing.state is SubscriptionState.ACTIVE
    assert owner.broker.store.dead_letters(owner.tenant_id, limit=1)
    other.person.send("/console/dead-letters/remove", {"key": "hook", "csrf": csrf})
    assert owner.broker.store.dead_letters(owner.tenant_id, limit=1)


# Subscriptions --------------------------------------------------------------------------------------------------------


def test_a_subscription_is_made_edited_paused_resumed_and_deleted(party: Party) -> None:
    person, store = party.person, party.broker.store
    form = person.get("/console/subscriptions/new").form("/console/subscriptions/new")
    page = person.submit(form, key="flood / desk", query="//c:info[", namespaces="c = urn:x")
    assert page.status == 422
    assert "column" in page.words
    form = page.form("/console/subscriptions/new")
    assert (form.fields["key"], form.fields["query"].strip()) == ("flood / desk", "//c:info[")
    page = person.submit(form, query="//c:info")
    assert "It counts from the next message" in page.words
    stored = store.subscription(party.tenant_id, "flood / desk")
    assert stored is not None
    assert (stored.query, dict(stored.namespaces)) == ("//c:info", {"c": "urn:x"})

    edit = person.get("/console/subscriptions/edit?key=" + quote("flood / desk")).form("/console/subscriptions/edit")
    assert edit.fields["namespaces"].strip() == "c = urn:x"
    person.submit(edit, kind="webhook", url="http://127.0.0.1:9/in", secret="hush")
    person.submit(edit, kind="webhook", url="http://127.0.0.1:9/in2", secret="")
    stored = store.subscription(party.tenant_id, "flood / desk")
    assert stored is not None
    assert (stored.delivery.kind, stored.delivery.url, stored.delivery.secret) == (
        "webhook",
        "http://127.0.0.1:9/in2",
        "hush",
    )
    page = person.get("/console/subscriptions/one?key=" + quote("flood / desk"))
    assert "hush" not in page.text
    assert "http://127.0.0.1:9/in2" in page.words

    page = person.submit(page.form("/console/subscriptions/pause"))
    assert "paused" in page.words
    page = person.submit(page.form("/console/subscriptions/resume"))
    assert "Resumed." in page.words
    page = person.submit(page.form("/console/subscriptions/delete"))
    assert page.response.url.path == "/console/subscriptions"
    assert store.subscription(party.tenant_id, "flood / desk") is None


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"key": "", "query": "//a"}, "key"),
        ({"key": "k", "query": "//a", "kind": "webhook", "url": ""}, "url"),
        ({"key": "k", "query": "//a", "kind": "webhook", "url": "ftp://x/"}, "http"),
        ({"key": "k", "query": "//a", "namespaces": "nonsense"}, "namespace"),
        ({"key": "k", "query": "//a", "from": "x"}, "whole number"),
        ({"key": "k" * 600, "query": "//a"}, "512"),
    ],
)
def test_what_cannot_be_subscribed_is_told(party: Party, fields: dict[str, str], told: str) -> None:
    form = party.person.get("/console/subscriptions/new").form("/console/subscriptions/new")
    page = party.person.submit(form, fields)
    assert page.status == 422
    (note,) = page.all("//*[@role='alert']")
    assert told in note.text_content()


def test_the_urgency_of_a_subscription_is_declared_shown_and_changed(party: Party) -> None:
    person, store = party.person, party.broker.store
    form = person.get("/console/subscriptions/new").form("/console/subscriptions/new")
    fields = {"key": "desk", "query": "//alert", "queue": "shared", "order": "urgency", "priority": "8"}
    page = person.submit(form, {**fields, "deadline": "soon"})
    assert page.status == 422
    assert "deadline" in page.words
    page = person.submit(page.form("/console/subscriptions/new"), deadline="5 min", overdue="drop")
    assert all(text in page.words for text in ("5 min after a message was received", "it is dropped", "most urgent"))
    stored = store.subscription(party.tenant_id, "desk")
    assert stored is not None
    assert stored.urgency == Urgency(8, 300.0, OverduePolicy.DROP)
    assert stored.delivery.is_by_urgency
    edit = person.get("/console/subscriptions/edit?key=desk").form("/console/subscriptions/edit")
    assert (edit.fields["priority"], edit.fields["deadline"], edit.fields["overdue"]) == ("8", "5 min", "drop")
    person.submit(edit, priority="", deadline="", overdue="mark", order="publication")
    stored = store.subscription(party.tenant_id, "desk")
    assert stored is not None
    assert (stored.urgency, stored.delivery.is_by_urgency) == (None, False)


def test_replay_delivers_the_past(party: Party) -> None:
    party.publish(ALERT, CALM)
    form = party.person.get("/console/subscriptions/new").form("/console/subscriptions/new")
    party.person.submit(form, key="all", query="//alert", more={"from": "1"})
    stored = party.broker.store.subscription(party.tenant_id, "all")
    assert stored is not None
    until = time.monotonic() + 10
    while party.broker.store.pending_count(stored.queue_id) < 2:
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
def test_a_hundred_thousand_subscriptions_are_listed_and_searched_quickly(party: Party) -> None:
    broker = party.broker
    new = [NewSubscription(party.tenant_id, f"k{n:06}", f"/a/b{n}[c = '{n}']") for n in range(100_000)]
    # Straight into the store: what is measured are the pages, not the engine.
    with broker.store.transaction() as transaction:
        transaction.add_subscriptions(new, at=1.0)
    person = party.person
    for address, expected in (
        ("/console/subscriptions", "k000000"),
        ("/console/subscriptions?after=k099960", "k099961"),
        ("/console/subscriptions?search=b77777", "k077777"),
        ("/console/subscriptions?state=suspended", "Nothing found"),
    ):
        begun = time.perf_counter()
        page = person.get(address)
        seconds = time.perf_counter() - begun
        assert expected in page.words
        assert seconds < 1.5, (address, seconds)
    page = person.get("/console/subscriptions?search=b9999")
    keys = []
    while True:
        keys += [a.text for a in page.all("//td[contains(@class, 'key')]/a")]
        following = page.all("//a[@rel='next']/@href")
        if not following:
            break
        page = person.get(following[0])
    assert keys == ["k009999", *(f"k09999{n}" for n in range(10))]
    forth_and_back(person, "/console/subscriptions?search=b999")


def forth_and_back(person: Person, address: str) -> list[list[str]]:
    """Turn all pages of a list to the last and back to the first; what each shows."""
    shown: list[list[str]] = []
    page = person.get(address)
    while True:
        shown.append([str(href) for href in page.all("//td[contains(@class, 'key')]/a/@href")])
        following = page.all("//a[@rel='next']/@href")
        if not following:
            break
        page = person.get(following[0])
    assert len(shown) > 2
    assert len({href for hrefs in shown for href in hrefs}) == sum(map(len, shown))
    for expected in shown[-2::-1]:
        (back,) = page.all("//a[@rel='prev']/@href")
        page = person.get(back)
        assert [str(href) for href in page.all("//td[contains(@class, 'key')]/a/@href")] == expected
    assert not page.all("//a[@rel='prev']")
    return shown


# The workbench --------------------------------------------------------------------------------------------------------


def test_the_workbench_marks_what_matches_and_explains_what_does_not(party: Party) -> None:
    first, second = party.publish(ALERT, CALM)
    page = party.person.get("/console/workbench?query=" + quote("//alert[severity = 'high']/area"))
    assert "1 of 2 messages matches" in page.words
    assert "".join(mark.text_content() for mark in page.all("//div[@class='xml']//mark")) == "<area>harbour</area>"
    page = party.person.get(
        "/console/workbench?query=" + quote("//alert[severity = 'high']/area") + f"&message={second}"
    )
    assert "Does not match" in page.words
    assert 'severity is "low"' in page.words
    assert not page.all("//div[@class='xml']//mark")
    assert first < second


def test_the_workbench_shows_results_and_warnings_and_errors(party: Party) -> None:
    party.publish(ALERT)
    query = "for $a in //alert return <where>{ $a/area/text() }</where>"
    page = party.person.get("/console/workbench?query=" + quote(query))
    assert "<where>harbour</where>" in page.words
    page = party.person.get("/console/workbench?query=" + quote("//alert[severity = "))
    (caret,) = page.all("//code[@class='caret-line']")
    line, mark = caret.text.splitlines()
    assert mark.index("^") == line.index("//alert") + len("//alert[severity = ")
    page = party.person.get("/console/workbench?query=" + quote("true()"))
    assert page.all("//div[contains(@class, 'check')][contains(@class, 'warn')]")
    page = party.person.get("/console/workbench?query=" + quote("//x:alert"))
    assert "x" in page.all("//div[contains(@class, 'check bad')]")[0].text_content()


def test_the_workbench_draws_regions_and_places(party: Party) -> None:
    party.publish(b"<m><polygon>47.4,8.6 47.4,8.8 47.6,8.8 47.4,8.6</polygon></m>")
    query = "/m[geo:within(*, geo:circle(47.37, 8.54, 5))]"
    page = party.person.get("/console/workbench?query=" + quote(query))
    (drawn,) = page.all("//svg[@class='map']")
    assert "geo:circle(47.37, 8.54, 5) and 1 place of" in drawn.get("aria-label")
    assert len(page.all("//svg[@class='map']/path[@class='region area']")) == 1
    assert len(page.all("//svg[@class='map']/path[@class='place area']")) == 1
    assert "8.5°E" in page.words
    assert "km away from geo:circle" in page.words
    # Across the antimeridian the place is drawn beside the region.
    party.publish(b"<m><point>-17 -179.9</point></m>")
    page = party.person.get("/console/workbench?query=" + quote("/m[geo:within(*, geo:circle(-17, 179.9, 60))]"))
    (point,) = page.all("//svg[@class='map']/circle/@cx")
    assert 240 < float(point) < 480
    assert not party.person.get("/console/workbench?query=" + quote("/m/point")).all("//svg[@class='map']")


def test_results_for_what_is_typed_are_a_piece_of_the_page(party: Party) -> None:
    party.publish(ALERT)
    csrf = party.person.get("/console/workbench").all("//form[@id='bench']/@data-csrf")[0]
    fields = {"csrf": csrf, "query": "//severity", "namespaces": "", "count": "20"}
    page = party.person.send("/console/workbench/results", fields)
    assert page.status == 200
    assert "<html" not in page.text
    assert "1 of 1 message matches" in page.words
    assert party.person.send("/console/workbench/results", {**fields, "count": "many"}).status == 422


def test_the_workbench_shows_what_a_window_would_have_delivered(party: Party) -> None:
    gauges = (("Lea", 5), ("Lea", 1), ("Wye", 6), ("Lea", 7), ("Lea", 8))
    seqs = party.publish(*(f"<gauge river='{river}' level='{level}'/>".encode() for river, level in gauges))
    query, when = "//gauge[@level > 4]", '{"at_least": 2, "within": "10 min", "by": "/gauge/@river"}'
    address = f"/console/workbench?query={quote(query)}&when={quote(when)}"
    page = party.person.get(address)
    assert "Its subscriber would have been told 1 time, and 4 times without a window" in page.words
    assert [int(link) for link in page.all("//ul[@class='told']//a/@data-message")] == [seqs[0], seqs[3]]
    assert "4 of 5 messages match" in page.words
    assert len(page.all("//ul[@class='hits']//span[contains(@class, 'badge')]")) == 1
    assert "it counts: with it, 1 of 2 have come within 10 min" in page.words, "the newest is shown"
    assert "Wye: 1 of 2 since" in page.words
    page = party.person.get(f"{address}&message={seqs[3]}")
    assert f"it stands for {seqs[0]}, {seqs[3]}" in page.words
    page = party.person.get(f"{address}&message={seqs[1]}")
    assert "the query does not match" in page.words
    results = quote("for $g in /gauge return <r>{$old}</r>")
    changed = quote('{"changed": "/gauge/@river", "by": "1", "keep": "2 d"}')
    page = party.person.get(f"/console/workbench?query={results}&when={changed}&count=20")
    (change,) = page.all("//ul[@class='told']/li[1]")
    assert "from Wye to Lea" in change.text_content()
    for wrong, said in (('{"at_least": 2}', "within: it is missing"), ("{", "JSON"), ('{"changed": "//u:x"}', "u")):
        page = party.person.get(f"/console/workbench?query={quote(query)}&when={quote(wrong)}")
        assert said in page.all("//div[contains(@class, 'check bad')]")[0].text_content()
    digest = party.person.get(f"/console/workbench?query={quote(query)}&when={quote(json.dumps({'digest': '1 d'}))}")
    assert "would not have been told, and 4 times" in digest.words
    assert "4 collected since" in digest.words
    assert party.person.get(f"/console/subscriptions/new?query={quote(query)}&when={quote(when)}").status == 200


def test_the_page_of_a_message_says_what_the_window_of_a_subscription_knows_of_it(party: Party) -> None:
    window = read_window({"at_least": 2, "within": "10 min"})
    party.broker.subscribe("high", "//gauge[@level > 4]", tenant_id=party.tenant_id, window=window)
    (seq,) = party.publish(b"<gauge level='5'/>")
    page = party.person.get(f"/console/messages/one?seq={seq}&key=high")
    assert "now: 1 of 2 since" in page.words
    assert "it counts, and its subscriber has not been told of it" in page.words


@pytest.mark.slow
def test_a_query_that_takes_too_long_is_told_and_not_waited_for(party: Party) -> None:
    party.publish(*([b"<r>" + b"".join(b"<x>%d</x>" % n for n in range(6_000)) + b"</r>"] * 30))
    query = "//x[concat(., string(preceding::x[position() mod 9973 = 1])) = 'q']"
    begun = time.perf_counter()
    page = party.person.get("/console/workbench?count=50&query=" + quote(query))
    assert time.perf_counter() - begun < 10
    assert page.status == 200
    assert page.all("//span[contains(@class, 'odd')]")
    assert "too expensive" in page.words


# Messages -------------------------------------------------------------------------------------------------------------


def test_a_message_tells_who_took_it_and_why(party: Party) -> None:
    _fill(party)
    page = party.person.get("/console/messages")
    assert page.words.count("coast & sea") == 2
    newest = page.all("//td[contains(@class, 'key')]/a/@href")[0]
    page = party.person.get(newest)
    assert [e.text for e in page.all("//ul[@class='hits']//span[@class='id']")] == ["hill", "hook"]
    page = party.person.submit(page.form("/console/messages/one"), key="high")
    assert "high does not match" in page.words
    assert 'severity is "low"' in page.words
    page = party.person.submit(page.form("/console/messages/one"), key="hill")
    assert "hill matches" in page.words
    assert "".join(mark.text_content() for mark in page.all("//mark")) == "<area>inland</area>"
    page = party.person.submit(page.form("/console/messages/one"), key="nobody")
    assert "no subscription with the key" in page.words


def test_messages_are_paged_and_found(party: Party) -> None:
    seqs = party.publish(*([ALERT] * 120))
    party.publish(CALM, message_id="the one")
    results: list[str] = []
    page = party.person.get("/console/messages")
    while True:
        results += page.all("//td[contains(@class, 'key')]/a/@href")
        older = page.all("//a[@rel='next']/@href")
        if not older:
            break
        page = party.person.get(older[0])
    assert len(results) == len(set(results)) == 121
    assert [href for hrefs in forth_and_back(party.person, "/console/messages") for href in hrefs] == results
    # What came in meanwhile is before the first page then.
    party.publish(*([ALERT] * 60))
    back = party.person.get(page.all("//a[@rel='prev']/@href")[0])
    assert [str(href) for href in back.all("//td[contains(@class, 'key')]/a/@href")] == results[50:100]
    form = page.form("/console/messages/find")
    assert "inland" in party.person.submit(form, id="the one").words
    assert f"number {seqs[5]}" in party.person.submit(form, id=str(seqs[5])).words
    assert party.person.submit(form, id="no such").status == 404


# Consumers ------------------------------------------------------------------------------------------------------------


def test_a_consumer_is_skipped_purged_sought_and_redriven(party: Party) -> None:
    broker, person = party.broker, party.person
    broker.subscribe("desk", "//alert", tenant_id=party.tenant_id)
    broker.webhook("hook", "//alert", "http://hook.example/", tenant_id=party.tenant_id)
    redriven = broker.redriven()
    party.publish(*([ALERT] * 4))
    page = person.get("/console/consumers")
    assert page.status == 200
    address = "/console/consumers?subscriber=desk"
    page = person.submit(page.form("/console/consumers/skip", subscriber="desk"))
    assert "1 delivery is skipped, and with the dead letters" in page.words
    assert "3" in person.get(address).words
    assert len(broker.store.dead_letters(party.tenant_id, limit=9, key="desk")) == 1
    page = person.submit(person.get(address).form("/console/consumers/purge", subscriber="desk"))
    assert "3 deliveries count as done" in page.words
    page = person.submit(person.get(address).form("/console/consumers/seek", subscriber="desk"), seq="1")
    assert "desk begins anew with message 1" in page.words
    broker.dead_letter("hook", "it answered 500", tenant_id=party.tenant_id)
    page = person.submit(person.get("/console/consumers").form("/console/consumers/redrive", subscriber="hook"))
    assert "tried again" in page.words
    assert {delivery.key for delivery in redriven} == {"hook"}


# What went wrong ------------------------------------------------------------------------------------------------------


def test_dead_letters_are_retried_and_removed_one_by_one_and_all(party: Party) -> None:
    broker, person = party.broker, party.person
    broker.webhook("hook", "//alert", "http://hook.example/", tenant_id=party.tenant_id)
    broker.webhook("other", "//alert", "http://hook.example/", tenant_id=party.tenant_id)
    redriven = broker.redriven()
    party.publish(*([ALERT] * 4))
    numbers = broker.dead_letter("hook", "it answered 500", tenant_id=party.tenant_id)
    broker.dead_letter("other", "it answered 503", tenant_id=party.tenant_id)

    def left(key: str) -> list[int]:
        return [letter.id for letter in broker.store.dead_letters(party.tenant_id, limit=100, key=key)]

    page = person.get("/console/dead-letters")
    assert page.words.count("it answered 50") == 8
    page = person.submit(page.form("/console/dead-letters/retry", id=str(numbers[0])))
    assert "1 delivery is tried again" in page.words
    assert left("hook") == numbers[:0:-1]
    page = person.submit(page.form("/console/dead-letters/remove", id=str(numbers[1])))
    assert left("hook") == numbers[:1:-1]
    page = person.get("/console/dead-letters?key=hook")
    page = person.submit(page.form("/console/dead-letters/retry", key="hook"))
    assert left("hook") == []
    assert len(left("other")) == 4
    assert sorted(d.id.seq for d in redriven if d.key == "hook") == sorted({d.id.seq for d in redriven})
    assert len(redriven) == 3
    page = person.get("/console/dead-letters?key=other")
    person.submit(page.form("/console/dead-letters/remove", key="other"))
    assert left("other") == []


def test_a_rejected_message_is_shown_downloaded_and_removed(party: Party) -> None:
    body = b"<a>\n  <b>\n</a>"
    (number,) = party.publish(body, message_id="broken")
    page = party.person.get("/console/rejected")
    assert "line 3" in page.words
    page = party.person.get(f"/console/rejected/one?id={number}")
    (position,) = page.all("//div[@class='row place']")
    assert position.xpath("string(span[@class='n'])") == "3"
    assert position.xpath("string(.//mark)") == "<"
    assert party.person.get(f"/console/rejected/download?id={number}").response.content == body
    party.person.submit(page.form("/console/rejected/remove"))
    assert party.person.get(f"/console/rejected/one?id={number}").status == 404


def test_the_overview_warns_of_what_needs_attention(party: Party) -> None:
    _fill(party)
    broker = party.broker
    existing = broker.store.subscription(party.tenant_id, "high")
    assert existing is not None
    broker.do(broker.broker.set_state(existing, SubscriptionState.SUSPENDED, "too slow"))
    words = party.person.get("/").words
    assert "1 subscription is suspended" in words
    assert "2 dead letters wait" in words
    assert "too slow" in party.person.get("/console/subscriptions/one?key=high").words


def test_an_address_without_a_page_is_told(party: Party) -> None:
    page = party.person.get("/console/nothing/here")
    assert page.status == 404
    assert "there is no page" in page.words
    assert party.person.get("/console").response.url.path == "/"
    stranger = Person(party.broker)
    assert stranger.get("/console/nothing", follow=False).status == 303
    stranger.http.close()


def test_static_files_are_cached_by_their_content(party: Party) -> None:
    address = party.person.get("/").all("//link[@rel='stylesheet']/@href")[0]
    response = party.person.get(address).response
    assert "immutable" in response.headers["cache-control"]
    assert response.headers["content-type"] == "text/css; charset=utf-8"
    again = party.person.http.get(address, headers={"if-none-match": response.headers["etag"]})
    assert again.status_code == 304
    assert "immutable" not in party.person.get("/console/static/console.css").response.headers["cache-control"]
    for name in ("../pages.py", "..%2fpages.py", "nothing.css", ""):
        assert party.person.get(f"/console/static/{name}").status == 404


def test_the_workbench_knows_the_ids_of_stored_messages_and_shows_no_doctype(party: Party) -> None:
    (seq,) = party.publish(b"<!DOCTYPE r [<!ATTLIST i k ID #IMPLIED>]><r><i k='x'>found</i><i k='z'>other</i></r>")
    page = party.person.get("/console/workbench?query=" + quote("id('x')") + f"&message={seq}")
    assert "DOCTYPE" not in page.words
    assert "1 of 1 message matches" in page.words, page.words
    marks = page.all("//div[@class='xml']//mark")
    assert "".join(mark.text_content() for mark in marks) == "<i k='x'>found</i>"
