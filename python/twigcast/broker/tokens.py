"""API tokens: how they are made and recognised.

A token is ``tc_`` and 32 random bytes. Only its SHA-256 digest is stored: what is random and long needs no slow hash.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from typing import Final

from twigcast.broker.model import Scope, Token
from twigcast.broker.store.store import Store

PREFIX: Final = "tc_"

FIRST_TENANT: Final = "default"
"""Name of the tenant that exists from the first start on. Its administrators administer the broker."""

SECRET: Final = re.compile(r"\btc_[A-Za-z0-9_-]{43}")
"""The form of a token, for those who have to hide it."""


def new_secret() -> str:
    """Returns a new token."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(secret: str) -> bytes:
    """Returns the digest of a token, which is stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def create_token(
    store: Store, tenant_id: int, name: str, scopes: frozenset[Scope], *, expires: float | None = None
) -> tuple[Token, str]:
    """Makes a token, and returns it as stored, with its secret. Blocks."""
    secret = new_secret()
    with store.transaction() as transaction:
        token = transaction.add_token(tenant_id, name, scopes, digest(secret), at=time.time(), expires=expires)
    return token, secret


def first_start(store: Store) -> str | None:
    """Makes an admin token of the first tenant, and the tenant if needed, unless there is a token; returns it.

    Blocks.
    """
    tenants = store.tenants()
    if any(store.tokens(tenant.id) for tenant in tenants):
        return None
    secret = new_secret()
    with store.transaction() as transaction:
        tenant = min(tenants, key=lambda existing: existing.id) if tenants else transaction.add_tenant(FIRST_TENANT, {})
        transaction.add_token(tenant.id, "first start", frozenset({Scope.ADMIN}), digest(secret), at=time.time())
    return secret
