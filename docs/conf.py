"""Sphinx configuration: `make docs`."""

import sys
from pathlib import Path

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
