"""Sphinx configuration: `make docs`."""

import builtins
import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "Twigcast"
author = "The Twigcast authors"
project_copyright = author

extensions = [
    "broker_settings",
    "command_help",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "xpath_functions",
]
exclude_patterns = ["_extensions"]
html_theme = "furo"
html_title = "Twigcast"

myst_heading_anchors = 3
# Links to files outside of docs/ have no page here; some examples are broken XML on purpose.
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
autoclass_content = "class"

# `make man`: the page on the command line as a manual page.
man_pages = [("reference/command-line", "twigcast", "deliver XML messages to those who subscribe to them", [author], 1)]
man_show_urls = True


def leave_builtins(_app: Sphinx, document: nodes.document) -> None:
    """Makes no links of the names of built-in types in signatures: `bytes` is no field of that name in some class."""
    for reference in list(document.findall(pending_xref)):
        if reference.get("refdomain") == "py" and hasattr(builtins, reference["reftarget"]):
            reference.replace_self(reference.children)


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("doctree-read", leave_builtins)
