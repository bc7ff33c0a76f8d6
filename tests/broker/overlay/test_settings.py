"""How a broker is told to be part of an overlay, and what is refused before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.overlay.onyx.network.network_fakes import certificates
from twigcast.broker.config import ConfigError, load
from twigcast.broker.overlay.settings import OverlaySettings
from twigcast.overlay.onyx.network.tls import Target


def of(**settings: Any) -> OverlaySettings | None:
    return OverlaySettings.of(load(settings))


def test_a_broker_is_part_of_no_overlay_by_default() -> None:
    assert of() is None
    assert of(overlay_identity="north") is None


def test_settings_without_certificates_on_one_machine() -> None:
    result = of(join="127.0.0.1:7401, grpc://localhost:7402", overlay_listen="[::1]:0", overlay_identity="north")
    assert result is not None
    assert result.join == (Target("127.0.0.1", 7401, secure=False), Target("localhost", 7402, secure=False))
    assert (result.name, result.listen, result.certificates) == ("north", ("::1", 0), None)


def test_forms_are_named_for_all_or_for_one() -> None:
    result = of(overlay_listen="127.0.0.1:0", overlay_forms="dictionary+zstd, stream,south=text")
    assert result is not None
    assert result.forms.of("north") == ("dictionary+zstd", "stream", "text")
    assert result.forms.of("south") == ("text",)
    default = of(overlay_listen="127.0.0.1:0")
    assert default is not None
    assert default.forms.of("north") == ("text",)


def test_with_certificates_others_are_reached(tmp_path: Path) -> None:
    files = certificates(tmp_path, "north", trustme.CA())
    supplied = {
        "overlay_cert": str(files.certificate),
        "overlay_key": str(files.key),
        "overlay_ca": str(files.authority),
    }
    result = of(join="north.example.org:7400", overlay_listen="0.0.0.0:7400", **supplied)
    assert result is not None
    assert result.certificates == files
    assert result.join == (Target("north.example.org", 7400, secure=True),)
    other = certificates(tmp_path, "south", trustme.CA())
    with pytest.raises(ConfigError, match="do not fit together"):
        of(overlay_listen="0.0.0.0:7400", **{**supplied, "overlay_key": str(other.key)})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"join": "http://127.0.0.1:1"}, "'join' cannot be used.*grpcs://"),
        ({"join": "127.0.0.1"}, "'join' cannot be used.*no host with a port"),
        ({"join": "grpcs://127.0.0.1:1"}, "wants certificates"),
        ({"join": "192.0.2.1:7400"}, "links over 192.0.2.1 need certificates"),
        ({"overlay_listen": "0.0.0.0:7400"}, "links over 0.0.0.0 need certificates"),
        ({"overlay_listen": "127.0.0.1:0", "overlay_forms": "morse"}, "'overlay_forms' cannot be used.*dictionary"),
        ({"overlay_listen": "127.0.0.1:0", "overlay_forms": "=text"}, "'overlay_forms' cannot be used"),
        ({"overlay_listen": "7400"}, "'overlay_listen' cannot be used"),
        ({"overlay_listen": "127.0.0.1:0", "overlay_cert": "a.pem"}, "are to be given together"),
        ({"overlay_listen": "127.0.0.1:0", "overlay_identity": "two words"}, "'overlay_identity' cannot be used"),
        ({"overlay_listen": "127.0.0.1:0", "overlay_identity": "x" * 300}, "'overlay_identity' cannot be used"),
        (
            {"overlay_listen": "127.0.0.1:0", "overlay_cert": "a", "overlay_key": "b", "overlay_ca": "no-such.pem"},
            r"no-such\.pem: it cannot be read",
        ),
    ],
)
def test_what_cannot_be_used_is_named(settings: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        of(**settings)


def test_an_operator_may_insist() -> None:
    result = of(join="192.0.2.1:7400", overlay_listen="0.0.0.0:7400", overlay_insecure=True)
    assert result is not None
    assert result.certificates is None
