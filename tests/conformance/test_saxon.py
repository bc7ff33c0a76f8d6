"""The oracle of For-Where-Return queries: Saxon makes the results that are expected, and refuses what is refused."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.canonical import expanded
from tests.conformance.answers import Check
from tests.conformance.cases import Case, CaseQuery, cases_of, files
from tests.conformance.oracles import SaxonOracle, passing, saxon_oracle

pytest.importorskip("saxonche", reason="Saxon (the package saxonche) is not installed")

UNPLACED = ("XQTY0024", "XQDY0025")
"""Errors of XQuery for an attribute where none can stand."""

_SHELL: Final = re.compile(r'<[\w:]+(?: xmlns[\w:]*="[^"]*"| [\w:]+="")*/>')
"""An element without anything inside."""


@pytest.fixture(scope="module")
def saxon() -> SaxonOracle:
    return saxon_oracle()


def reason(case: Case) -> str | None:
    if case.error is not None:
        return "lxml is the oracle of messages"
    flwr = [query for query in case.queries if query.is_flwr]
    if not flwr:
        return "lxml is the oracle of XPath 1.0"
    if all(query.error is not None and query.error.code == "query-unsupported" for query in flwr):
        return "XQuery has what the query asks for; the product says that it does not"
    if any(query.error is not None and query.error.limit for query in flwr) or "result_bytes_max" in case.limits:
        return "the limits are the product's own"
    return None


@pytest.mark.parametrize("file", files())
def test_saxon_makes_the_same(file: str, saxon: SaxonOracle) -> None:
    run = Check("saxon")
    for case in run.select(cases_of(file), reason):
        for query in case.queries:
            if query.is_flwr:
                run.add(case, judged(saxon, case, query))
    run.finish()


def is_unplaced(error: str) -> bool:
    return any(code in error for code in UNPLACED)


def judged(saxon: SaxonOracle, case: Case, query: CaseQuery) -> list[str]:
    try:
        found = saxon.run(case.message, query.query, query.namespaces)
    except ValueError as error:
        is_due = query.error is not None or (query.key in case.undecided and is_unplaced(str(error)))
        return [] if is_due else [f"Saxon refuses {query.query!r}: {error}"]
    if query.error is not None:
        return [f"Saxon takes {query.query!r}"]
    if query.key in case.undecided:
        return [f"Saxon makes {found!r}, but an error was expected"]
    assert case.matches is not None
    faults = []
    bindings = passing(query.query)
    matches = bool(found)
    if bindings is not None:
        matches = saxon.run(case.message, bindings, query.namespaces) != "0"
    elif _SHELL.fullmatch(found) and query.query.startswith("<"):
        # An outer constructor is there without a binding, too; then nothing is delivered.
        matches = False
    if matches != (query.key in case.matches):
        faults.append(f"Saxon says {matches} to {bindings or query.query!r}")
    if query.key in case.payloads and expanded(found) != expanded(case.payloads[query.key]):
        faults.append(f"Saxon makes {found!r}, expected {case.payloads[query.key]!r}")
    return faults
