"""The directive ``command-help``: what ``twigcast COMMAND --help`` says, so that no page can drift from it."""

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from typer.testing import CliRunner

from twigcast.cli import app


class CommandHelp(Directive):
    """``{command-help} generate queries``."""

    required_arguments: ClassVar[int] = 1
    final_argument_whitespace: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        """The help text as it is."""
        result = CliRunner().invoke(app, [*self.arguments[0].split(), "--help"], prog_name="twigcast")
        if result.exit_code:
            raise self.error(f"twigcast {self.arguments[0]} --help failed: {result.output}")
        return [nodes.literal_block(result.output, result.output, language="text")]


def setup(app: Any) -> dict[str, bool]:
    """Register the directive with Sphinx."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
