"""What an operation does not have is refused with its name: parameters, and values of another type.

The operations, their parameters and bodies are those of the OpenAPI description: a new one is among them by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.broker.api.running import RunningBroker
from twigcast.broker.delivery.channels import PullSettings

TOLERANT: Final = ("/health", "/ready", "/metrics", "/feeds/")
"""Asked by programs that add parameters of their own."""

WRONG: Final = {"string": "1", "boolean": True, "integer": 1}
"""A value of each type, which is refused where this type is not due."""

ACCEPTS: Final = {"number": {"number", "integer"}}


def operations(broker: RunningBroker) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields method, path and description of the operations that are strict."""
    described = broker.operator.get("/openapi.json").json()
    for path, methods in described["paths"].items():
        if not path.startswith(TOLERANT):
            for method, operation in methods.items():
                yield method, filled(path), resolved(operation, described)


def filled(path: str) -> str:
    return (
        path.replace("{seq}", "1").replace("{rejected}", "1").replace("{token}", "1").replace("{", "").replace("}", "")
    )


def resolved(node: Any, described: dict[str, Any]) -> Any:
    """A part of the description, with what it refers to put in its place."""
    if isinstance(node, list):
        return [resolved(item, described) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return resolved(described["components"]["schemas"][node["$ref"].rpartition("/")[2]], described)
    return {name: resolved(item, described) for name, item in node.items()}


def query_names(operation: dict[str, Any]) -> list[str]:
    return [parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "query"]


def test_a_parameter_that_an_operation_does_not_have_is_refused_by_name(sqlite_broker: RunningBroker) -> None:
    count = 0
    for method, path, operation in operations(sqlite_broker):
        names = query_names(operation)
        answer = sqlite_broker.operator.request(method, f"{path}?{quote('nöne such')}=1")
        assert answer.status_code == 422, (method, path, answer.text)
        problem = answer.json()
        assert problem["errors"][0]["in"] == "query"
        assert problem["errors"][0]["field"] == "nöne such"
        assert ("this operation has none" in problem["detail"]) == (not names), (method, path)
        for name in names:
            assert name in problem["detail"]
            count += 1
        if (longest := max(names, key=len, default="")) > "":
            answer = sqlite_broker.operator.request(method, path, params={f"{longest[:-1]}X": "1"})
            assert f"did you mean {longest!r}?" in answer.json()["detail"]
    assert count > 30


def test_the_parameters_of_the_description_are_known(sqlite_broker: RunningBroker) -> None:
    for method, path, operation in operations(sqlite_broker):
        names = query_names(operation)
        # One that cannot be: so nothing is done, and no stream begins.
        answer = sqlite_broker.operator.request(method, path, params=dict.fromkeys(names, "1") | {"no-such": "1"})
        assert answer.json()["errors"][0]["field"] == "no-such", (method, path)


def test_a_body_is_not_read_where_a_parameter_is_wrong(sqlite_broker: RunningBroker) -> None:
    answer = sqlite_broker.operator.post("/messages?sorce=a", content=b"<m/>")
    assert answer.status_code == 422
    assert answer.json()["detail"] == "sorce: there is no such parameter; did you mean 'source'?"
    assert sqlite_broker.operator.get("/messages").json()["messages"] == []


def test_what_asks_for_health_may_add_parameters(sqlite_broker: RunningBroker) -> None:
    for path in ("/health", "/ready"):
        assert sqlite_broker.operator.get(path, params={"t": "1"}).status_code == 200


# --- bodies -----------------------------------------------------------------------------------------------------------


def members(schema: dict[str, Any], *above: str) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Yields the members of an object, those of objects in it too, each with the types that it may have."""
    for choice in schema.get("anyOf", [schema]):
        for name, member in choice.get("properties", {}).items():
            types, nested = types_of(member)
            if types:
                yield (*above, name), types
            for inner in nested:
                yield from members(inner, *above, name)


def types_of(member: dict[str, Any]) -> tuple[set[str], list[dict[str, Any]]]:
    types: set[str] = set()
    nested: list[dict[str, Any]] = []
    for choice in member.get("anyOf", member.get("oneOf", [member])):
        kind = choice.get("type", "string" if isinstance(choice.get("const"), str) else None)
        if choice.get("const") is True:
            kind = "boolean"
        types |= ACCEPTS.get(kind, {kind}) if kind else set()
        if choice.get("properties"):
            nested.append(choice)
    return types, nested


def bodies(operation: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields places in a body with values of a wrong type for them."""
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if schema is None:
        return
    for place, types in members(schema):
        yield from islice(((place, value) for kind, value in WRONG.items() if kind not in types), 2)


def body_with(place: tuple[str, ...], value: Any) -> Any:
    body = value
    for name in reversed(place):
        body = {name: body}
    if place[0] == "delivery" and len(place) > 1 and place[1] not in PullSettings.model_fields:
        body["delivery"]["kind"] = "webhook"
    return body


def test_a_value_of_another_type_is_refused_by_the_name_of_its_field(sqlite_broker: RunningBroker) -> None:
    count = 0
    for method, path, operation in operations(sqlite_broker):
        for place, value in bodies(operation):
            body = body_with(place, value)
            answer = sqlite_broker.operator.request(method, path, json=body)
            assert answer.status_code == 422, (method, path, body, answer.text)
            fields = [mistake["field"] for mistake in answer.json()["errors"]]
            wanted = ".".join(place)
            assert any(field == wanted or field.startswith(f"{wanted}.") for field in fields), (path, body, fields)
            count += 1
    assert count > 100


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"count": "10"}, "count"),
        ({"count": True}, "count"),
        ({"count": 1, "dead_letter": "no"}, "dead_letter"),
        ({"count": 1, "dead_letter": 0}, "dead_letter"),
    ],
)
def test_numbers_in_quotes_and_truth_values_are_not_taken_for_numbers(
    sqlite_broker: RunningBroker, body: dict[str, Any], field: str
) -> None:
    answer = sqlite_broker.operator.post("/consumers/a/skip", json=body)
    assert answer.status_code == 422
    assert [mistake["field"] for mistake in answer.json()["errors"]] == [field]


def test_the_lines_of_an_import_are_as_strict(sqlite_broker: RunningBroker) -> None:
    line = b'{"key":"k","query":"//a","delivery":{"kind":"webhook","url":"http://127.0.0.1/","batch_max":"5"}}'
    answer = sqlite_broker.operator.post(
        "/subscriptions/import", content=line, headers={"Content-Type": "application/x-ndjson"}
    )
    assert b"batch_max: Input should be a valid integer" in answer.content


def test_times_are_texts(sqlite_broker: RunningBroker) -> None:
    answer = sqlite_broker.operator.post("/subscriptions/k/seek", json={"time": 1_700_000_000})
    assert answer.status_code == 422
    assert "a time is written as text" in answer.json()["detail"]


@pytest.mark.parametrize("value", ["1" + "0" * 400, str(2**60 + 1), "NaN", "1e999", "null", "[[1]]", '"\\ud800"', "{}"])
def test_values_of_parameters_that_no_query_could_compare_are_refused(sqlite_broker: RunningBroker, value: str) -> None:
    body = f'{{"query": "//a[b = $x]", "params": {{"x": {value}}}}}'
    head = {"Content-Type": "application/json"}
    for method, path in (("POST", "/check"), ("PUT", "/subscriptions/k")):
        answer = sqlite_broker.operator.request(method, path, content=body, headers=head)
        if path == "/check" and answer.status_code == 200:
            assert not answer.json()["valid"]
        else:
            assert answer.status_code == 422, answer.text
