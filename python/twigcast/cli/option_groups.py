"""Groups of options that several commands take: a command declares one parameter, and has an option for each field."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

R = TypeVar("R")


class OptionGroup:
    """The base of dataclasses whose fields are options, with their annotations and defaults."""

    __slots__ = ()


def expanded(command: Callable[..., R]) -> Callable[..., R]:
    """Returns a command that takes each field of its groups of options by itself, where the group stood."""
    groups: dict[str, list[dataclasses.Field[Any]]] = {}
    makers: dict[str, Callable[..., object]] = {}
    parameters: list[inspect.Parameter] = []
    annotations = get_type_hints(command, include_extras=True)
    for parameter in inspect.signature(command).parameters.values():
        annotation = annotations[parameter.name]
        if isinstance(annotation, type) and issubclass(annotation, OptionGroup):
            makers[parameter.name] = annotation
            groups[parameter.name] = list(dataclasses.fields(annotation))  # type: ignore[arg-type]
            options = get_type_hints(annotation, include_extras=True)
            parameters += [
                inspect.Parameter(
                    one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=options[one.name]
                )
                for one in groups[parameter.name]
            ]
        else:
            # Commands are called by names of options, so that defaults may stand in any order.
            parameters.append(parameter.replace(annotation=annotation, kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**values: Any) -> R:
        made = {
            name: makers[name](**{one.name: values.pop(one.name) for one in fields}) for name, fields in groups.items()
        }
        return command(**values, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run
