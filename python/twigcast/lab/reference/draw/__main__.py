"""``python -m twigcast.lab.reference.draw FOLDER``: redraw the pages in a folder."""

import sys
from pathlib import Path

from twigcast.lab.reference.draw import redraw


def main() -> int:
    """Draws everything again, and names the files that have changed."""
    for name in redraw(Path(sys.argv[1]), write=True):
        sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
