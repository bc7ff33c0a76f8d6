"""Look-up tables of a broker: stored, used by sources, and changed beside publications."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.broker.api.running import Party, RunningBroker
from twigcast.broker.model import Scope
from twigcast.client import Client, LookupTable

COUNTIES = "code,name,state\n06037,Los Angeles,CA\n06059,Orange,CA\n32003,Clark,NV\n"
ALERT = "<alert xmlns='urn:cap'><event>Flood</event><geocode>06037</geocode><geocode>32003</geocode></alert>"
LOOKUP = {"table": "counties", "key": "//*:geocode", "element": "county", "columns": {"name": "name", "state": "state"}}


def put(party: Party, content: str = COUNTIES, status: int = 201, **query: str) -> dict[str, Any]:
    headers = {"Content-Type": "text/csv"}
    result: dict[str, Any] = party.ok("PUT", "/tables/counties", status, content=content, params=query, headers=headers)
    return result


def use(party: Party, status: int = 201, **changed: Any) -> None:
    party.ok("PUT", "/sources/nws", status, json={"lookups": [{**LOOKUP, **changed}]})


def test_subscribers_ask_for_what_only_the_table_knows(party_on_each_store: Party) -> None:
    party = party_on_each_store
    put(party)
    use(party)
    party.subscribe("nevada", "//county[state = 'NV']")
    party.subscribe("texas", "//county[state = 'TX']")
    assert party.publish(ALERT, source="nws")["matches"] == 1
    assert party.publish(ALERT)["matches"] == 0, "another source has no look-ups"
    (delivery,) = party.pull("nevada")
    clark = '<county xmlns=""><name>Clark</name><state>NV</state></county>'
    assert delivery["xml"].endswith(f"{clark}</alert>")
    # Whoever subscribes later gets what was stored, as it was enriched then.
    put(party, COUNTIES.replace("Clark", "Other"), 200)
    party.subscribe("later", "//county[name = 'Clark']", **{"from": {"time": "2020-01-01T00:00:00Z"}})
    assert party.pull("later")[0]["xml"] == delivery["xml"]


def test_messages_after_the_answer_are_enriched_from_the_new_table(broker: RunningBroker) -> None:
    party = broker.party()
    put(party)
    use(party)
    party.subscribe("all", "/*")
    for version in range(10):
        put(party, f"code,name,state\n06037,v{version},CA\n", 200)
        party.publish(ALERT, source="nws")
    names = [delivery["xml"].partition("<name>")[2].partition("<")[0] for delivery in party.pull("all", limit=10)]
    assert names == [f"v{version}" for version in range(10)]


def test_a_change_beside_publications_changes_whole_messages(broker: RunningBroker) -> None:
    party = broker.party()
    put(party)
    use(party)
    party.subscribe("all", "/*")
    over = threading.Event()

    def change() -> None:
        with party.client(Scope.ADMIN) as http:
            for version in range(20):
                content = f"code,name,state\n06037,v{version},CA\n32003,v{version},NV\n"
                response = http.put("/tables/counties", content=content, headers={"Content-Type": "text/csv"})
                assert response.status_code == 200, response.text
        over.set()

    thread = threading.Thread(target=change)
    thread.start()
    count = 0
    while not over.is_set():
        party.publish(ALERT, source="nws")
        count += 1
    thread.join()
    for delivery in party.pull("all", limit=min(count, 500)):
        first, second = (part.partition("<")[0] for part in delivery["xml"].split("<name>")[1:])
        assert (first, second) == ("Los Angeles", "Clark") or first == second


def test_a_table_that_is_used_keeps_what_is_used(broker: RunningBroker) -> None:
    party = broker.party()
    party.problem("PUT", "/sources/nws", 422, "invalid", json={"lookups": [LOOKUP]})
    put(party)
    lacking = {**LOOKUP, "columns": {"nam": "name"}}
    problem = party.problem("PUT", "/sources/nws", 422, "invalid", json={"lookups": [lacking]})
    assert problem["detail"] == "the table 'counties' has no column 'nam'"
    use(party)
    problem = party.problem("DELETE", "/tables/counties", 409, "conflict")
    assert problem["detail"] == "the source 'nws' uses this table"
    headers = {"Content-Type": "text/csv"}
    problem = party.problem("PUT", "/tables/counties", 409, "conflict", content="code,name\n1,a\n", headers=headers)
    assert problem["detail"] == "the source 'nws' uses this table: the table 'counties' has no column 'state'"
    party.ok("PUT", "/sources/nws", json={})
    party.ok("DELETE", "/tables/counties", 204)
    party.problem("GET", "/tables/counties", 404, "not-found")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"key": "//a["}, "lookups[0]: key: "),
        ({"element": "a:b"}, "element: 'a:b' is no name of an element"),
        ({"element": "a b"}, "is no name of an element"),
        ({"columns": {"name": "<x"}}, "is no name of an element"),
        ({"missing": "maybe"}, "missing"),
        ({"at": ""}, "at"),
    ],
)
def test_look_ups_that_cannot_be_used_are_refused(party: Party, changed: dict[str, Any], told: str) -> None:
    put(party)
    body = {"lookups": [{**LOOKUP, **changed}]}
    response = party.http.put("/sources/nws", json=body)
    assert response.status_code in (400, 422)
    assert told in response.text


def test_look_ups_and_a_doctype_that_stays_exclude_each_other(party: Party) -> None:
    put(party)
    response = party.http.put("/sources/nws", json={"lookups": [LOOKUP], "doctype": "allow"})
    assert "doctype must be strip or refuse" in response.text
    use(party)
    party.subscribe("all", "//county")
    document = "<!DOCTYPE alert [<!ENTITY code '06059'>]><alert><geocode>&code;</geocode></alert>"
    party.publish(document, source="nws")
    (delivery,) = party.pull("all")
    assert delivery["xml"] == (
        "<alert><geocode>06059</geocode><county><name>Orange</name><state>CA</state></county></alert>"
    )


def test_a_message_without_a_row_is_rejected_where_that_is_wanted(party: Party) -> None:
    put(party)
    use(party, missing="reject")
    problem = party.problem(
        "POST", "/messages", 422, "message-disallowed",
        content="<a><geocode>1</geocode></a>", params={"source": "nws"}, headers={"Content-Type": "application/xml"},
    )  # fmt: skip
    assert problem["detail"] == "the table 'counties' has no row '1' (missing: reject)"
    assert party.ok("GET", "/rejected")["rejected"][0]["code"] == "message-disallowed"


def test_a_repeated_message_is_one_though_the_table_has_changed(party: Party) -> None:
    put(party)
    use(party)
    first = party.publish(ALERT, source="nws", id="1")
    put(party, COUNTIES.replace("Clark", "Other"), 200)
    again = party.publish(ALERT, source="nws", id="1")
    assert again == {**first, "status": "duplicate"}


def test_what_is_looked_up_is_not_in_the_dtd(party: Party) -> None:
    put(party)
    dtd = "<!ELEMENT alert (geocode*)><!ELEMENT geocode (#PCDATA)>"
    party.ok("PUT", "/sources/nws", 201, json={"lookups": [LOOKUP], "dtd": dtd, "validation": "reject"})
    assert party.ok("POST", "/check", json={"query": "//county[state = 'NV']"})["warnings"] == []
    message = "<alert><geocode>32003</geocode></alert>"
    party.subscribe("nevada", "//county[state = 'NV']")
    assert party.publish(message, source="nws")["matches"] == 1


def test_tables_have_tags_limits_and_bounds(broker: RunningBroker) -> None:
    party = broker.party(tables_max=1)
    table = put(party)
    assert (table["key"], table["columns"], table["rows"]) == ("code", ["code", "name", "state"], 3)
    headers = {"Content-Type": "text/csv"}
    party.problem("PUT", "/tables/two", 409, "limit-reached", content=COUNTIES, headers=headers)
    put(party, COUNTIES + "1,a,b\n", 200)
    stale = {**headers, "If-Match": table["etag"]}
    party.problem("PUT", "/tables/counties", 412, "precondition-failed", content=COUNTIES, headers=stale)
    party.problem(
        "PUT", "/tables/counties", 415, "unsupported-media-type", content="{}", headers={"Content-Type": "a/b"}
    )
    party.problem("PUT", "/tables/counties", 413, "too-large", content=b"x" * (9 << 20), headers=headers)
    problem = party.problem("PUT", "/tables/counties", 422, "invalid", content="a,b\n1\n", headers=headers)
    assert problem["detail"] == "line 2: it has 1 values, for 2 columns"
    assert party.ok("GET", "/tables")["tables"][0]["rows"] == 4, "nothing of that was stored"
    with party.client(Scope.SUBSCRIBE) as http:
        assert http.put("/tables/counties", content=COUNTIES, headers=headers).status_code == 403
    assert broker.party().ok("GET", "/tables") == {"tables": []}


def test_large_tables_do_not_hold_the_event_loop(party: Party) -> None:
    rows = "".join(f'{{"code": {n}, "name": "name {n}"}}\n' for n in range(100_000))
    headers = {"Content-Type": "application/x-ndjson"}
    table = party.ok("PUT", "/tables/big", 201, content=rows, headers=headers)
    assert table["rows"] == 100_000
    assert party.http.get("/tables/big/rows").text.count("\n") == 100_000


def test_the_client_has_tables(party: Party) -> None:
    with Client(party.url, party.tokens[Scope.ADMIN]) as client:
        table = client.put_table("counties", COUNTIES, key="name")
        assert isinstance(table, LookupTable)
        assert (table.key, table.rows) == ("name", 3)
        assert client.put_table("lines", b'{"a": 1}\n', json_lines=True).columns == ["a"]
        assert [one.name for one in client.tables()] == ["counties", "lines"]
        assert client.table("counties") == table
        assert client.table_rows("counties")[2] == {"code": "32003", "name": "Clark", "state": "NV"}
        source = client.put_source("nws", lookups=[LOOKUP])
        assert source.lookups[0]["table"] == "counties"
        client.delete_table("lines")
        assert [one.name for one in client.tables()] == ["counties"]


def test_tables_are_erased_with_their_tenant(broker: RunningBroker) -> None:
    party = broker.party()
    put(party)
    use(party)
    assert broker.operator.delete(f"/tenants/{party.name}").status_code in (200, 202, 204)
    assert broker.store.lookup_table(party.id, "counties") is None
