"""Random messages and queries that collide often: few names, few values, deep recursion.

:class:`Generator` draws from any ``random.Random``: a seeded one for long runs, Hypothesis' own for tests that shrink
(:func:`messages`, :func:`queries`). A message holds everything that a feed may (mixed content, namespaces rebound on
the way down, comments, CDATA, processing instructions, references, CR LF); queries use every axis but ``namespace``,
every operator and every core function.

What libxml2 answers otherwise than the Recommendation is never generated, so that lxml can judge every pair: numbers
with exponents, ``following`` and ``preceding`` of attributes, namespace nodes. These have tests of their own in
``tests/corpus/xpath``.
"""

from __future__ import annotations

from random import Random
from xml.sax.saxutils import quoteattr

from hypothesis import strategies as st

NAMESPACES = {"p": "urn:one", "q": "urn:two"}
"""Prefixes that generated queries use. Messages bind them too, now and then to other URIs."""

NAMES = ("a", "b", "c", "d")
ATTRIBUTES = ("x", "y", "id")
VALUES = ("1", "2", "10", "1.5", "-3", "02", "a", "b", "ab", "A", " a ", "x  y", "", "1 2", "é")
LANGUAGES = ("en", "en-GB", "EN-us", "de", "")
URIS = ("urn:one", "urn:two", "urn:three")

COMPARISONS = ("=", "=", "!=", "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*", "div", "mod")
NUMBERS = ("0", "1", "2", "3", "10", "1.5", "-1", ".5")
ODD_NUMBERS = (*NUMBERS, "1 div 0", "-1 div 0", "0 div 0", "-0.5")
FORWARD_AXES = ("descendant", "descendant-or-self", "self")
OTHER_AXES = (
    "parent",
    "ancestor",
    "ancestor-or-self",
    "following",
    "preceding",
    "following-sibling",
    "preceding-sibling",
)
NAME_TESTS = (*NAMES, *NAMES, "*", "*", "p:a", "p:b", "q:a", "p:*", "q:*")
TYPE_TESTS = ("node()", "text()", "text()", "comment()", "processing-instruction()", "processing-instruction('go')")
ATTRIBUTE_TESTS = ("x", "x", "y", "id", "*", "p:x", "xml:lang", "node()")
ATTRIBUTE_PREDICATES = (
    "1",
    "2",
    "last()",
    "position() < 3",
    ". = '1'",
    ". != ../@y",
    ". > 1",
    "../b",
    "ancestor::a[@y]",
    "not(ancestor-or-self::node()/@id = .)",
    "parent::*[.//@x = @y]",
    "string-length() > 1",
    "local-name() = 'x'",
)


class Generator:
    """Draws messages and queries from one source of randomness."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def _one_in(self, n: int) -> bool:
        return self._random.randrange(n) == n - 1

    def _choice(self, options: tuple[str, ...]) -> str:
        return self._random.choice(options)

    # --- messages ---

    def message(self, depth_max: int = 4) -> str:
        """A well-formed message of at most ``depth_max + 1`` levels."""
        before = self._choice(("", "", "", "<!--top-->", "<?go now?>", '<?xml version="1.0"?>\n'))
        after = self._choice(("", "", "", "<!--end-->\n"))
        return before + self._element(self._random.randint(1, depth_max), ()) + after

    def _text(self) -> str:
        """Character data as written: plain, with references, as CDATA, with a line end."""
        value = self._choice(VALUES)
        form = self._random.randrange(12)
        if form == 11 and value:
            return f"&#{ord(value[0])};{value[1:]}"
        if form == 10 and value:
            return f"<![CDATA[{value}]]>"
        if form == 9:
            return f"{value}<![CDATA[<&]]>"
        if form == 8:
            return f"{value}\r\n"
        if form == 7:
            return f"{value}&amp;&#x41;"
        return value

    def _start_tag(self, bound: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """Name, declarations and attributes, and the prefixes that are bound inside."""
        extras = []
        for prefix in ("p", "q"):
            if self._one_in(7 if prefix in bound else 3):
                extras.append(f'xmlns:{prefix}="{self._choice(URIS)}"')
                bound = bound if prefix in bound else (*bound, prefix)
        if self._one_in(9):
            extras.append(f'xmlns="{self._choice((*URIS, ""))}"')
        prefix = self._choice(("", "", *bound))
        name = f"{prefix}:{self._choice(NAMES)}" if prefix else self._choice(NAMES)
        extras += [f"{attribute}={quoteattr(self._choice(VALUES))}" for attribute in ATTRIBUTES if self._one_in(4)]
        if bound and self._one_in(6):
            extras.append(f"{self._choice(bound)}:x={quoteattr(self._choice(VALUES))}")
        if self._one_in(8):
            extras.append(f'xml:lang="{self._choice(LANGUAGES)}"')
        self._random.shuffle(extras)
        return " ".join([name, *extras]), bound

    def _element(self, depth: int, bound: tuple[str, ...]) -> str:
        tag, bound = self._start_tag(bound)
        name = tag.split(" ", 1)[0]
        if depth == 0 or self._one_in(6):
            return self._choice((f"<{tag}/>", f"<{tag}></{name}>", f"<{tag}>{self._text()}</{name}>"))
        children = []
        for _ in range(self._random.randint(1, 4)):
            kind = self._random.randrange(12)
            if kind <= 6:
                children.append(self._element(depth - 1, bound))
            elif kind <= 9:
                children.append(self._text())
            elif kind == 10:
                children.append(f"<!--{self._choice(VALUES)}-->")
            else:
                children.append(f"<?{self._choice(('go', 'stop'))} {self._choice(VALUES)}?>")
        return f"<{tag}>{''.join(children)}</{name}>"

    # --- queries ---
    #
    # `inner` is whether the expression stands inside a predicate: only there do relative paths and positions depend on
    # something worth testing (outside, lxml would start them at the root element instead of the document).

    def query(self, depth: int = 3) -> str:
        """Any XPath 1.0 expression of absolute paths, mostly a path."""
        form = self._random.randrange(8)
        if form <= 3:
            return self.path(depth, inner=False)
        if form == 4:
            return self.node_set(depth, inner=False)
        if form == 5:
            return self.boolean(depth, inner=False)
        return self.number(depth, inner=False) if form == 6 else self.string(depth, inner=False)

    def path(self, depth: int, *, inner: bool) -> str:
        """A location path, absolute unless it is ``inner``."""
        if inner and not self._one_in(5):
            path = self._choice(("", "", "", ".//"))
        else:
            path = self._choice(("//", "//", "/", "/*/", "/*//"))
        length = self._random.randint(1, 3)
        for index in range(length):
            last = index == length - 1
            path += self._step(depth, last=last)
            if not last:
                path += self._choice(("/", "/", "//"))
        return path

    def _step(self, depth: int, *, last: bool) -> str:
        if last and self._one_in(5):
            # From an attribute there is little to go on to, so it ends a path.
            step = self._choice(("@", "attribute::")) + self._choice(ATTRIBUTE_TESTS)
            return step if self._one_in(2) else f"{step}[{self._choice(ATTRIBUTE_PREDICATES)}]"
        if self._one_in(3):
            axis = self._choice((*FORWARD_AXES, *FORWARD_AXES, *OTHER_AXES))
            if axis in {"parent", "self"} and self._one_in(2):
                return ".." if axis == "parent" else "."
            step = f"{axis}::{self._node_test()}"
        else:
            step = self._node_test()
        if depth > 0:
            for _ in range(self._random.choice((0, 0, 1, 1, 2))):
                step += f"[{self._predicate(depth - 1)}]"
        return step

    def _node_test(self) -> str:
        return self._choice(TYPE_TESTS) if self._one_in(5) else self._choice(NAME_TESTS)

    def _predicate(self, depth: int) -> str:
        form = self._random.randrange(8)
        if form == 7:
            return self._choice(("1", "2", "3", "last()", "last() - 1", "1.5", "position() < 3", "position() != 2"))
        if form == 6:
            return f"position() {self._choice(COMPARISONS)} {self._choice(('1', '2', 'last()', 'count(*)'))}"
        if form == 5:
            return self.number(depth, inner=True)
        return self.boolean(depth, inner=True)

    def node_set(self, depth: int, *, inner: bool) -> str:
        """Any expression whose value is a node-set."""
        form = self._random.randrange(10)
        if depth <= 0 or form <= 6:
            return self.path(depth - 1, inner=inner)
        if form == 7:
            nodes = self.node_set(depth - 1, inner=inner)
            with_attributes = "@" in nodes or "attribute::" in nodes
            predicate = self._choice(ATTRIBUTE_PREDICATES) if with_attributes else self._predicate(depth - 1)
            return f"({nodes})[{predicate}]"
        if form == 8:
            # A step from attributes would meet the axes on which libxml2 differs.
            return f"({self.node_set(depth - 1, inner=inner)})/self::*/{self.path(depth - 1, inner=True).lstrip('/')}"
        return f"({self.node_set(depth - 1, inner=inner)} | {self.node_set(depth - 1, inner=inner)})"

    def string(self, depth: int, *, inner: bool) -> str:
        """Any expression whose value is a string."""
        form = self._random.randrange(16)
        if depth <= 0 or form <= 3:
            return f"'{self._choice(VALUES)}'"
        if inner and form <= 5:
            return self._choice(("string()", "local-name()", "name()", "normalize-space()", "namespace-uri()"))
        nodes = self.node_set(depth - 1, inner=inner)
        if form <= 8:
            return f"{self._choice(('string', 'name', 'local-name', 'namespace-uri'))}({nodes})"
        if form == 9:
            return f"normalize-space({nodes})"
        other = self.string(depth - 1, inner=inner)
        if form == 10:
            return f"concat({nodes}, {other})"
        if form == 11:
            return f"substring({nodes}, {self._choice(ODD_NUMBERS)})"
        if form == 12:
            return f"substring({other}, {self._choice(ODD_NUMBERS)}, {self._choice(ODD_NUMBERS)})"
        if form == 13:
            return f"translate({nodes}, 'abx', 'BA')"
        return f"{self._choice(('substring-before', 'substring-after'))}({nodes}, {other})"

    def number(self, depth: int, *, inner: bool) -> str:
        """Any expression whose value is a number."""
        form = self._random.randrange(14)
        if depth <= 0 or form <= 2:
            return self._choice(NUMBERS)
        if inner and form <= 4:
            return self._choice(("position()", "last()", "string-length()", "number()"))
        if form <= 7:
            return f"{self._choice(('count', 'sum', 'number'))}({self.node_set(depth - 1, inner=inner)})"
        if form == 8:
            return f"string-length({self.string(depth - 1, inner=inner)})"
        if form == 9:
            return f"{self._choice(('floor', 'ceiling', 'round'))}({self.number(depth - 1, inner=inner)})"
        if form == 10:
            return f"-{self.number(depth - 1, inner=inner)}"
        if form == 11:
            return f"number({self.boolean(depth - 1, inner=inner)})"
        left, right = self.number(depth - 1, inner=inner), self.number(depth - 1, inner=inner)
        return f"({left} {self._choice(ARITHMETIC)} {right})"

    def _operand(self, depth: int, *, inner: bool) -> str:
        form = self._random.randrange(8)
        if form <= 3:
            return self.node_set(depth, inner=inner)
        if form <= 5:
            return self.string(depth, inner=inner)
        return self.number(depth, inner=inner) if form == 6 else self._choice(("true()", "false()"))

    def boolean(self, depth: int, *, inner: bool) -> str:
        """Any expression whose value is a boolean, or a node-set used as one."""
        form = self._random.randrange(13)
        if depth <= 0 or form <= 2:
            return self.node_set(depth, inner=inner)
        if form <= 7:
            left, right = self._operand(depth - 1, inner=inner), self._operand(depth - 1, inner=inner)
            return f"{left} {self._choice(COMPARISONS)} {right}"
        if form == 8:
            return f"not({self.boolean(depth - 1, inner=inner)})"
        if form <= 10:
            left, right = self.boolean(depth - 1, inner=inner), self.boolean(depth - 1, inner=inner)
            return f"({left} {self._choice(('and', 'or'))} {right})"
        if form == 11:
            function = self._choice(("contains", "starts-with"))
            return f"{function}({self.node_set(depth - 1, inner=inner)}, {self.string(0, inner=inner)})"
        if inner:
            return self._choice(("lang('en')", "lang('EN-gb')", "lang('de')", "true()", "false()"))
        return f"boolean({self.node_set(depth - 1, inner=inner)})"


def messages(depth_max: int = 4) -> st.SearchStrategy[str]:
    """Well-formed messages."""
    return st.randoms(use_true_random=False).map(lambda random: Generator(random).message(depth_max))


def queries(depth: int = 3) -> st.SearchStrategy[str]:
    """XPath 1.0 expressions, to be evaluated with ``NAMESPACES``."""
    return st.randoms(use_true_random=False).map(lambda random: Generator(random).query(depth))
