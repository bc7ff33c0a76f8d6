"""``twigcast admin``, beside a broker and without one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.broker.store.filling import deliver, publish, subscribe
from twigcast.broker.model import Scope
from twigcast.broker.store.store import Store, open_store
from twigcast.cli import app


def admin(address: str, *arguments: str) -> Result:
    """Run a command; it must not end with a traceback."""
    result = CliRunner().invoke(app, ["admin", *arguments, "--store", address], prog_name="twigcast")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_tokens_made_beside_the_broker_are_known_to_it(store: Store, store_address: str) -> None:
    created = admin(store_address, "token", "create", "feeds", "--scope", "publish", "-s", "subscribe")
    assert created.exit_code == 0
    secret = created.stdout.strip()
    assert re.fullmatch(r"tc_[\w-]{43}", secret)
    token = store.token_by_digest(hashlib.sha256(secret.encode()).digest())
    assert token is not None
    assert (token.name, token.tenant_id, token.scopes) == ("feeds", 1, frozenset(map(Scope, ("publish", "subscribe"))))
    listed = admin(store_address, "token", "list").stdout
    assert re.search(r"1 +default +publish,subscribe +20\S+ +feeds", listed)
    assert secret not in listed
    assert json.loads(admin(store_address, "token", "list", "--json").stdout)["name"] == "feeds"
    assert admin(store_address, "token", "revoke", "1").exit_code == 0
    assert store.tokens(1) == []
    again = admin(store_address, "token", "revoke", "1")
    assert (again.exit_code, again.stderr) == (2, "twigcast: there is no such token\n")


def test_tenants(store: Store, store_address: str) -> None:
    created = admin(
        store_address, "tenant", "create", "press", "--limit", "subscriptions_max=5", "--limit", "sources_max=0"
    )
    assert created.exit_code == 0
    assert [(t.name, t.limits) for t in store.tenants()] == [
        ("default", {}),
        ("press", {"subscriptions_max": 5, "sources_max": 0}),
    ]
    assert "press    sources_max=0 subscriptions_max=5" in admin(store_address, "tenant", "list").stdout
    assert admin(store_address, "token", "create", "t", "-s", "admin", "--tenant", "press").exit_code == 0
    assert [t.name for t in store.tokens(2)] == ["t"]
    taken = admin(store_address, "tenant", "create", "press")
    assert (taken.exit_code, taken.stderr) == (2, "twigcast: there is a tenant 'press' already\n")
    unknown = admin(store_address, "token", "create", "t", "-s", "admin", "--tenant", "nobody")
    assert (unknown.exit_code, unknown.stderr) == (2, "twigcast: there is no tenant 'nobody'\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("token", "create", "x", "--scope", "everything"),
        ("tenant", "create", "x", "--limit", "nonsense=1"),
        ("tenant", "create", "x", "--limit", "subscriptions_max=many"),
        ("tenant", "create", "x", "--limit", "subscriptions_max"),
    ],
)
def test_bad_usage(store: Store, store_address: str, arguments: tuple[str, ...]) -> None:
    assert admin(store_address, *arguments).exit_code == 2
    assert (len(store.tenants()), store.tokens(1)) == (1, [])


def test_clock_and_key(store: Store, store_address: str) -> None:
    assert admin(store_address, "clock").output == "retention went by no time yet\n"
    assert admin(store_address, "clock", "--confirm").output[:2] == "20"
    assert store.clock_mark() is not None
    key = CliRunner().invoke(app, ["admin", "key"], prog_name="twigcast")
    assert len(key.output.strip()) == 44


def test_counts(store: Store, store_address: str) -> None:
    (one,) = subscribe(store, "one")
    deliver(store, publish(store, 3, xml=b"12345"), [one])
    result = json.loads(admin(store_address, "stats", "--json", "--tenant", "default").stdout)
    assert result == {
        "store": store.url,
        "messages": 3,
        "rejected": 0,
        "subscriptions": 1,
        "lanes": 1,
        "pending": 3,
        "dead_letters": 0,
        "bytes": 15,
    }
    assert re.search(r"^ +pending +3$", admin(store_address, "stats").stdout, re.MULTILINE)


def test_backup_and_restore(store_address: str, open_again: Callable[[], Store], tmp_path: Path) -> None:
    store = open_again()
    publish(store, 3)
    backup = str(tmp_path / "backup")
    assert admin(store_address, "backup", backup).exit_code == 0
    publish(store, 3)
    running = admin(store_address, "restore", backup, "--overwrite")
    assert running.exit_code == 2
    assert "another broker works on" in running.stderr
    store.close()
    refused = admin(store_address, "restore", backup)
    assert refused.exit_code == 2
    assert "overwrite it" in refused.stderr
    assert admin(store_address, "restore", backup, "--overwrite").exit_code == 0
    assert admin(store_address, "vacuum").exit_code == 0
    assert open_again().last_seq() == 3


def test_no_store_is_made_by_looking_at_it(tmp_path: Path) -> None:
    for command in (("stats",), ("vacuum",), ("backup", str(tmp_path / "b")), ("token", "list"), ("tenant", "list")):
        result = admin(str(tmp_path / "typo"), *command)
        assert (result.exit_code, result.stderr) == (2, f"twigcast: there is no store in {tmp_path}/typo\n")
    assert list(tmp_path.iterdir()) == []


def test_the_store_is_found_as_the_broker_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(tmp_path / "here").close()
    monkeypatch.setenv("TWIGCAST_STORE", str(tmp_path / "here"))
    result = CliRunner().invoke(app, ["admin", "tenant", "list", "--json"], prog_name="twigcast")
    assert json.loads(result.stdout)["name"] == "default"
    (tmp_path / "broker.toml").write_text(f'store = "{tmp_path}/elsewhere"\n')
    monkeypatch.delenv("TWIGCAST_STORE")
    result = CliRunner().invoke(app, ["admin", "stats", "-c", str(tmp_path / "broker.toml")], prog_name="twigcast")
    assert (result.exit_code, result.stderr) == (2, f"twigcast: there is no store in {tmp_path}/elsewhere\n")
