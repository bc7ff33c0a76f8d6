"""Returns the command that adds an extra to this installation of Twigcast. All advice on installing takes it from here.

`PUBLISHED` says whether package indexes have Twigcast. Until they do, no text advises installing from an index, where
the name could belong to somebody else. tests/test_installing.py checks all texts.
"""

from __future__ import annotations

from typing import Any, Final

PUBLISHED: Final = False
"""Whether Twigcast is in the package index that pip asks."""


def install_line(extra: str) -> str:
    """Returns the command that adds an extra to the installation that is running.

    It names the checkout, the file or the address that Twigcast was installed from, as pip recorded it.
    """
    # These modules are slow to import, and are needed only if something is missing.
    import json
    from importlib import metadata
    from pathlib import Path

    try:
        distribution = metadata.distribution("twigcast")
    except metadata.PackageNotFoundError:
        # Run from its sources without having been installed.
        return f"pip install --editable '{Path(__file__).resolve().parents[2]}[{extra}]'"
    recorded = distribution.read_text("direct_url.json")
    if recorded is not None:
        return _from_origin(json.loads(recorded), extra)
    if PUBLISHED:
        return f"pip install 'twigcast[{extra}]'"
    # The version that is installed satisfies this, so pip fetches only the packages of the extra.
    return f"pip install 'twigcast[{extra}]=={distribution.version}'"


def _from_origin(origin: dict[str, Any], extra: str) -> str:
    """Returns the command for an installation from elsewhere than an index, by what PEP 610 records of it."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    url = origin["url"]
    if "vcs_info" in origin:
        source = origin["vcs_info"]
        return f"pip install 'twigcast[{extra}] @ {source['vcs']}+{url}@{source['commit_id']}'"
    if not url.startswith("file:"):
        return f"pip install 'twigcast[{extra}] @ {url}'"
    path = url2pathname(urlsplit(url).path)
    editable = "--editable " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{path}[{extra}]'"
