"""Warnings of subscriptions that no message of the tenant's sources can match, by the DTDs of these."""

from __future__ import annotations

from typing import Any

from tests.broker.api.running import Party, RunningBroker

ALERTS = (
    "<!ELEMENT alert (event, area*)><!ELEMENT event (#PCDATA)><!ELEMENT area EMPTY><!ATTLIST area code CDATA #REQUIRED>"
)
NEWS = "<!ELEMENT news (title, body)><!ELEMENT title (#PCDATA)><!ELEMENT body (#PCDATA)>"


def register(party: Party, name: str, **settings: Any) -> None:
    response = party.http.put(f"/sources/{name}", json={"kind": "push", **settings})
    assert response.status_code in (200, 201), response.text


def warnings(party: Party, query: str, **settings: Any) -> list[str]:
    """Returns the warnings of `/check`, which are those of a subscription, too."""
    checked: list[str] = party.ok("POST", "/check", json={"query": query, **settings})["warnings"]
    response = party.http.put("/subscriptions/asked", json={"query": query, "subscriber": "desk", **settings})
    assert response.json()["warnings"] == checked
    return checked


def test_a_subscription_that_no_source_can_satisfy_has_a_warning(broker: RunningBroker) -> None:
    party = broker.party()
    assert warnings(party, "//evnt") == []
    register(party, "alerts", dtd=ALERTS)
    assert warnings(party, "//event") == []
    assert warnings(party, "//evnt") == [
        "no message of your sources can match: by the DTD of alerts, there is no element evnt; did you mean event?"
    ]
    register(party, "news", dtd=NEWS)
    (warning,) = warnings(party, "/alert/title")
    assert "by the DTD of alerts, there is no element title; by the DTD of news, there is no element alert" in warning
    assert warnings(party, "/news/title") == []


def test_what_a_source_without_a_dtd_publishes_might_match(broker: RunningBroker) -> None:
    party = broker.party()
    register(party, "alerts", dtd=ALERTS)
    register(party, "anything")
    assert warnings(party, "//evnt") == []
    register(party, "anything", dtd=NEWS)
    assert warnings(party, "//evnt")
    for name in ("anything", "alerts"):
        assert party.http.delete(f"/sources/{name}").status_code == 204
    assert warnings(party, "//evnt") == []


def test_parameters_namespaces_and_changes_of_subscriptions_are_looked_at(broker: RunningBroker) -> None:
    party, other = broker.party(), broker.party()
    register(party, "alerts", dtd=ALERTS)
    assert warnings(party, "//c:area[@code = $code]", namespaces={"c": "urn:c"}, params={"code": "7"}) == []
    assert warnings(party, "//c:area[@cod = $code]", namespaces={"c": "urn:c"}, params={"code": "7"})
    changed = party.ok("PATCH", "/subscriptions/asked", json={"query": "/alert/area/event", "params": {}})
    assert "area has no child event" in changed["warnings"][0]
    assert party.ok("PATCH", "/subscriptions/asked", json={"query": "/alert/event"})["warnings"] == []
    assert warnings(other, "//evnt") == []
