"""Pages of tokens and tenants, for administrators."""

from __future__ import annotations

from pydantic import ValidationError
from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api import administration as api
from twigcast.broker.api.models import TenantIn, TokenIn
from twigcast.broker.config import TenantLimits
from twigcast.broker.console import pages
from twigcast.broker.console.forms import FormFields, invalid
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.errors import Conflict, Invalid, NotFound
from twigcast.broker.model import Scope, Tenant
from twigcast.errors import TwigcastError


def routes(desk: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    admin = Scope.ADMIN
    return [
        desk.route("/tokens", tokens, scope=admin),
        desk.route("/tokens/add", add_token, change=True, scope=admin),
        desk.route("/tokens/delete", delete_token, change=True, scope=admin),
        desk.route("/tenants", tenants, scope=admin),
        desk.route("/tenants/add", add_tenant, change=True, scope=admin),
        desk.route("/tenants/limits", set_limits, change=True, scope=admin),
        desk.route("/tenants/look", view_tenant, change=True, scope=admin),
    ]


# Tokens ---------------------------------------------------------------------------------------------------------------


async def tokens(visit: PageRequest) -> Response:
    """Shows the tokens of the tenant."""
    return await _tokens_page(visit)


async def _tokens_page(visit: PageRequest, error: TwigcastError | None = None) -> Response:
    result = await visit.read(visit.store.tokens, visit.tenant_id)
    new, visit.session.new_token = visit.session.new_token, None
    status = 200 if error is None else 422
    own = visit.principal.token.id
    return visit.page(
        "tokens.html", status, tokens=result, new=new, own=own, scopes=list(Scope), form=visit.form, error=error
    )


async def add_token(visit: PageRequest) -> Response:
    """Makes a token; the next page shows it, once."""
    form = visit.form
    try:
        chosen = [scope for scope in Scope if form.has(f"scope_{scope.value}")]
        if not chosen:
            raise Invalid("choose what the token permits")
        body = TokenIn.model_validate({"name": form.line("name"), "scopes": chosen})
        created = await api.create_token(body, visit.principal, visit.context)
    except ValidationError as error:
        return await _tokens_page(visit, invalid(error))
    except TwigcastError as error:
        return await _tokens_page(visit, error)
    visit.session.new_token = created.token
    return visit.go(pages.link("/tokens"))


async def delete_token(visit: PageRequest) -> Response:
    """Deletes a token."""
    number = visit.form.number("id", 0)
    existing = await visit.read(visit.store.tokens, visit.tenant_id)
    if all(token.id != number for token in existing):
        raise NotFound("there is no such token any more")
    if number == visit.principal.token.id:
        raise Conflict("you are signed in with this token; sign in with another one to delete it")
    await visit.context.broker.change(lambda transaction: transaction.delete_token(number))
    visit.context.gate.forget_token(number)
    visit.context.streams.end_of(number)
    return visit.go(pages.link("/tokens"), "The token is deleted: it opens nothing any more.")


# Tenants --------------------------------------------------------------------------------------------------------------


async def tenants(visit: PageRequest) -> Response:
    """Shows all tenants, for administrators of the broker."""
    visit.principal.require_operator()
    return await _tenants_page(visit, FormFields({}))


async def _tenants_page(visit: PageRequest, form: FormFields, error: TwigcastError | None = None) -> Response:
    results = await visit.read(visit.store.tenants)
    counts = {tenant.id: await visit.read(visit.store.subscription_count, tenant.id) for tenant in results}
    defaults = {name: getattr(visit.context.settings, name) for name in TenantLimits.model_fields}
    reported = {name: field.description for name, field in TenantLimits.model_fields.items()}
    return visit.page(
        "tenants.html",
        200 if error is None else 422,
        tenants=results,
        counts=counts,
        defaults=defaults,
        told=reported,
        form=form,
        error=error,
    )


async def add_tenant(visit: PageRequest) -> Response:
    """Makes a tenant."""
    visit.principal.require_operator()
    try:
        body = TenantIn.model_validate({"name": visit.form.line("name")})
        await api.create_tenant(body, visit.principal, visit.context)
    except ValidationError as error:
        return await _tenants_page(visit, visit.form, invalid(error))
    except TwigcastError as error:
        return await _tenants_page(visit, visit.form, error)
    return visit.go(pages.link("/tenants"), f"The tenant {body.name} is there. Look at it to make its first token.")


async def set_limits(visit: PageRequest) -> Response:
    """Sets a tenant's own limits; for empty fields, the broker's hold."""
    visit.principal.require_operator()
    tenant = await _tenant(visit)
    limits = {name: visit.form.number(name, 0) for name in TenantLimits.model_fields if visit.form.line(name)}
    try:
        TenantLimits.model_validate(limits)
    except ValidationError as error:
        return await _tenants_page(visit, visit.form, invalid(error))
    await visit.context.broker.change(lambda transaction: transaction.set_tenant_limits(tenant.id, limits))
    visit.context.gate.forget()
    await visit.context.broker.tenants_changed()
    return visit.go(pages.link("/tenants"), f"The limits of {tenant.name} are set.")


async def view_tenant(visit: PageRequest) -> Response:
    """Switches to another tenant, or back to one's own."""
    if not visit.form.has("tenant"):
        visit.session.tenant_id = None
        return visit.go("/")
    visit.principal.require_operator()
    visit.session.tenant_id = (await _tenant(visit)).id
    return visit.go("/")


async def _tenant(visit: PageRequest) -> Tenant:
    number = visit.form.number("tenant", 0)
    for tenant in await visit.read(visit.store.tenants):
        if tenant.id == number:
            return tenant
    raise NotFound("there is no such tenant")
