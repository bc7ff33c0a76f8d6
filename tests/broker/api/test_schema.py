"""The OpenAPI description is true: schemathesis asks a running broker for what it says, and for what it excludes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.transport.serialization import serialize_binary

from tests.broker.api.running import RunningBroker

# Streams do not end; the others are asked elsewhere.
LEFT_OUT = re.compile(r"GET /deliveries(/stream)?$|\w+ /(feeds/.*|websub|console.*)?$")

QUICKLY = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: Any, value: Any) -> Any:
    """Bytes as they are generated."""
    return serialize_binary(value)


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]


@pytest.mark.slow
def test_the_broker_does_as_its_description_says(own_broker: Callable[..., RunningBroker]) -> None:
    broker = own_broker()
    described = schemathesis.openapi.from_url(f"{broker.url}/openapi.json")
    headers = {"Authorization": f"Bearer {broker.operator_token}"}
    asked = 0

    def ask(case: Any) -> None:
        nonlocal asked
        asked += 1
        case.call_and_validate(headers=headers, checks=CHECKS)

    for result in described.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if LEFT_OUT.match(f"{operation.method.upper()} {operation.path}"):
            continue
        for mode in GenerationMode:
            strategy = operation.as_strategy(generation_mode=mode)
            # Where nothing can be given, nothing wrong can.
            with contextlib.suppress(Unsatisfiable) if mode is GenerationMode.NEGATIVE else contextlib.nullcontext():
                QUICKLY(given(case=strategy)(ask))()
    assert asked > 300


def test_every_operation_says_what_it_does(sqlite_broker: RunningBroker) -> None:
    described = sqlite_broker.operator.get("/openapi.json").json()
    ids = set()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation["description"].strip().endswith((".", ")", "`")), (method, path)
            ids.add(operation["operationId"])
            for status, response in operation["responses"].items():
                if status.startswith("4") and path != "/websub" and response.get("content"):
                    assert set(response["content"]) == {"application/problem+json"}, (method, path, status)
    assert len(ids) == sum(len(methods) for methods in described["paths"].values())
