"""The error of a body that came over a link."""

from __future__ import annotations

from twigcast.overlay.errors import OverlayError


class WireError(OverlayError):
    """A body that cannot be read in the form that it claims to have.

    Args:
        form: Name of the form.
        reason: What is wrong with it.
    """

    code = "wire-error"

    def __init__(self, form: str, reason: str) -> None:
        super().__init__(form, reason)
        self.form = form
        self.reason = reason

    def __str__(self) -> str:
        return f"a message in the form {self.form!r} cannot be read: {self.reason}"
