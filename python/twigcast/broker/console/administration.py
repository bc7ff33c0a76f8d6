"""Pages of tokens and tenants, for administrators."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api import administration as api
from twigcast.broker.api.models import TenantIn, TokenIn
from twigcast.broker.config import TenantLimits
from twigcast.broker.console import pages
from twigcast.broker.console.forms import FormFields, validated
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.errors import Conflict, Invalid, UnknownObject
from twigcast.broker.model import Scope, Tenant
from twigcast.errors import TwigcastError


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    admin = Scope.ADMIN
    return [
        admission.route("/tokens", tokens, scope=admin),
        admission.route("/tokens/add", add_token, change=True, scope=admin),
        admission.route("/tokens/rotate", rotate_token, change=True, scope=admin),
        admission.route("/tokens/delete", delete_token, change=True, scope=admin),
        admission.route("/tenants", tenants, scope=admin),
        admission.route("/tenants/add", add_tenant, change=True, scope=admin),
        admission.route("/tenants/limits", set_limits, change=True, scope=admin),
        admission.route("/tenants/erase", erase_tenant, change=True, scope=admin),
        admission.route("/clock/confirm", confirm_clock, change=True, scope=admin),
        admission.route("/tenants/look", view_tenant, change=True, scope=admin),
    ]


# Tokens ---------------------------------------------------------------------------------------------------------------


async def tokens(request: PageRequest) -> Response:
    """Shows the tokens of the tenant."""
    return await _tokens_page(request)


async def _tokens_page(request: PageRequest, error: TwigcastError | None = None) -> Response:
    result = await request.read(request.store.tokens, request.tenant_id)
    new, request.session.new_token = request.session.new_token, None
    status = 200 if error is None else 422
    own = request.principal.token.id
    return request.page(
        "tokens.html", status, tokens=result, new=new, own=own, scopes=list(Scope), form=request.form, error=error
    )


async def add_token(request: PageRequest) -> Response:
    """Makes a token; the next page shows it, once."""
    form = request.form
    try:
        chosen = [scope for scope in Scope if form.has(f"scope_{scope.value}")]
        if not chosen:
            raise Invalid("choose what the token permits")
        days = form.number("days", 0, most=36_500)
        body = validated(
            TokenIn,
            {
                "name": form.line("name"),
                "scopes": chosen,
                "expires": datetime.now(UTC) + timedelta(days=days) if days else None,
                "sources": _names(form, "sources"),
                "subscribers": _names(form, "subscribers"),
                "certificates": _names(form, "certificates"),
            },
        )
        created = await api.create_token(body, request.principal, request.context)
    except TwigcastError as error:
        return await _tokens_page(request, error)
    request.session.new_token = created.token
    return request.go(pages.link("/tokens"))


def _names(form: FormFields, field: str) -> list[str] | None:
    """Returns the names in a field, one a line; ``None`` if it is empty."""
    return [line.strip() for line in form.text(field).splitlines() if line.strip()] or None


async def rotate_token(request: PageRequest) -> Response:
    """Gives a token a new secret; the next page shows it, once. The old one is accepted for an hour."""
    number = request.form.number("id", 0)
    existing = await request.read(request.store.tokens, request.tenant_id)
    if all(token.id != number for token in existing):
        raise UnknownObject("there is no such token any more")
    rotated = await api.rotate_token(number, request.principal, request.context)
    request.session.new_token = rotated.token
    return request.go(pages.link("/tokens"))


async def delete_token(request: PageRequest) -> Response:
    """Deletes a token."""
    number = request.form.number("id", 0)
    existing = await request.read(request.store.tokens, request.tenant_id)
    if all(token.id != number for token in existing):
        raise UnknownObject("there is no such token any more")
    if number == request.principal.token.id:
        raise Conflict("you are signed in with this token; sign in with another one to delete it")
    await request.context.broker.change(lambda transaction: transaction.delete_token(number))
    request.context.authenticator.forget_token(number)
    request.context.streams.end_of(number)
    return request.go(pages.link("/tokens"), "The token is deleted: it opens nothing any more.")


# Tenants --------------------------------------------------------------------------------------------------------------


async def tenants(request: PageRequest) -> Response:
    """Shows all tenants, for administrators of the broker."""
    request.principal.require_operator()
    return await _tenants_page(request, FormFields({}))


async def _tenants_page(request: PageRequest, form: FormFields, error: TwigcastError | None = None) -> Response:
    results = await request.read(request.store.tenants)
    counts = {tenant.id: await request.read(request.store.subscription_count, tenant.id) for tenant in results}
    defaults = {name: getattr(request.context.settings, name) for name in TenantLimits.model_fields}
    descriptions = {name: field.description for name, field in TenantLimits.model_fields.items()}
    return request.page(
        "tenants.html",
        200 if error is None else 422,
        tenants=results,
        home=request.principal.tenant_id,
        counts=counts,
        defaults=defaults,
        descriptions=descriptions,
        form=form,
        error=error,
    )


async def add_tenant(request: PageRequest) -> Response:
    """Makes a tenant."""
    request.principal.require_operator()
    try:
        body = validated(TenantIn, {"name": request.form.line("name")})
        await api.create_tenant(body, request.principal, request.context)
    except TwigcastError as error:
        return await _tenants_page(request, request.form, error)
    return request.go(pages.link("/tenants"), f"The tenant {body.name} is there. View it to make its first token.")


async def set_limits(request: PageRequest) -> Response:
    """Sets a tenant's own limits; for empty fields, the broker's hold."""
    request.principal.require_operator()
    tenant = await _tenant(request)
    limits = {name: request.form.number(name, 0) for name in TenantLimits.model_fields if request.form.line(name)}
    try:
        validated(TenantLimits, limits)
    except TwigcastError as error:
        return await _tenants_page(request, request.form, error)
    await request.context.broker.change(lambda transaction: transaction.set_tenant_limits(tenant.id, limits))
    request.context.authenticator.forget()
    await request.context.broker.tenants_changed()
    return request.go(pages.link("/tenants"), f"The limits of {tenant.name} are set.")


async def erase_tenant(request: PageRequest) -> Response:
    """Erases a tenant whose name was typed."""
    request.principal.require_operator()
    tenant = await _tenant(request)
    try:
        if request.form.line("name") != tenant.name:
            raise Invalid(f"to erase the tenant {tenant.name!r}, type its name; nothing was erased")
        answer = await api.erase_tenant(tenant.name, request.principal, request.context)
    except TwigcastError as error:
        return await _tenants_page(request, FormFields({}), error)
    rest = "" if answer.is_done else " What it stored is being removed."
    return request.go(pages.link("/tenants"), f"The tenant {tenant.name} is erased.{rest}")


async def confirm_clock(request: PageRequest) -> Response:
    """Confirms the clock after a jump."""
    request.principal.require_operator()
    await api.confirm_clock(request.principal, request.context)
    return request.go("/", "The clock is confirmed: messages expire by it.")


async def view_tenant(request: PageRequest) -> Response:
    """Switches to another tenant, or back to one's own."""
    if not request.form.has("tenant"):
        request.session.tenant_id = None
        return request.go("/")
    request.principal.require_operator()
    request.session.tenant_id = (await _tenant(request)).id
    return request.go("/")


async def _tenant(request: PageRequest) -> Tenant:
    number = request.form.number("tenant", 0)
    for tenant in await request.read(request.store.tenants):
        if tenant.id == number:
            return tenant
    raise UnknownObject("there is no such tenant")
