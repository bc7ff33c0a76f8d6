"""Settings: where they come from, and that a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from twigcast.broker.config import ConfigError, Settings, TenantLimits, load
from twigcast.broker.model import Tenant


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"TWIGCAST_{name.upper()}", raising=False)


def test_flags_win_over_the_environment_over_the_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(
        'host = "10.0.0.1"\nport = 1\nstore = "file"\ntrusted_hosts = ["a.example"]\nallow_private_urls = true\n'
    )
    monkeypatch.setenv("TWIGCAST_PORT", "2")
    monkeypatch.setenv("TWIGCAST_STORE", "environment")
    monkeypatch.setenv("TWIGCAST_TRUSTED_HOSTS", "b.example, c.example")
    settings = load({"store": "flag"}, file)
    assert (settings.host, settings.port, settings.store) == ("10.0.0.1", 2, "flag")
    assert settings.trusted_hosts == ("b.example", "c.example")
    assert settings.allow_private_urls is True
    assert settings.log_level == "info"


def test_the_defaults_are_safe() -> None:
    settings = load()
    assert settings.host == "127.0.0.1"
    assert not settings.allow_private_urls
    assert not settings.metrics_public
    assert settings.otel_endpoint is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("port = 70000", "'port' (in {file})"),
        ("prot = 1", "no setting 'prot' (in {file})"),
        ("port = [1]", "'port' (in {file})"),
        ('log_level = "loud"', "'log_level' (in {file})"),
        ('public_url = "news.example.org"', "'public_url' (in {file})"),
        ("port = ", "{file}: it is no TOML"),
        ("[broker]\nport = 1", "no setting 'broker'"),
    ],
)
def test_a_wrong_setting_of_the_file_is_named(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(None, file)
    assert told.format(file=file) in str(refused.value)


def test_a_wrong_setting_of_the_environment_or_a_flag_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'port' \\(on the command line\\)"):
        load({"port": "x"})
    with pytest.raises(ConfigError, match="no setting 'prot' \\(on the command line\\)"):
        load({"prot": 1})
    monkeypatch.setenv("TWIGCAST_BODY_BYTES_MAX", "-1")
    with pytest.raises(ConfigError, match="'body_bytes_max' \\(TWIGCAST_BODY_BYTES_MAX\\)"):
        load()
    with pytest.raises(ConfigError, match="cannot be read"):
        load(None, tmp_path / "nope.toml")


def test_the_example_in_the_documentation_is_right(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "reference" / "broker-configuration.md").read_text(encoding="utf-8")
    file = tmp_path / "twigcast.toml"
    file.write_text(page.split("```toml\n")[1].split("```")[0])
    assert load(None, file).retention_seconds == 259_200
    for name in TenantLimits.model_fields:
        assert f"`{name}`" in page


def test_every_setting_is_described() -> None:
    for name, field in Settings.model_fields.items():
        assert (field.description or "").endswith((".", "`")), name


def test_limits_of_a_tenant() -> None:
    settings = load({"subscriptions_max": 7, "streams_max": 8})
    limits = settings.limits_of(Tenant(2, "t", {"streams_max": 9, "unknown_to_this_version": 1}))
    assert (limits.subscriptions_max, limits.streams_max) == (7, 9)
    assert settings.engine_limits.message_bytes_max == settings.body_bytes_max
