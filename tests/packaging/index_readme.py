"""Makes the links of README.md absolute before a release is built: index_readme.py ADDRESS.

A package index shows README.md without the files beside it, so that its links would lead nowhere. ADDRESS is where the
files of the release are shown, such as https://HOST/OWNER/NAME/blob/v0.2.0.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
RELATIVE = re.compile(r"\]\((?![a-z]+:|#|/)([^)]+)\)")


def absolute(text: str, address: str) -> str:
    """Returns a text whose links to files beside it lead to the address."""
    return RELATIVE.sub(lambda link: f"]({address.rstrip('/')}/{link[1]})", text)


if __name__ == "__main__":
    README.write_text(absolute(README.read_text(encoding="utf-8"), sys.argv[1]), encoding="utf-8")
