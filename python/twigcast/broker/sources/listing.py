"""Messages in a folder on a web server: the links of its index page, or a list of names, one a line."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from twigcast.broker.delivery.addresses import origin_of

_SUFFIXES: Final = (".xml", ".xml.gz")
LINKS_MAX: Final = 100_000


def find_links(page: bytes, url: str, media_type: str) -> list[str]:
    """Returns the URLs of XML files in the folder of ``url`` or below it, in the order of the page, each once.

    Args:
        page: An index page in HTML, or names, one a line.
        url: The address of the page, after redirects.
        media_type: Its media type according to the server.
    """
    text = page.decode("utf-8", "replace")
    looks_like_html = "html" in media_type or text.lstrip()[:1] == "<"
    references = _anchors(text) if looks_like_html else [line.strip() for line in text.splitlines()]
    folder = url.rpartition("/")[0] + "/"
    results: dict[str, None] = {}
    for reference in references:
        link = _resolved(reference, url)
        if link is not None and link.startswith(folder) and urlsplit(link).path.lower().endswith(_SUFFIXES):
            results[link] = None
        if len(results) >= LINKS_MAX:
            break
    return list(results)


def name_in_folder(link: str, url: str) -> str:
    """Returns the id of the message behind a link: its path relative to the folder."""
    folder = url.rpartition("/")[0] + "/"
    return unquote(link.removeprefix(folder))


def _resolved(reference: str, url: str) -> str | None:
    try:
        link = urljoin(url, reference)
        parts = urlsplit(link)
    except ValueError:
        return None
    return urlunsplit(parts._replace(fragment="")) if origin_of(link) == origin_of(url) else None


def _anchors(text: str) -> list[str]:
    parser = _Anchors()
    parser.feed(text)
    parser.close()
    return parser.references


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.references += [value for name, value in attrs if name == "href" and value]
