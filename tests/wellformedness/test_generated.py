"""Documents made by grammar, well-formed or nearly so, in many encodings: the same answer and events as expat's."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c.d-1", "_x", "é", "日本", "xml", "Ünï"])
PREFIXES = st.sampled_from(["", "", "", "p:", "q:", "xml:", "z:"])
URIS = st.sampled_from(["u", "v", "u&amp;v", "&#117;", " u ", "", "http://www.w3.org/XML/1998/namespace"])
SPACES = st.sampled_from([" ", "\n", "\t ", "\r\n", "  "])
TEXTS = st.sampled_from(
    [
        "x",
        " ",
        "\n",
        "\r\n",
        "\r",
        "]]",
        "]",
        ">",
        "é",
        "日本語",
        "😀",
        "&lt;",
        "&amp;",
        "&#13;",
        "&#x41;",
        "&#xE9;",
        "\t",
    ]
)
RARE_TEXTS = st.sampled_from(["]]>", "&e;", "&", "&#0;", "<", "\x01", "&e", "\x7f", "\x85", "&long;", "&markup;"])
QUOTABLE = st.sampled_from(
    ["x", " ", "\t", "\n", "\r\n", "é", "&lt;", "&#10;", "&#x9;", ">", "]]>", "日", "&quot;", "'"]
)
PSEUDO_TEXT = st.sampled_from(["x", "-", "- ", "é", "<a>", "&", "]]", "\r\n", "?", " "])


def joined(parts: st.SearchStrategy[str], size: int = 4) -> st.SearchStrategy[str]:
    return st.lists(parts, max_size=size).map("".join)


TEXT = joined(st.one_of(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, RARE_TEXTS))
VALUE = joined(QUOTABLE, 3)
COMMENT = joined(PSEUDO_TEXT, 3).map(lambda inside: f"<!--{inside}-->")
INSTRUCTION = st.builds(
    lambda target, inside: f"<?{target} {inside}?>", st.sampled_from(["p", "t-1"]), joined(PSEUDO_TEXT, 3)
)
CDATA = joined(st.one_of(PSEUDO_TEXT, TEXTS), 3).map(lambda inside: f"<![CDATA[{inside}]]>")


@st.composite
def attribute(draw: st.DrawFn) -> str:
    value = draw(VALUE)
    quote = "'" if "'" not in value and draw(st.booleans()) else '"'
    name = draw(st.sampled_from(["", "", "", "p:", "q:", "xml:"])) + draw(NAMES)
    equals = draw(st.sampled_from(["=", "=", "=", " = ", "\n="]))
    return f"{draw(SPACES)}{name}{equals}{quote}{value}{quote}"


@st.composite
def declaration(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(["xmlns", "xmlns:p", "xmlns:q", "xmlns:z"]))
    uri = draw(URIS)
    return f'{draw(SPACES)}{name}="{uri}"'


@st.composite
def element(draw: st.DrawFn, content: st.SearchStrategy[str]) -> str:
    name = draw(PREFIXES) + draw(NAMES)
    attributes = draw(st.lists(attribute(), max_size=3, unique=True)) + draw(st.lists(declaration(), max_size=2))
    start = f"<{name}{''.join(attributes)}{draw(st.sampled_from(['', '', ' ', chr(10)]))}"
    inside = draw(joined(content, 4))
    if not inside and draw(st.booleans()):
        return f"{start}/>"
    return f"{start}>{inside}</{name}{draw(st.sampled_from(['', '', ' ']))}>"


CONTENT = st.recursive(
    st.one_of(TEXT, COMMENT, INSTRUCTION, CDATA), lambda inner: st.one_of(TEXT, element(inner)), max_leaves=10
)

SUBSETS = st.sampled_from(
    [
        "<!ENTITY e 'x'>",
        "<!ENTITY e 'x&#38;amp;y'><!ENTITY long '&e;&e;é'>",
        "<!ENTITY e '1'><!ENTITY markup '<m>&e;</m>2'>",
        "<!ENTITY markup '<![CDATA[<]]>&#60;n/>'>",
        "<!-- subset --><?p subset?><!ENTITY e ''>",
        "<!ATTLIST a d CDATA 'é&#10;' t NMTOKENS '  1   2 '>",
        "<!ATTLIST a xmlns CDATA 'u' xmlns:z CDATA 'v'>",
        "<!ATTLIST b a NMTOKEN #IMPLIED><!ELEMENT a ANY>",
        "<!ENTITY e SYSTEM 'file:///nowhere'>",
        "<!ENTITY % pe 'x'><!NOTATION n SYSTEM 'n'><!ENTITY e SYSTEM 'u' NDATA n>",
        "<!ENTITY e '&e;'>",
        "<!ENTITY e '<open>'>",
        "<!ENTITY a:b 'x'>",
    ]
)
DOCTYPES = st.one_of(
    st.sampled_from(["<!DOCTYPE a>", "<!DOCTYPE a SYSTEM 'x'>", "<!DOCTYPE p:a PUBLIC 'x' \"y\" >"]),
    st.lists(SUBSETS, min_size=1, max_size=2).map(lambda declared: f"<!DOCTYPE a [{''.join(declared)}]>"),
    SUBSETS.map(lambda declared: f"<!DOCTYPE a SYSTEM 'x' [\n{declared}\n] >"),
)
MISC = st.one_of(st.just(""), SPACES, COMMENT, INSTRUCTION)


@st.composite
def document(draw: st.DrawFn) -> tuple[str, str]:
    """What precedes the encoding in the declaration, and what follows the declaration."""
    doctype = draw(st.one_of(st.just(""), st.just(""), DOCTYPES))
    root = draw(element(CONTENT))
    if draw(st.integers(0, 9)):
        # Most documents declare the prefixes that they use.
        end = min(at for at in (root.find(c) for c in " \t\r\n/>") if at >= 0)
        declared = [name for name in ("p", "q", "z") if f"xmlns:{name}" not in root[: root.find(">")]]
        root = root[:end] + "".join(f' xmlns:{name}="{name}"' for name in declared) + root[end:]
    return draw(st.sampled_from(["", " standalone='yes'", ' standalone="no"'])), (
        f"{draw(MISC)}{doctype}{draw(MISC)}{root}{draw(MISC)}{draw(MISC)}"
    )


UNICODE_FORMS = st.sampled_from(
    ["utf-8", "utf-8 with mark", "utf-16le with mark", "utf-16be with mark", "utf-16le", "utf-16be"]
)


@given(document(), UNICODE_FORMS, st.booleans())
def test_unicode_documents_read_as_with_expat(
    same_reading: Callable[..., Any], parts: tuple[str, str], form: str, declared: bool
) -> None:
    standalone, body = parts
    codec, _, mark = form.partition(" ")
    name = "UTF-8" if codec == "utf-8" else "UTF-16"
    text = f"<?xml version='1.0' encoding='{name}'{standalone}?>{body}" if declared else body
    if codec == "utf-8" and not declared and standalone:
        text = f"<?xml version='1.0'{standalone}?>{body}"
    same_reading((("\ufeff" if mark else "") + text).encode(codec))


LEGACY_ENCODINGS = st.sampled_from(
    [
        *["ISO-8859-1", "us-ascii", "iso-8859-7", "windows-1252", "ISO-8859-15", "koi8-r"],
        *["GB2312", "big5", "EUC-KR", "shift_jis", "euc-jp", "iso-2022-jp"],
    ]
)


@given(document(), LEGACY_ENCODINGS)
def test_other_encodings_read_as_their_text_with_expat(
    twigcast_reading: Callable[[bytes], Any],
    expat_reading: Callable[[bytes], Any],
    parts: tuple[str, str],
    encoding: str,
) -> None:
    standalone, body = parts
    # Characters that the encoding lacks are dropped, so that names stay names.
    body = body.encode(encoding, "ignore").decode(encoding)
    ours = twigcast_reading(f"<?xml version='1.0' encoding='{encoding}'{standalone}?>{body}".encode(encoding))
    theirs = expat_reading(f"<?xml version='1.0'{standalone}?>{body}".encode())
    assert ours.accepted == theirs.accepted, (ours.reason, theirs.reason)
    assert ours.events == theirs.events


@given(document())
def test_every_fourth_prefix_is_rejected_or_whole(same_reading: Callable[..., Any], parts: tuple[str, str]) -> None:
    """Cut anywhere, a message is rejected, or was whole already but for what may follow the root element."""
    message = parts[1].encode()
    for end in range(0, len(message), 4):
        same_reading(message[:end])
