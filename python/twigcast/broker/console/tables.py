"""Pages of look-up tables, from which the messages of sources are enriched."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api import tables as api
from twigcast.broker.api.preconditions import NONE
from twigcast.broker.console import pages
from twigcast.broker.console.forms import FormFields
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.lookup_tables import LookupSettings, of_stored_form
from twigcast.broker.model import Scope
from twigcast.errors import TwigcastError

_SHOWN_ROWS = 50


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    return [
        admission.route("/tables", listing),
        admission.route("/tables/one", one),
        admission.route("/tables/put", put, change=True, scope=Scope.ADMIN),
        admission.route("/tables/delete", delete, change=True, scope=Scope.ADMIN),
    ]


async def listing(request: PageRequest) -> Response:
    """Shows all tables of the tenant."""
    return await _page(request, FormFields({}))


async def _page(request: PageRequest, form: FormFields, error: TwigcastError | None = None) -> Response:
    tables = await request.read(request.store.lookup_tables, request.tenant_id)
    users: dict[str, list[str]] = {}
    for source in await request.read(request.store.sources, request.tenant_id):
        for name in dict.fromkeys(LookupSettings.of(one).table for one in source.lookups):
            users.setdefault(name, []).append(source.name)
    status = 200 if error is None else 422
    return request.page("tables.html", status, tables=tables, users=users, form=form, error=error)


async def one(request: PageRequest) -> Response:
    """Shows the first rows of a table."""
    table = await api.find(request.context, request.principal, request.form.text("name"))
    stored = await request.read(request.store.lookup_content, request.tenant_id, table.name)
    content = None if stored is None else await request.read(of_stored_form, stored[1])
    rows = [] if content is None else list(content.rows.values())[:_SHOWN_ROWS]
    return request.page("table.html", table=table, rows=rows)


async def put(request: PageRequest) -> Response:
    """Stores a table, or another content of one."""
    form = request.form
    try:
        name = form.chosen_name()
        content, key = form.text("content").encode(), form.line("key") or None
        _, table = await api.store_table(request.context, request.principal, name, content, "csv", key, NONE)
    except TwigcastError as error:
        return await _page(request, form, error)
    return request.go(pages.link("/tables"), f"{table.name} is stored, with {table.rows:,} rows.")


async def delete(request: PageRequest) -> Response:
    """Deletes a table that no source uses."""
    name = request.form.text("name")
    try:
        await api.remove_table(request.context, request.principal, name, NONE)
    except TwigcastError as error:
        return await _page(request, FormFields({}), error)
    return request.go(pages.link("/tables"), f"{name} is deleted.")
