"""Commands whose modules are imported when they are run: most of them belong to the broker or to the lab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import typer
import typer.core

_GAP: Final = 6
"""Characters around the names of commands in a list of them, which its summaries do without."""


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command, or a group of commands, in a module that is not imported yet."""

    register: Callable[[typer.Typer], None]
    """Imports the module, and adds its command to the command line."""

    summary: str
    """Its help in one line. A test compares it with the command's own help."""


class LazyGroup(typer.core.TyperGroup):
    """The commands of ``twigcast``: those that are imported already, and those of ``lazy``.

    A list of all commands shows the summaries of lazy ones and imports none of them.
    """

    lazy: ClassVar[dict[str, LazyCommand]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of all commands."""
        return [*super().list_commands(ctx), *self.lazy]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns the command of a name, ``None`` if there is none."""
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        alone = typer.Typer(rich_markup_mode=None)
        alone.callback()(_no_options)  # or a single command would not have its name
        self.lazy[cmd_name].register(alone)
        return typer.main.get_group(alone).get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the list of all commands."""
        names = self.list_commands(ctx)
        limit = formatter.width - _GAP - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, self.lazy[name].summary)
                    if name in self.lazy
                    else (name, self.get_command(ctx, name).get_short_help_str(limit))
                    for name in names
                ]
            )


def _no_options() -> None:
    """Takes no options."""
