"""The page that shows the interface to people."""

from __future__ import annotations

import json
import re

from tests.broker.console.conftest import Party
from tests.broker.console.running import Person


def test_each_operation_is_on_the_page_and_nothing_comes_from_elsewhere(party: Party) -> None:
    visitor = Person(party.broker)
    page = visitor.get("/docs")
    assert page.status == 200, "as /openapi.json it needs no token"
    description = json.loads(visitor.get("/openapi.json").text)
    shown = {section.get("id") for section in page.all("//section")}
    described = {o["operationId"] for methods in description["paths"].values() for o in methods.values()}
    assert shown == described
    links = [str(link) for link in page.all("//@href | //@src")]
    assert links
    assert not [link for link in links if not re.match(r"(/[^/]|/$|#)", link)]
    anchors = {link for link in links if link.startswith("#")}
    assert anchors == {f"#{heading.get('id')}" for heading in page.all("//h2")}
    visitor.http.close()


def test_parameters_and_members_are_told(party: Party) -> None:
    page = party.person.get("/docs")
    (publishing,) = page.all("//section[@id='publish_messages']")
    words = " ".join(" ".join(publishing.itertext()).split())
    assert "POST /messages" in words
    assert "source query string Where the message comes from" in words
    (changing,) = page.all("//section[@id='put_subscription']")
    words = " ".join(" ".join(changing.itertext()).split())
    assert "query needed body string" in words
    assert "412 Precondition Failed" in words
