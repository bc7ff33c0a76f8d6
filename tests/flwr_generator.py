"""Random messages and For-Where-Return queries whose results XQuery and Twigcast agree on.

The two languages differ in one thing: comparisons follow XPath 1.0 here, where a value that is not a number is NaN
instead of an error. So the queries compare with `=` and `!=` against strings and each other, and wrap numbers in
`number()` of one node.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

NAMES = ("a", "b", "c", "p:a", "p:d", "q:e")
ATTRIBUTES = ("k", "n", "p:k")
WORDS = ("x", "y", "z", "1", "2", "10", "x y", "")
NAMESPACES = {"p": "urn:p", "q": "urn:q"}


def message(random: Random) -> str:
    """A message of up to some forty elements, with everything a slice can hold."""
    default = random.choice(("", "", " xmlns='urn:q'"))
    other_p = random.choice(("", "", " xmlns:pp='urn:p'"))
    inner = "".join(_element(random, depth=1) for _ in range(random.randint(2, 6)))
    before = random.choice(("", "<!--before-->", "<?before it?>"))
    return f"{before}<r xmlns:p='urn:p' xmlns:q=\"urn:q\"{other_p}{default}>{inner}</r>"


def _element(random: Random, depth: int) -> str:
    name = random.choice(NAMES)
    declared = random.choice(("", "", "", "", " xmlns='urn:q'", " xmlns=''", " xmlns:q='urn:p'", " xmlns:p='urn:q'"))
    attributes = "".join(
        f" {attribute}={_attribute_value(random)}" for attribute in ATTRIBUTES if random.random() < 0.4
    )
    content = "".join(_content(random, depth) for _ in range(random.choice((0, 1, 2, 2, 3))))
    return f"<{name}{declared}{attributes}>{content}</{name}>" if content else f"<{name}{declared}{attributes}/>"


def _attribute_value(random: Random) -> str:
    return random.choice(("'{}'", '"{}"')).format(random.choice((*WORDS, "&lt;", "&#10;", "&amp;x")))


def _content(random: Random, depth: int) -> str:
    kind = random.random()
    if kind < 0.5 and depth < 5:
        return _element(random, depth + 1)
    if kind < 0.85:
        return random.choice((*WORDS, "]]", "&gt;", "&#xe9;", " ", "p:a"))
    return random.choice(("<!--c-->", "<?t d?>", "<![CDATA[<x>&]]>", "<![CDATA[]]>"))


@dataclass(frozen=True)
class Query:
    """A query, and the part of it that counts its bindings."""

    text: str
    bindings: str
    """The query with ``return 1``."""


class QueryMaker:
    """Makes queries. Variables are nodes, or lists of nodes when ``let`` binds them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0

    def query(self) -> Query:
        """A whole query, perhaps inside an element."""
        head, single, many = self._clauses([], [])
        result = self._result(single, many, depth=0)
        flwr = f"{head} return {result}"
        if self.random.random() < 0.3:
            flwr = f"<out>{{ {flwr} }}</out>"
        return Query(flwr, f"{head} return 1")

    def _clauses(self, single: list[str], many: list[str]) -> tuple[str, list[str], list[str]]:
        single, many = list(single), list(many)
        clauses: list[str] = []
        for _ in range(self.random.choice((1, 1, 1, 2, 2, 3))):
            if clauses and self.random.random() < 0.3:
                clauses.append(f"let {self._new()} := {self._nodes(single, many)}")
                many.append(f"$v{self.count}")
            else:
                clauses.append(f"for {self._new()} in {self._nodes(single, many)}")
                single.append(f"$v{self.count}")
        head = " ".join(clauses)
        if self.random.random() < 0.4:
            head += f" where {self._condition(single, many, depth=0)}"
        if self.random.random() < 0.3:
            head += f" order by {self._key(single)}"
            head += self.random.choice(("", " descending")) + self.random.choice(("", "", " empty greatest"))
        return head, single, many

    def _new(self) -> str:
        self.count += 1
        return f"$v{self.count}"

    def _key(self, single: list[str]) -> str:
        node = f"({self.random.choice(single)}/{self._steps(1)})[1]"
        return self.random.choice((node, f"number({node})", f"count({self.random.choice(single)}/*)"))

    def _nodes(self, single: list[str], many: list[str]) -> str:
        start = self.random.choice(["", "$doc", *single, *single, *many])
        steps = self._steps(self.random.choice((1, 1, 1, 2, 3)))
        slash = self.random.choice(("/", "//", "//") if start in ("", "$doc") else ("/", "/", "//"))
        path = f"{start}{slash}{steps}"
        if self.random.random() < 0.1:
            path = f"({path})[{self.random.choice(('1', 'last()', '2'))}]"
        if self.random.random() < 0.1:
            path = f"({path} | {self.random.choice(single or ['$doc'])}/*)"
        return path

    def _steps(self, count: int) -> str:
        separators = self.random.choices(("/", "//"), (3, 1), k=count)
        return "".join(f"{self._step()}{separator}" for separator in separators).rstrip("/")

    def _step(self) -> str:
        test = self.random.choice(("a", "b", *NAMES, "*", "*", "*", "*", "*:a", "p:*"))
        axis = self.random.choices(("", "..", "ancestor::", "following-sibling::"), (12, 1, 1, 1))[0]
        if axis == "..":
            return axis
        predicates = [""] * 12
        predicates += (f"[{self.random.choice(NAMES)}]", "[@k]", "[1]", "[last()]", "[@k = 'x']", "[. = 'x']")
        return f"{axis}{test}{self.random.choice(predicates)}"

    def _condition(self, single: list[str], many: list[str], depth: int) -> str:
        random = self.random
        kind = random.randrange(9 if depth < 2 else 6)
        node = random.choice(single)
        path = f"{random.choice([*single, *many])}/{self._steps(random.choice((1, 2)))}"
        equality = random.choice(("=", "!=", "!="))
        match kind:
            case 0:
                return f"{node}/@{random.choice(ATTRIBUTES)} {equality} '{random.choice(WORDS)}'"
            case 1:
                return f"{path} {equality} '{random.choice(WORDS)}'"
            case 2:
                return path
            case 3:
                return f"number(({path})[1]) {random.choice(('<', '>=', '=', '!='))} {random.randint(0, 10)}"
            case 4:
                return f"count({path}) {random.choice(('<', '>=', '='))} {random.randint(0, 3)}"
            case 5:
                return (
                    f"{node}/@k {random.choice(('=', '!='))} {self._nodes(single, many)}/@{random.choice(('k', 'n'))}"
                )
            case 6:
                return f"not({self._condition(single, many, depth + 1)})"
            case 7:
                return f"//*[@k = {node}/@n]"
        word = random.choice(("and", "or"))
        return f"({self._condition(single, many, depth + 1)} {word} {self._condition(single, many, depth + 1)})"

    def _result(self, single: list[str], many: list[str], depth: int) -> str:
        kind = self.random.random()
        if kind < 0.6:
            return self._constructor(single, many, depth)
        if kind < 0.75:
            return self._nodes(single, many)
        if kind < 0.85:
            return f"({', '.join(self._result(single, many, depth + 1) for _ in range(self.random.randint(0, 3)))})"
        return self._value(single)

    def _value(self, single: list[str]) -> str:
        node = self.random.choice(single)
        return self.random.choice(
            (
                f"string({node})",
                f"count({node}/*)",
                "'text &amp; more'",
                f"concat(name({node}), '-', local-name({node}))",
                f"{node}/text()",
                f"not({node}/@k)",
                f"count({node}//*) + 1.5",
                f"string-length(string({node}/@k))",
                f"translate(string({node}/@k), 'xy', 'YX')",
            )
        )

    def _constructor(self, single: list[str], many: list[str], depth: int) -> str:
        random = self.random
        name, declared = random.choice(
            (("e", ""), ("e", ""), ("p:e", ""), ("e", " xmlns='urn:p'"), ("e", " xmlns:q='urn:p'"), ("e", " xmlns=''"))
        )
        node = random.choice(single)
        attributes = random.choice(
            ("", "", " m='1'", f" m='a{{ {node}/@k }}b'", f' m="{{ {node}/*, 1 }}"', f" p:m='{{ name({node}) }}'")
        )
        copied = f"{{ {node}/@{random.choice(('k', 'n', 'p:k', '*'))} }}" if random.random() < 0.2 else ""
        if copied and random.random() < 0.2:
            copied = "{ '' }" + copied
        content = "".join(self._part(single, many, depth) for _ in range(random.randint(0, 3)))
        return f"<{name}{declared}{attributes}>{copied}{content}</{name}>"

    def _part(self, single: list[str], many: list[str], depth: int) -> str:
        random = self.random
        kind = random.random()
        if kind < 0.1:
            return random.choice(("text", " ", "&lt;", "<![CDATA[ ]]>", "{{}}", "]]", "<!--c-->", "<?t d?>"))
        if kind < 0.3 and depth < 2:
            return self._constructor(single, many, depth + 1)
        if kind < 0.4 and depth < 2:
            head, inner_single, inner_many = self._clauses(single, many)
            return f"{{ {head} return {self._result(inner_single, inner_many, depth + 1)} }}"
        if kind < 0.5 and depth < 2:
            then, otherwise = (self._result(single, many, depth + 1) for _ in range(2))
            return f"{{ if ({self._condition(single, many, 1)}) then {then} else {otherwise} }}"
        if kind < 0.7:
            return f"{{ {self._value(single)}, {self._value(single)} }}"
        return f"{{ {self._nodes(single, many)} }}"


class LaterQueryMaker(QueryMaker):
    """Makes queries of what XQuery adds to that: numbers of nodes, groups, values in turn, computed constructors."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.values: list[str] = []

    def _clauses(self, single: list[str], many: list[str]) -> tuple[str, list[str], list[str]]:
        kind = self.random.random()
        if kind < 0.3:
            return self._numbered(single, many)
        # Grouped variables would hold a node twice to Saxon where two clauses bind it twice.
        if kind < 0.6 and not single:
            return self._grouped()
        if kind < 0.75 and not single:
            return self._of_values()
        return super()._clauses(single, many)

    def _part(self, single: list[str], many: list[str], depth: int) -> str:
        before = list(self.values)
        part = super()._part(single, many, depth)
        # In an element's text a computed constructor would be a part of that.
        part = f"{{ {part} }}" if part.startswith("element ") else part
        # What a nested `for` binds is not seen outside of it.
        self.values = before
        return part

    def _numbered(self, single: list[str], many: list[str]) -> tuple[str, list[str], list[str]]:
        variable, number = self._new(), self._new()
        head = f"for {variable} at {number} in {self._nodes(single, many)}"
        self.values.append(number)
        single = [*single, variable]
        if self.random.random() < 0.5:
            head += f" where {number} {self.random.choice(('<', '=', '!='))} {self.random.randrange(1, 5)}"
            head += self.random.choice(("", f" and {number} mod 2 = 1", f" or {self._condition(single, many, 1)}"))
        if self.random.random() < 0.3:
            head += f" order by {number} descending"
        return head, single, many

    def _grouped(self) -> tuple[str, list[str], list[str]]:
        variable = self._new()
        head = f"for {variable} in {self._nodes([], [])}"
        if self.random.random() < 0.3:
            head += f" where {self._condition([variable], [], 1)}"
        key = self._new()
        by = ("string({}/@k)", "{}/@k", "local-name({})", "count({}/*)", "lower-case({}/@n)", "exists({}/@k)")
        head += f" group by {key} := {self.random.choice(by).format(variable)}"
        member = f"{variable}[1]"
        if self.random.random() < 0.4:
            least = self.random.randrange(1, 4)
            head += f" where count({variable}) {self.random.choice(('>', '=', '<='))} {least}"
        # In which order groups come is up to each processor of XQuery.
        size = self.random.choice(("", f"count({variable}) descending, "))
        head += f" order by {size}{key}"
        self.values.append(key)
        return head, [member], [variable]

    def _of_values(self) -> tuple[str, list[str], list[str]]:
        variable, node = self._new(), self._new()
        values = self.random.choice(
            (
                "distinct-values(//@k)",
                "tokenize('y,x,10', ',')",
                "tokenize((//@k)[1], ' ')",
                "distinct-values(//*/name(.))",
            )
        )
        head = f"for {variable} in {values}, {node} in //*[@k = {variable} or @n = {variable}]"
        head += f" order by {variable}, count({node}/preceding::*) + count({node}/ancestor::*)"
        self.values.append(variable)
        return head, [node], []

    def _value(self, single: list[str]) -> str:
        random, node = self.random, self.random.choice(single)
        if self.values and random.random() < 0.4:
            value = random.choice(self.values)
            return random.choice((value, f"string({value})", f"concat({value}, '!')"))
        if random.random() < 0.5:
            return super()._value(single)
        return random.choice(
            (
                f"lower-case(string({node}/@k))",
                f"string-join({node}/*/@n, '-')",
                f"replace(string({node}/@k), '[xy]', '<$0>')",
                f"string-join(tokenize(string({node}/@k), ' '), '|')",
                f"count(distinct-values({node}//@n))",
                f"{node}/@k || '+' || local-name({node})",
                f"ends-with(string({node}/@k), 'y')",
                f"string-join({node}/* ! local-name(.), ' ')",
                f"(if ({node}/@k) then 'yes' else 'no')",
            )
        )

    def _constructor(self, single: list[str], many: list[str], depth: int) -> str:
        random = self.random
        if random.random() < 0.4:
            return super()._constructor(single, many, depth)
        node = random.choice(single)
        name = random.choice(("e", "{ 'e' }", f"{{ local-name({node}) }}", f"{{ concat('e', count({node}/*)) }}"))
        content = []
        if random.random() < 0.5:
            content.append(
                random.choice((f"attribute k {{ {node}/@k }}", f"attribute {{ 'n' }} {{ {self._value(single)} }}"))
            )
        for _ in range(random.randint(0, 3)):
            kind = random.random()
            if kind < 0.3:
                content.append(f"text {{ {self._value(single)} }}")
            elif kind < 0.6 and depth < 2:
                content.append(self._constructor(single, many, depth + 1))
            else:
                content.append(self._value(single) if kind < 0.8 else self._nodes(single, many))
        return f"element {name} {{ {', '.join(content)} }}"
