"""Messages that update and cancel each other, through a running broker."""

from __future__ import annotations

from typing import Any

from tests.broker.api.running import Party, RunningBroker, check_problem
from twigcast.broker.model import Scope
from twigcast.client import Accepted, Client

NAMESPACES = {"c": "urn:oasis:names:tc:emergency:cap:1.2"}
SENT = "2026-06-01T10:00:00-07:00"


def alert(name: str, area: str, *, kind: str = "Alert", of: tuple[str, ...] = (), expires: str = "") -> str:
    refers = " ".join(f"w@x,{one},{SENT}" for one in of)
    end = f"<expires>{expires}</expires>" if expires else ""
    return (
        f"<alert xmlns='{NAMESPACES['c']}'><identifier>{name}</identifier><sender>w@x</sender><sent>{SENT}</sent>"
        f"<msgType>{kind}</msgType>{f'<references>{refers}</references>' if refers else ''}"
        f"<info>{end}<area><areaDesc>{area}</areaDesc></area></info></alert>"
    )


def register(party: Party, name: str = "weather", profile: Any = "cap") -> None:
    party.ok("PUT", f"/sources/{name}", 201, json={"profile": profile})


def county(party: Party, key: str, **more: Any) -> None:
    party.subscribe(key, f"//c:areaDesc = '{key}'", namespaces=NAMESPACES, **more)


def send(party: Party, xml: str, source: str = "weather", **query: str) -> dict[str, Any]:
    return party.publish(xml, source=source, **query)


def relations(party: Party, subscriber: str, wait: int = 0) -> list[tuple[str, str | None]]:
    return [(one["xml"].split("identifier>")[1][:-2], one.get("relation")) for one in party.pull(subscriber, wait=wait)]


def test_an_alert_is_delivered_once_updated_and_called_off(party_on_each_store: Party) -> None:
    party = party_on_each_store
    register(party)
    register(party, "agency")
    for key in ("Lake", "Hill"):
        county(party, key)
    assert send(party, alert("1", "Lake"))["effect"] == "first"
    # The same from another source, under an id of its own.
    again = send(party, alert("1", "Lake"), "agency", id="tag:agency,1")
    assert (again["effect"], again["matches"]) == ("duplicate", 0)
    assert send(party, alert("2", "Lake", kind="Update", of=("1",)))["effect"] == "update"
    moved = send(party, alert("3", "Hill", kind="Update", of=("2",)))
    assert (moved["effect"], moved["matches"]) == ("update", 2)
    assert relations(party, "Lake") == [("1", "entered"), ("2", "updated"), ("3", "left")]
    assert send(party, alert("4", "Sea", kind="Cancel", of=("3",)))["effect"] == "cancel"
    # The cancel has withdrawn what waited.
    assert relations(party, "Hill") == [("4", "cancelled")]
    history = party.ok("GET", f"/messages/{moved['seq']}/lifecycle")
    assert history["state"] == "cancelled"
    assert [one["effect"] for one in history["messages"]] == ["first", "update", "update", "cancel"]
    assert {(one["key"], one["relation"]) for one in history["deliveries"] if one["seq"] == moved["seq"]} == {
        ("Lake", "left"),
        ("Hill", "entered"),
    }


def test_an_original_that_comes_after_its_cancel_goes_to_nobody(party: Party) -> None:
    register(party)
    county(party, "Lake")
    send(party, alert("2", "Sea", kind="Cancel", of=("1",)))
    overtaken = send(party, alert("1", "Lake"))
    assert (overtaken["effect"], overtaken["matches"]) == ("superseded", 0)
    assert relations(party, "Lake") == []


def test_who_does_not_follow_gets_what_matches(party: Party) -> None:
    register(party)
    county(party, "Lake", follow=False)
    county(party, "Hill")
    assert party.ok("GET", "/subscriptions/Lake")["follow"] is False
    assert party.ok("GET", "/subscriptions/Hill")["follow"] is None
    send(party, alert("1", "Lake"))
    assert relations(party, "Lake") == [("1", "entered")]
    send(party, alert("2", "Sea", kind="Cancel", of=("1",)))
    assert relations(party, "Lake") == []
    party.ok("PATCH", "/subscriptions/Lake", json={"follow": True})
    send(party, alert("3", "Lake"))
    send(party, alert("4", "Sea", kind="Cancel", of=("3",)))
    assert relations(party, "Lake") == [("4", "cancelled")]


def test_a_query_that_rewrites_gets_the_message_where_it_does_not_match(party: Party) -> None:
    register(party)
    party.subscribe(
        "short",
        "for $a in /c:alert[c:info/c:area/c:areaDesc = 'Lake'] return <lake>{ $a/c:identifier/text() }</lake>",
        namespaces=NAMESPACES,
    )
    send(party, alert("1", "Lake"))
    first = party.pull("short")[0]
    assert (first["xml"], first["relation"]) == ("<lake>1</lake>", "entered")
    party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "short", "ids": [first["id"]]})
    assert send(party, alert("2", "Hill", kind="Update", of=("1",)))["matches"] == 1
    later = party.pull("short")[0]
    assert (later["rewritten"], later["relation"]) == (False, "left")


def test_what_has_expired_is_withdrawn_if_the_profile_says_so(own_broker: Any) -> None:
    broker: RunningBroker = own_broker()
    party = broker.party()
    register(party, profile={"name": "short-lived", "extends": "cap", "withdraw_expired": True})
    county(party, "Lake")
    assert send(party, alert("1", "Lake", expires="2026-06-01T10:00:00Z"))["matches"] == 0
    assert relations(party, "Lake") == []


def test_a_feed_that_is_pushed_is_published_item_by_item(party: Party) -> None:
    register(party, "news", {"extends": "rss", "inherit": ["copyright"], "follow": True})
    party.subscribe("rising", "/item[title = 'Rising' and copyright = 'us']")

    def channel(*titles: str) -> str:
        items = (
            f"<item><guid>g{n}</guid><title>{t}</title><pubDate>{t}</pubDate></item>" for n, t in enumerate(titles)
        )
        return f"<rss><channel><copyright>us</copyright>{''.join(items)}</channel></rss>"

    def send_channel(*titles: str) -> list[str]:
        answer = party.publish(channel(*titles), source="news", id="-".join(titles), items="true")
        return [one["effect"] for one in answer["results"]]

    assert send_channel("Rising", "Falling") == ["first", "first"]
    assert send_channel("Falling", "Falling") == ["update", "duplicate"]
    assert [one["relation"] for one in party.pull("rising")] == ["entered", "left"]

    # One item by itself is an item, too, and what cannot be read is rejected as a whole.
    assert party.publish("<item><guid>g9</guid></item>", source="news", items="true")["accepted"] == 1
    assert party.publish("<rss><item>", source="news", items="true")["rejected"] == 1
    check_problem(party.http.post("/messages?source=news&items=yes", content=b"<rss/>"), 422, "invalid")
    for query, body in (("source=news", "<rss/>"), ("source=other", "<rss/>")):
        headers = {"Content-Type": "text/xml"}
        check_problem(party.http.post(f"/messages?items=true&{query}", content=body, headers=headers), 422, "invalid")


def test_the_client_publishes_follows_and_asks_what_became_of_it(party: Party) -> None:
    with Client(party.url, party.tokens[Scope.ADMIN]) as client:
        assert client.put_source("news", profile="rss").profile == "rss"
        assert client.subscribe("rising", "/item[title = 'Rising']", follow=True).follow is True
        item = "<item><guid>g</guid><title>{0}</title><pubDate>{0}</pubDate></item>"
        channel = f"<rss>{item.format('Rising')}{item.format('Falling')}</rss>"
        outcomes = [one for one in client.publish_items(channel, source="news") if isinstance(one, Accepted)]
        assert [one.effect for one in outcomes] == ["first", "update"]
        assert [one.relation for one in client.pull("rising")] == ["entered", "left"]
        lifecycle = client.lifecycle(outcomes[0].seq)
        assert (lifecycle.state, [one["effect"] for one in lifecycle.messages]) == ("in force", ["first", "update"])
        assert client.publish("<other/>", source="news").trouble is not None


def test_what_is_wrong_with_a_profile_is_refused(party: Party) -> None:
    for profile, detail in (
        ("capp", "profile: there is no profile 'capp'"),
        ({"identity": "/a["}, "profile: identity: column 4"),
        ({"identity": "/a", "verson": "/b"}, "profile: verson: a profile has no such part"),
    ):
        problem = check_problem(party.http.put("/sources/a", json={"profile": profile}), 422, "invalid")
        assert detail in problem["detail"]
    shown = {"identity": ["/r/@no"], "cancel": "/r/@off"}
    party.ok("PUT", "/sources/roads", 201, json={"profile": shown})
    assert party.ok("GET", "/sources/roads")["profile"] == {"name": "roads", **shown}


def test_a_message_without_an_identity_is_delivered_and_reported(party: Party) -> None:
    register(party)
    party.subscribe("all", "/note")
    answer = send(party, "<note/>")
    assert (answer["effect"], answer["matches"]) == ("apart", 1)
    assert "no identity by the profile 'cap'" in answer["trouble"]
    assert "relation" not in party.pull("all")[0]
    check_problem(party.http.get(f"/messages/{answer['seq']}/lifecycle"), 404, "not-found")
