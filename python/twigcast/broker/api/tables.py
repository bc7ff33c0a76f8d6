"""``/tables``: look-up tables, from which the messages of sources are enriched."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from twigcast.broker.api.access import Principal
from twigcast.broker.api.bodies import ContentType, read, unsupported
from twigcast.broker.api.bulk import LINES
from twigcast.broker.api.context import Admin, Anyone, ApiContext, PathName, QueryName, Shared
from twigcast.broker.api.models import TableOut, TablesOut
from twigcast.broker.api.openapi import NOT_MODIFIED, problem_responses
from twigcast.broker.api.preconditions import Conditions, Preconditions, answer_if_changed, tag_of_table
from twigcast.broker.errors import UnknownObject
from twigcast.broker.lookup_tables import (
    TABLE_BYTES_MAX,
    TableForm,
    TableSummary,
    as_lines,
    of_stored_form,
    read_table,
    stored_form,
)

router = APIRouter(prefix="/tables", tags=["tables"], responses=problem_responses(401, 403))

CSV = "text/csv"


@router.get("")
async def list_tables(principal: Anyone, shared: Shared) -> TablesOut:
    """Returns the look-up tables, without their rows."""
    results = await asyncio.to_thread(shared.broker.store.lookup_tables, principal.tenant_id)
    return TablesOut(tables=[TableOut.of(table) for table in results])


@router.get("/{name}", response_model=TableOut, responses=problem_responses(400, 404, 412) | NOT_MODIFIED)
async def get_table(
    name: PathName, principal: Anyone, shared: Shared, conditions: Conditions, response: Response
) -> Any:
    """Returns a look-up table, without its rows."""
    table = await find(shared, principal, name)
    return answer_if_changed(conditions, tag_of_table(table), response, lambda: TableOut.of(table))


@router.get("/{name}/rows", response_class=Response, responses=problem_responses(404) | {200: {"content": {LINES: {}}}})
async def get_table_rows(name: PathName, principal: Anyone, shared: Shared) -> Response:
    """Returns the rows of a look-up table as JSON lines."""
    stored = await asyncio.to_thread(shared.broker.store.lookup_content, principal.tenant_id, name)
    if stored is None:
        raise _unknown(name)
    rows = await asyncio.to_thread(lambda: b"".join(as_lines(of_stored_form(stored[1]))))
    return Response(rows, media_type=LINES)


@router.put(
    "/{name}",
    responses=problem_responses(400, 409, 412, 413, 415, 422, 503, 507) | {201: {"model": TableOut}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "The table: CSV, whose first line names the columns, or JSON lines, an object for each row.",
            "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (CSV, LINES)},
        }
    },
)
async def put_table(
    name: PathName,
    request: Request,
    principal: Admin,
    shared: Shared,
    conditions: Conditions,
    response: Response,
    key: Annotated[
        QueryName | None, Query(description="The column by which rows are found; by default the first.")
    ] = None,
) -> TableOut:
    """Stores a look-up table, or another content of one, as a whole.

    Messages that are published from then on are enriched from it. Those that are stored stay as they are.
    """
    kind = ContentType.of(request)
    if not kind.is_lines and kind.media != CSV:
        raise unsupported(kind.media, CSV, LINES)
    content = await read(request, TABLE_BYTES_MAX)
    is_new, table = await store_table(
        shared, principal, name, content, "lines" if kind.is_lines else "csv", key, conditions
    )
    response.status_code = 201 if is_new else 200
    response.headers["ETag"] = tag_of_table(table)
    return TableOut.of(table)


async def store_table(
    shared: ApiContext,
    principal: Principal,
    name: str,
    content: bytes,
    form: TableForm,
    key: str | None,
    conditions: Preconditions,
) -> tuple[bool, TableSummary]:
    """Stores a table, and lets sources use it from now on; returns whether it is new, and what is known of it."""
    table = await asyncio.to_thread(read_table, content, form, key)
    written = await asyncio.to_thread(stored_form, table)
    most, at, tenant_id = principal.limits.tables_max, time.time(), principal.tenant_id
    async with shared.locks.of(tenant_id, "table", name):
        existing = await asyncio.to_thread(shared.broker.store.lookup_table, tenant_id, name)
        conditions.check(None if existing is None else tag_of_table(existing))
        stored: TableSummary = await shared.broker.change(
            lambda transaction: transaction.put_lookup_table(tenant_id, name, table, written, at=at, tables_max=most)
        )
    await shared.broker.sources_changed()
    return existing is None, stored


@router.delete("/{name}", status_code=204, responses=problem_responses(400, 404, 409, 412, 503, 507))
async def delete_table(name: PathName, principal: Admin, shared: Shared, conditions: Conditions) -> None:
    """Deletes a look-up table that no source uses."""
    await remove_table(shared, principal, name, conditions)


async def remove_table(shared: ApiContext, principal: Principal, name: str, conditions: Preconditions) -> None:
    """Deletes a table that no source uses."""
    async with shared.locks.of(principal.tenant_id, "table", name):
        conditions.check(tag_of_table(await find(shared, principal, name)))
        tenant_id = principal.tenant_id
        await shared.broker.change(lambda transaction: transaction.delete_lookup_table(tenant_id, name))


async def find(shared: ApiContext, principal: Principal, name: str) -> TableSummary:
    """Returns a table of the tenant; raises UnknownObject if there is none."""
    result = await asyncio.to_thread(shared.broker.store.lookup_table, principal.tenant_id, name)
    if result is None:
        raise _unknown(name)
    return result


def _unknown(name: str) -> UnknownObject:
    return UnknownObject(f"there is no table {name[:100]!r}")
