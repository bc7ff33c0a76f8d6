"""Cuts the text of a message into pieces of one kind for display: parts of tags, text, comments and so on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""Characters that are invisible, or change the direction of text."""

Kind = Literal["start", "end", "empty", "text", "cdata", "comment", "pi", "doctype"]

_TOKEN: Final = re.compile(
    r"(?P<comment><!--.*?-->)"
    r"|(?P<cdata><!\[CDATA\[.*?\]\]>)"
    r"|(?P<pi><\?.*?\?>)"
    r"""|(?P<doctype><!DOCTYPE(?:[^\[>"']|"[^"]*"|'[^']*')*"""
    r"""(?:\[(?:<!--.*?-->|<\?.*?\?>|"[^"]*"|'[^']*'|[^\]"'])*+\]\s*)?>)"""
    r"|(?P<end></[^>]*>)"
    r"""|(?P<start><[^<>"'/!?](?:[^<>"']|"[^"]*"|'[^']*')*>)"""
    r"|(?P<text>[^<]+)"
    r"|(?P<other><)",
    re.DOTALL,
)

_IN_TAG: Final = re.compile(
    r"(?P<open></?)(?P<name>[^\s/>]+)"
    r"""|(?P<attribute>[^\s=/>"']+)(?P<equals>\s*=\s*)(?P<value>"[^"]*"|'[^']*')"""
    r"|(?P<rest>\s+|/?>|.)",
    re.DOTALL,
)


class MarkupToken(NamedTuple):
    """A token of a message: a tag, a run of text, a comment and so on."""

    kind: Kind
    start: int
    """Position in characters from 0."""
    text: str


class TokenPart(NamedTuple):
    """A part of a token that is shown in one way."""

    kind: str
    """``punctuation``, ``name``, ``attribute``, ``value``, ``text``, ``entity``, ``cdata``, ``comment``, ..."""
    start: int
    """Position in characters from 0."""
    text: str


def tokens(text: str) -> Iterator[MarkupToken]:
    """Yields the tokens of a message, which together are the message.

    It is well-formed, since the engine accepted it, so that a few regular expressions recognise the tokens. Anything
    else is text: nothing is ever lost or altered here.
    """
    for result in _TOKEN.finditer(text):
        kind = result.lastgroup
        if kind == "start" and result.group().endswith("/>"):
            kind = "empty"
        yield MarkupToken("text" if kind in (None, "other") else kind, result.start(), result.group())  # type: ignore[arg-type]


_ENTITY: Final = re.compile(r"&[^;\s]*;")


def parts(token: MarkupToken) -> Iterator[TokenPart]:
    """Yields the parts of a token, which together are the token."""
    if token.kind in ("start", "end", "empty"):
        yield from _tag_parts(token)
    elif token.kind == "text":
        yield from _text_parts(token)
    else:
        yield TokenPart(token.kind, token.start, token.text)


def _tag_parts(token: MarkupToken) -> Iterator[TokenPart]:
    for result in _IN_TAG.finditer(token.text):
        for kind in ("open", "name", "attribute", "equals", "value", "rest"):
            part = result.group(kind)
            if part:
                shown = kind if kind in ("name", "attribute", "value") else "punctuation"
                yield TokenPart(shown, token.start + result.start(kind), part)


def _text_parts(token: MarkupToken) -> Iterator[TokenPart]:
    at = 0
    for result in _ENTITY.finditer(token.text):
        if result.start() > at:
            yield TokenPart("text", token.start + at, token.text[at : result.start()])
        yield TokenPart("entity", token.start + result.start(), result.group())
        at = result.end()
    if at < len(token.text):
        yield TokenPart("text", token.start + at, token.text[at:])
