"""Secrets at rest: sealed with keys from outside, changed keys, and files that others cannot read."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from twigcast.broker.config import ConfigError, load
from twigcast.broker.errors import SecretsSealed
from twigcast.broker.model import DeliverySettings, NewSubscription, StoredSubscription, WebSubRequest
from twigcast.broker.store.sealing import Sealer, new_key, read_keys
from twigcast.broker.store.store import Store, open_store

OLD, NEW = new_key(), new_key()
SECRET, PREVIOUS = "s3cret-of-the-hook-\u20ac", "the one before it"


def add_hook(store: Store) -> StoredSubscription:
    delivery = DeliverySettings("webhook", "https://hook.example/", SECRET, previous_secret=PREVIOUS)
    with store.transaction() as transaction:
        (added,) = transaction.add_subscriptions([NewSubscription(1, "hook", "//a", delivery=delivery)], at=0.0)
        transaction.add_websub_request(WebSubRequest("http://here/", {"hub.secret": [SECRET]}))
    assert isinstance(added, StoredSubscription)
    return added


def stored(store: Store) -> list[str]:
    """All secrets as they stand in the tables."""
    rows = store.rows("SELECT secret, previous_secret FROM subscriptions")
    forms = store.rows("SELECT form FROM websub_requests")
    urls = store.rows("SELECT secret FROM secrets")
    return [*rows[0], forms[0][0], bytes(urls[0][0]).decode("latin-1")]


def check_opened(store: Store, urls: bytes) -> None:
    found = store.subscription(1, "hook")
    assert found is not None
    assert (found.delivery.secret, found.delivery.previous_secret) == (SECRET, PREVIOUS)
    ((_, request),) = store.websub_requests()
    assert request.form["hub.secret"] == [SECRET]
    assert store.secret() == urls


def test_secrets_are_sealed_at_the_first_start_with_a_key_and_keys_change(store_address: str) -> None:
    store = open_store(store_address)
    add_hook(store)
    urls = store.secret()
    assert len(urls) == 32
    assert stored(store)[0] == SECRET, "without a key, as they are"
    store.close()
    for keys in ([OLD], [NEW, OLD], [NEW]):
        store = open_store(store_address, keys=keys)
        check_opened(store, urls)
        assert all(text.startswith("sealed:") for text in stored(store))
        assert all(Sealer(keys[:1]).is_current(text) for text in stored(store)), "by the first key"
        store.close()
    for wrong in ([], [OLD]):
        with pytest.raises(SecretsSealed, match="set TWIGCAST_SECRETS_KEY"):
            open_store(store_address, keys=wrong)
    store = open_store(store_address, keys=[NEW])
    check_opened(store, urls)
    store.close()


def test_a_new_secret_is_sealed_at_once(store_address: str) -> None:
    store = open_store(store_address, keys=[NEW])
    hook = add_hook(store)
    assert all(text.startswith("sealed:") for text in stored(store))
    with store.transaction() as transaction:
        changed = transaction.replace_subscription(
            hook.id,
            query="//b",
            namespaces={},
            dialect="xpath",
            params={},
            delivery=DeliverySettings("webhook", "https://hook.example/", "another"),
        )
    assert changed.delivery == DeliverySettings("webhook", "https://hook.example/", "another")
    assert stored(store)[0].startswith("sealed:")
    store.close()


def test_nothing_of_a_secret_is_left_in_the_files(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    add_hook(store)
    assert any(SECRET.encode() in path.read_bytes() for path in (tmp_path / "store").iterdir())
    store.close()
    store = open_store(tmp_path / "store", keys=[OLD])
    for path in (tmp_path / "store").iterdir():
        assert SECRET.encode() not in path.read_bytes(), path
        assert PREVIOUS.encode() not in path.read_bytes(), path
    store.close()


def test_a_secret_that_looks_sealed_is_kept_as_it_is() -> None:
    plain = Sealer()
    for secret in ("sealed:x", "open:y", "z", ""):
        assert plain.open(plain.seal(secret)) == secret
    assert plain.seal(None) is None


def test_keys_come_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# since spring\n{NEW}\n\n{OLD}\n")
    assert read_keys(None, file) == [NEW, OLD]
    assert read_keys(f"{NEW},{OLD}", None) == [NEW, OLD]
    monkeypatch.setenv("TWIGCAST_SECRETS_KEY", NEW)
    settings = load({"secrets_key_file": str(file)})
    assert settings.secrets_keys() == [NEW, NEW, OLD]
    assert NEW not in repr(settings)
    assert load({}).secrets_keys() == [NEW]
    file.write_text("# none\n")
    with pytest.raises(SecretsSealed, match="twigcast admin key"):
        read_keys(None, file)
    with pytest.raises(SecretsSealed, match="cannot be read"):
        read_keys(None, tmp_path / "missing")
    with pytest.raises(SecretsSealed, match="32 bytes"):
        Sealer(["too short"])
    with pytest.raises(ConfigError):
        load({"secret_key": NEW})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_others_cannot_read_a_new_store(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "store"
    store = open_store(folder)
    add_hook(store)
    assert mode(folder) == 0o700
    assert {mode(path) for path in folder.iterdir()} == {0o600}
    store.backup(tmp_path / "backup.db")
    assert mode(tmp_path / "backup.db") == 0o600
    store.close()


def test_an_existing_store_is_taken_from_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    open_store(folder).close()
    (folder / "twigcast.db").chmod(0o644)
    caplog.clear()
    store = open_store(folder)
    assert mode(folder / "twigcast.db") == 0o600
    assert mode(folder) == 0o755, "others may need what else is there"
    assert f"chmod 700 {folder}" in caplog.text
    assert "others could read" in caplog.text
    store.close()
    with sqlite3.connect(folder / "twigcast.db") as connection:
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    connection.close()
