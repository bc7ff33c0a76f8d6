"""Saxon as an oracle of XPath conditions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

saxonche = pytest.importorskip("saxonche", reason="Saxon (the package saxonche) is not installed")


class Saxon:
    """The oracle."""

    def __init__(self) -> None:
        self.processor = saxonche.PySaxonProcessor(license=False)

    def answers(self, xml: str, queries: list[str], namespaces: Mapping[str, str] | None = None) -> list[bool]:
        """Whether each query is true of a message."""
        runner = self.processor.new_xpath_processor()
        for prefix, uri in (namespaces or {}).items():
            runner.declare_namespace(prefix, uri)
        runner.set_context(xdm_item=self.processor.parse_xml(xml_text=xml))
        return [runner.effective_boolean_value(query) for query in queries]


@cache
def saxon() -> Saxon:
    """The oracle of this process: Saxon ends the process if another thread frees its processor, as a collector may."""
    return Saxon()
