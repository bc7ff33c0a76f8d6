"""What can be wrong with a body that came over a link."""

from __future__ import annotations

from twigcast.overlay.errors import OverlayError


class WireError(OverlayError):
    """A body that cannot be read in the form that it is said to have.

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


class UnknownDictionary(OverlayError):
    """A stream whose names have their numbers from a dictionary that this broker does not know.

    Args:
        dictionary_id: The dictionary's id.
    """

    code = "unknown-dictionary"

    def __init__(self, dictionary_id: int) -> None:
        super().__init__(dictionary_id)
        self.dictionary_id = dictionary_id

    def __str__(self) -> str:
        return (
            f"the dictionary {self.dictionary_id:016x} is not known here yet: "
            "its source's schema has to reach this broker with the catalogue first"
        )
