"""The directive ``broker-settings``: all settings of a broker, from where they are defined."""

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive

from twigcast.broker.config import ENVIRONMENT_PREFIX, Settings


def _text(text: str) -> list[nodes.Node]:
    """Text with `literal` parts."""
    parts = text.split("`")
    return [nodes.literal(part, part) if index % 2 else nodes.Text(part) for index, part in enumerate(parts)]


class BrokerSettings(Directive):
    """A list of all settings: name, default, what it does."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """The list."""
        found = nodes.definition_list()
        for name, field in Settings.model_fields.items():
            term = nodes.term("", "", nodes.literal(name, name))
            default = field.default
            shown = "none" if default is None else str(default).lower() if isinstance(default, bool) else f"{default}"
            if isinstance(default, tuple):
                shown = ", ".join(default) or "none"
            body = nodes.paragraph("", "", *_text(f"{field.description} Default: `{shown}`."))
            variable = nodes.paragraph("", "", *_text(f"Environment: `{ENVIRONMENT_PREFIX}{name.upper()}`"))
            found += nodes.definition_list_item("", term, nodes.definition("", body, variable))
        return [found]


def setup(app: Any) -> dict[str, bool]:
    """Register the directive with Sphinx."""
    app.add_directive("broker-settings", BrokerSettings)
    return {"parallel_read_safe": True}
