"""Secrets at rest: sealed with a key that is not in the store, so that a copy of the store gives nobody the secrets.

A sealed text is a token of Fernet (AES-128-CBC with HMAC-SHA256) behind a mark. Of several keys the first one seals,
and all of them open: a new key is put before the old one, and the next start of the broker seals everything with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from twigcast.broker.errors import SecretsSealed
from twigcast.errors import MissingExtra

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

_SEALED: Final = "sealed:"
_OPEN: Final = "open:"
"""The mark of a text that is not sealed, although it begins like one."""

_KEY_HINT: Final = "a key is what `twigcast admin key` prints: 32 bytes as 44 characters of URL-safe base64"


class Sealer:
    """A sealer of secrets; without keys it leaves them as they are."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._keys = [_fernet(key) for key in keys]

    @property
    def has_key(self) -> bool:
        """Returns whether secrets are sealed."""
        return bool(self._keys)

    def seal(self, secret: str | None) -> str | None:
        """Returns a secret as it is stored."""
        if secret is None:
            return None
        if self._keys:
            return _SEALED + self._keys[0].encrypt(secret.encode()).decode()
        return _OPEN + secret if secret.startswith((_SEALED, _OPEN)) else secret

    def open(self, stored: str | None) -> str | None:
        """Returns a stored secret as it was; raises SecretsSealed if no key opens it."""
        if stored is None or not stored.startswith((_SEALED, _OPEN)):
            return stored
        if stored.startswith(_OPEN):
            return stored.removeprefix(_OPEN)
        from cryptography.fernet import InvalidToken

        token = stored.removeprefix(_SEALED).encode()
        for key in self._keys:
            try:
                return key.decrypt(token).decode()
            except InvalidToken:
                continue
        raise SecretsSealed.of(has_key=self.has_key)

    def is_current(self, stored: str | None) -> bool:
        """Returns whether a secret is stored as :meth:`seal` would store it now."""
        if stored is None or not self._keys:
            return stored is None or not stored.startswith(_SEALED)
        if not stored.startswith(_SEALED):
            return False
        from cryptography.fernet import InvalidToken

        try:
            self._keys[0].decrypt(stored.removeprefix(_SEALED).encode())
        except InvalidToken:
            return False
        return True


def _fernet(key: str) -> Fernet:
    try:
        from cryptography.fernet import Fernet
    except ImportError as error:
        raise MissingExtra(error.name or "cryptography", "broker") from error
    try:
        return Fernet(key)
    except ValueError:
        raise SecretsSealed(f"a key for the secrets of the store cannot be used; {_KEY_HINT}") from None


def new_key() -> str:
    """Returns a new random key."""
    try:
        from cryptography.fernet import Fernet
    except ImportError as error:
        raise MissingExtra(error.name or "cryptography", "broker") from error
    return Fernet.generate_key().decode()


def read_keys(text: str | None, file: Path | None) -> list[str]:
    """Returns keys from a text, separated by commas or white space, and from the lines of a file; raises SecretsSealed.

    Empty lines of the file, and those that begin with ``#``, do not count.
    """
    keys = [] if text is None else text.replace(",", " ").split()
    if file is not None:
        try:
            lines = file.read_text(encoding="ascii").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            what = getattr(error, "strerror", None) or "it is no text"
            raise SecretsSealed(f"the keys of the store cannot be read from {file}: {what}") from None
        found = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not found:
            raise SecretsSealed(f"there is no key in {file}; {_KEY_HINT}")
        keys += found
    return keys
