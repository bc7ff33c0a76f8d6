"""Profiles: what a source's messages say of themselves, and where."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from twigcast.errors import InvalidContext, LifecycleProfileError, ReadOptionError, SourceError
from twigcast.lifecycle.builtin import BUILTIN
from twigcast.reading.options import ReadOptions
from twigcast.subscription_items import checked_namespaces

NAME_CHARACTERS_MAX: Final = 100
"""How long the name of a profile may be."""

_LISTS: Final = ("identity", "inherit")
_TEXTS: Final = ("also", "refers", "version", "expires", "cancel", "end", "update", "apart", "item")


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleProfile:
    """A description of where the messages of a source say what they are. All paths start at the document.

    Raises:
        LifecycleProfileError: A part of it cannot be used.
    """

    name: str
    """The name of the profile. Sources whose profiles have the same name share their chains."""

    identity: tuple[str, ...]
    """Expressions whose first values, joined by commas, are the identity of the message. A message that lacks one of
    the values takes no part in life cycles."""

    also: str = ""
    """An expression whose values are further names by which other messages may refer to this one."""

    refers: str = ""
    """An expression whose values are the identities of earlier messages that this one replaces or cancels."""

    version: str = ""
    """The version of the message among those of its identity. A new version is an update; an older number or time is
    out of date. A message without a version is a new one if its content differs in more than white space. Without this
    expression, all messages of one identity count as the same message."""

    expires: str = ""
    """When it expires: the latest of these times."""

    cancel: str = ""
    """A condition: the message cancels the messages that it refers to, or the earlier one of its identity."""

    end: str = ""
    """A condition: the messages that it refers to, or the earlier one of its identity, have ended as expected."""

    update: str = ""
    """A condition: the message replaces those that it refers to, even if these come later. Without this condition, a
    message is an update if one of its identity, or one that it refers to, has come before."""

    apart: str = ""
    """A condition: the message takes no part in life cycles, such as an acknowledgement."""

    item: str = ""
    """Which elements of a document are messages by themselves, as for :attr:`ReadOptions.record`."""

    inherit: tuple[str, ...] = ()
    """Names of attributes and elements around an item that the item inherits: see :attr:`ReadOptions.inherit`."""

    follow: bool = False
    """Whether subscriptions that got a message get its updates and its end though these do not match."""

    withdraw_expired: bool = False
    """Whether expired messages are withdrawn where they are pending, and no longer delivered to anybody."""

    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Prefix to namespace, for all expressions."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", _texts(self, "identity"))
        object.__setattr__(self, "inherit", _texts(self, "inherit"))
        _check(self)

    @property
    def conditions(self) -> dict[str, str]:
        """The conditions of the profile by kind, in the order in which they are tested."""
        kinds = {"apart": self.apart, "cancel": self.cancel, "end": self.end, "update": self.update}
        return {kind: condition for kind, condition in kinds.items() if condition}

    def read_options(self, options: ReadOptions | None = None) -> ReadOptions:
        """Returns options that cut documents into the items of this profile, unless the options cut them already."""
        options = options or ReadOptions()
        if not self.item or options.cuts:
            return options
        return replace(options, record=self.item, inherit=options.inherit or self.inherit)

    def as_mapping(self) -> dict[str, object]:
        """Returns the mapping of which :func:`read_profile` makes this profile, without defaults."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        lists = {name: list(values[name]) for name in _LISTS}
        return {name: value for name, value in {**values, **lists}.items() if value}


def read_profile(profile: str | os.PathLike[str] | Mapping[str, object] | LifecycleProfile) -> LifecycleProfile:
    """Returns a profile: a known one by its name, one in a file (``.toml`` or ``.json``), or one as a mapping.

    A mapping has the names of :class:`LifecycleProfile`, and perhaps ``extends``, the name of a known profile from
    which everything else is taken.

    Raises:
        LifecycleProfileError: There is no such profile, or a part of it cannot be used. Its expressions are read by the
            :class:`~twigcast.lifecycle.facts.ProfileReader`.
        SourceError: The file cannot be read.
    """
    if isinstance(profile, LifecycleProfile):
        return profile
    if isinstance(profile, Mapping):
        return _of_mapping(profile)
    if isinstance(profile, str) and profile in BUILTIN:
        return _of_mapping({"name": profile, **BUILTIN[profile]})
    path = Path(profile)
    if path.suffix.lower() not in (".toml", ".json"):
        raise LifecycleProfileError(
            str(profile),
            "name",
            f"there is no such profile; there are {', '.join(BUILTIN)}, and files that end in .toml or .json",
        )
    return _of_mapping({"name": path.stem, **_read_file(path)})


def profile_text(profile: LifecycleProfile) -> str:
    """Returns a profile as one text: the name of a known one, or JSON."""
    if profile.name in BUILTIN and profile == read_profile(profile.name):
        return profile.name
    return json.dumps(profile.as_mapping(), ensure_ascii=False)


def profile_of_text(text: str) -> LifecycleProfile:
    """Returns the profile that :func:`profile_text` has written."""
    return read_profile(text if text in BUILTIN else json.loads(text))


def _read_file(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(str(path), f"the profile cannot be read: {error.strerror}") from error
    try:
        read = tomllib.loads(data.decode()) if path.suffix.lower() == ".toml" else json.loads(data)
    except ValueError as error:
        raise LifecycleProfileError(str(path), "file", f"it cannot be read: {error}") from error
    if not isinstance(read, dict):
        raise LifecycleProfileError(str(path), "file", "it must be an object with the parts of a profile")
    return read


def _of_mapping(mapping: Mapping[str, object]) -> LifecycleProfile:
    values = dict(mapping)
    name = values.get("name")
    if not isinstance(name, str):
        raise LifecycleProfileError("profile", "name", "a profile needs a name, which is a text")
    base = values.pop("extends", None)
    if base is not None:
        if not isinstance(base, str) or base not in BUILTIN:
            raise LifecycleProfileError(
                name, "extends", f"{base!r} is no known profile; there are {', '.join(BUILTIN)}"
            )
        values = {**BUILTIN[base], **values}
    parts = [one.name for one in fields(LifecycleProfile)]
    for part in values:
        if part not in parts:
            raise LifecycleProfileError(
                name, part, f"a profile has no such part; it has {', '.join(parts)} and extends"
            )
    if "identity" not in values:
        raise LifecycleProfileError(name, "identity", "it is missing: say where a message says which one it is")
    return LifecycleProfile(**values)  # type: ignore[arg-type]


def _texts(profile: LifecycleProfile, part: str) -> tuple[str, ...]:
    value: object = getattr(profile, part)
    texts = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else (None,)
    if not all(isinstance(text, str) for text in texts):
        raise LifecycleProfileError(str(profile.name), part, "it must be a text, or a list of texts")
    return texts


def _check(profile: LifecycleProfile) -> None:
    """Raises an error unless all parts have their types; the engine reads the expressions later."""
    name = profile.name
    if not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise LifecycleProfileError(name, "name", f"it must be a text of 1 to {NAME_CHARACTERS_MAX} characters")
    for part in _TEXTS:
        if not isinstance(getattr(profile, part), str):
            raise LifecycleProfileError(name, part, "it must be a text")
    for part, value in (("follow", profile.follow), ("withdraw_expired", profile.withdraw_expired)):
        if not isinstance(value, bool):
            raise LifecycleProfileError(name, part, "it must be true or false")
    if not all(profile.identity) or not profile.identity:
        raise LifecycleProfileError(name, "identity", "it needs at least one expression, and none may be empty")
    try:
        profile.read_options()
    except ReadOptionError as error:
        raise LifecycleProfileError(name, "item" if error.option == "record" else error.option, error.reason) from error
    try:
        object.__setattr__(profile, "namespaces", checked_namespaces(profile.namespaces))
    except (InvalidContext, TypeError) as error:
        raise LifecycleProfileError(name, "namespaces", str(error)) from error
