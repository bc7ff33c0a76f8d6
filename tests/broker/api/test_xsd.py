"""Sources whose messages are validated by XML Schema."""

from __future__ import annotations

from tests.broker.api.running import Party
from twigcast.broker.model import Scope
from twigcast.client import Client

HEAD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
XSD = f"""{HEAD}<xs:element name="alert"><xs:complexType><xs:sequence><xs:element name="level" type="xs:int"/>
</xs:sequence></xs:complexType></xs:element></xs:schema>"""
BACKTRACKING = f"""{HEAD}<xs:element name="a"><xs:simpleType><xs:restriction base="xs:string">
<xs:pattern value="((a|aa)+)+b"/></xs:restriction></xs:simpleType></xs:element></xs:schema>"""
XML = {"Content-Type": "application/xml"}


def test_what_the_schema_does_not_allow_is_rejected_noted_or_taken(party: Party) -> None:
    good, bad = "<alert><level>1</level></alert>", "<alert>\n<level>x</level></alert>"
    party.subscribe("all", "//level")
    for mode, matches in (("reject", None), ("annotate", 1), ("off", 1)):
        source = party.ok("PUT", "/sources/s", 201 if mode == "reject" else 200, json={"xsd": XSD, "validation": mode})
        assert (source["xsd"], source["validation"]) == (XSD, mode)
        assert party.publish(good, source="s")["matches"] == 1
        answer = party.http.post("/messages", content=bad, params={"source": "s"}, headers=XML).json()
        if matches is None:
            assert (answer["code"], answer["line"]) == ("message-disallowed", 2)
            assert "the schema does not allow it: Element 'level'" in answer["detail"]
        else:
            assert answer["matches"] == matches
            assert ("invalid" in answer and answer["invalid"] is not None) == (mode == "annotate")


def test_both_a_dtd_and_a_schema_have_to_allow_a_message(party: Party) -> None:
    dtd = "<!ELEMENT alert (level)><!ELEMENT level (#PCDATA)><!ATTLIST alert id CDATA #REQUIRED>"
    party.ok("PUT", "/sources/s", 201, json={"xsd": XSD, "dtd": dtd, "validation": "reject"})
    for message, told in (
        ("<alert><level>1</level></alert>", "the DTD"),
        ("<alert id='1'><level>1</level></alert>", "the schema"),
    ):
        answer = party.http.post("/messages", content=message, params={"source": "s"}, headers=XML).json()
        assert answer["detail"].startswith(f"{told} does not allow it")


def test_schemas_that_cannot_be_used_are_refused(party: Party) -> None:
    for xsd, told in (
        ("<a/>", "xsd: no schema: its root is 'a'"),
        (f"{HEAD}<xs:include schemaLocation='file:///etc/passwd'/></xs:schema>", "refers to 'file:///etc/passwd'"),
    ):
        problem = party.problem("PUT", "/sources/s", 422, "invalid", json={"xsd": xsd})
        assert told in problem["detail"]
    response = party.http.put("/sources/s", json={"validation": "reject"})
    assert "validation needs a dtd or an xsd" in response.text


def test_a_hostile_schema_costs_its_own_tenant(party: Party) -> None:
    party.ok("PUT", "/sources/s", 201, json={"xsd": BACKTRACKING, "validation": "reject"})
    for _ in range(2):
        response = party.http.post("/messages", content=f"<a>{'a' * 60}</a>", params={"source": "s"}, headers=XML)
        assert "it cannot be validated by the schema" in response.json()["detail"]
    assert party.publish("<a>aab</a>", source="s")["matches"] == 0


def test_the_client_sets_a_schema(party: Party) -> None:
    with Client(party.url, party.tokens[Scope.ADMIN]) as client:
        source = client.put_source("s", xsd=XSD, validation="annotate")
        assert source.xsd == XSD
        assert client.publish("<alert/>", source="s").invalid is not None
