"""Lets what is no number be no match in a query that Saxon evaluates, as it is where the engine does.

XQuery raises an error where `@n < 1` meets the value `high`, and the engine finds that it is not less. So that a query
means the same whoever evaluates it, the text of a query is changed before Saxon reads it:

- A comparison calls a function that looks at each pair of values. A pair that cannot be converted does not compare.
- A cast, such as `xs:date(@d)` or `@d cast as xs:date`, returns nothing where there is no such value. So does a
  function that takes a date, a time or a duration, such as `year-from-date(@d)`. Only a query that has a `try` for such
  errors gets them, outside of its conditions.
- An operand of arithmetic that is no number is left out within a comparison, which then does not hold, and is NaN
  elsewhere. So are arguments of `abs()`, `max()` and others; those of `sum()` are NaN everywhere.
- `eq`, `lt` and the others compare as `=`, `<` and the others do.

Two more things are errors in XQuery, and none in the engine: functions and operators of one value take the first of
several, and several values are true where a condition is, as are dates.

The text is not parsed, but split into tokens, brackets and constructors. This suffices, since the operands of a
comparison end at a bracket, a comma, or a word or operator that binds less, and all of these can be told from names by
what stands before them (XQuery 3.1, section A.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from twigcast.xquery.comments import end_of_comment

_NCNAME: Final = r"[^\W\d][\w.\-·]*"
_TOKEN: Final = re.compile(
    rf"""(?P<space>\s+)
      | (?P<string>"(?:[^"]|"")*"|'(?:[^']|'')*')
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<variable>\$\s*(?:Q\{{[^{{}}]*\}})?{_NCNAME}(?::{_NCNAME})?)
      | (?P<name>Q\{{[^{{}}]*\}}(?:{_NCNAME}|\*)|\*:{_NCNAME}|{_NCNAME}:\*|{_NCNAME}(?::(?!:){_NCNAME})?)
      | (?P<symbol>:=|::|!=|<=|>=|<<|>>|=>|\|\||//|\.\.|.)""",
    re.VERBOSE | re.DOTALL,
)
_CONSTRUCTOR: Final = re.compile(rf"<(?:{_NCNAME}|!--|\?)")
_TRY: Final = re.compile(r"\btry\s*\{")
_STRING_START: Final = "``["
_STRING_MARK: Final = re.compile(r"\]``|`\{")
_TYPE_END: Final = re.compile(r"\s*(?:return\b|\|)")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}

_NAMESPACE: Final = "urn:twigcast:tolerant"
_FUNCTIONS: Final = "Q{http://www.w3.org/2005/xpath-functions}"
_TYPES: Final = "Q{http://www.w3.org/2001/XMLSchema}"
_COMPARISONS: Final = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_VALUE_COMPARISONS: Final = frozenset(_COMPARISONS.values())
_CONVERSION: Final = "converted"
_KNOWN: Final = "known"
_NUMBER: Final = "number"
_TRUTH: Final = "truth"
_SELECTED: Final = "selected"
_COMPARED_TYPES: Final = (
    *("dateTime", "date", "time", "dayTimeDuration", "yearMonthDuration", "duration", "boolean"),
    *("gYear", "gYearMonth", "gMonth", "gMonthDay", "gDay", "hexBinary", "base64Binary"),
)
"""Types to which an untyped value is converted that is compared with a value of them."""

_CASTS: Final = frozenset({*_COMPARED_TYPES, "double", "float", "decimal", "integer", "int", "long", "short", "byte"})
"""Types whose casts fail for some texts."""

_NUMBERS: Final = ("decimal", "double", "float")
_CAST_CALLS: Final = frozenset(f"xs:{name}" for name in _CASTS)
_BEFORE_CONDITIONS: Final = frozenset({"where", "satisfies", "when"})
_OF_CONDITIONS: Final = frozenset({"if", "not", "fn:not", "boolean", "fn:boolean"})
"""Words before a bracket with a condition."""

_BEFORE_VARIABLES: Final = frozenset({"some", "every", "for", "let"})
_BEFORE_BRACKETS: Final = frozenset({"if", "switch", "typeswitch", "try"})

# fmt: off
_TRUTHS: Final = frozenset({
    "not", "exists", "empty", "boolean", "true", "false", "contains", "starts-with", "ends-with", "matches",
    "deep-equal", "lang",
})
"""Functions whose result is true or false."""

_OF_ONE: Final = frozenset({
    "contains", "starts-with", "ends-with", "matches", "string", "number", "string-length", "normalize-space",
    "lower-case", "upper-case", "translate", "substring-before", "substring-after", "substring", "replace", "tokenize",
    "name", "local-name", "namespace-uri", "concat",
})
# fmt: on
"""Functions that take one value for each argument."""

_ARITHMETIC: Final = frozenset({"+", "-", "*", "div", "idiv", "mod"})
_LOOSE: Final = frozenset({"to", "||", "is", "<<", ">>"})
"""Operators that bind less than arithmetic, and more than `and`."""

_NEEDING_NUMBERS: Final = frozenset({"avg", "min", "max", "abs", "round", "floor", "ceiling"})
"""Functions that have no value where an argument has none."""

_OF_SEVERAL: Final = frozenset({"avg", "min", "max", "sum"})
_OF_NUMBERS: Final = _NEEDING_NUMBERS | {"sum", "substring"}
"""Functions whose arguments become numbers; of `substring` all but the first."""

_PARTS_OF_TIMES: Final = {
    "date": ("year", "month", "day", "timezone"),
    "time": ("hours", "minutes", "seconds", "timezone"),
    "dateTime": ("year", "month", "day", "hours", "minutes", "seconds", "timezone"),
}
_PARTS_OF_DURATIONS: Final = ("years", "months", "days", "hours", "minutes", "seconds")

_OF_TIMES: Final[dict[str, tuple[str, ...]]] = {
    **{f"{unit}-from-{name}": (name,) for name, units in _PARTS_OF_TIMES.items() for unit in units},
    **{f"{unit}-from-duration": ("duration",) for unit in _PARTS_OF_DURATIONS},
    **{f"adjust-{name}-to-timezone": (name,) for name in _PARTS_OF_TIMES},
    "dateTime": ("date", "time"),
}
"""Functions that take dates, times and durations, with the types of their first arguments."""

_SET_OPERATORS: Final = frozenset({"|", "union", "intersect", "except"})
"""Operators that bind less than a cast, and more than arithmetic."""

# fmt: off
_ENDING_WORDS: Final = frozenset({
    "and", "or", "return", "satisfies", "in", "then", "else", "where", "order", "stable", "group", "by", "ascending",
    "descending", "empty", "greatest", "least", "collation", "let", "for", "count", "some", "every", "at", "case",
    "default", "when", "only", "start", "end", "previous", "next", "allowing",
})
# fmt: on
"""Words that end an operand where an operator is expected."""

# fmt: off
_BEFORE_WORDS: Final = frozenset({
    "stable", "order", "group", "ascending", "descending", "greatest", "least", "empty", "default", "only", "start",
    "end", "allowing", "instance", "treat", "cast", "castable", "declare",
})
# fmt: on
"""Words after which another word of the language follows, and no operand."""

_BEFORE_TYPES: Final = frozenset({"as", "of", "case"})
"""Words before a type, behind which a sign says how often it occurs."""


class _Kind(Enum):
    """What a part of a query is to the operators around it."""

    SPACE = auto()
    OPERAND = auto()
    """A part of an operand; operators that bind more than arithmetic are parts of it."""

    COMPARISON = auto()
    ARITHMETIC = auto()
    LOOSE = auto()
    END = auto()


class _Place(Enum):
    """The position of an expression, which decides how a text that is no number is treated there."""

    VALUE = auto()
    """Neither of the others, as in what the query returns."""

    CONDITION = auto()
    COMPARED = auto()
    """An operand of a comparison, which does not hold if there is nothing to compare."""

    @property
    def conversion(self) -> str:
        """The function that is called with operands of arithmetic."""
        return _KNOWN if self is _Place.COMPARED else _NUMBER


@dataclass(slots=True)
class _Part:
    """A token, a comment, a bracket with what is in it, or a direct constructor."""

    kind: _Kind
    text: str
    """The token; an opening bracket; empty for a constructor."""

    inner: list[_Part] = field(default_factory=list)
    """What is in a bracket."""

    pieces: list[str | _Part] = field(default_factory=list)
    """The text of a constructor, and the enclosed expressions in it."""

    is_literal: bool = False
    is_string: bool = False
    is_name: bool = False
    is_operator: bool = False
    """Whether it stands where an operator is expected."""


class _Unread(Exception):
    """The text is not one that the reader understands: a bracket, string or constructor does not end."""


class _QueryReader:
    """Splits the text of a query into parts."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._before_type = ""

    def whole(self) -> list[_Part]:
        """Returns the parts of the text."""
        parts = self._parts(None)
        if self._at < len(self._text):
            raise _Unread
        return parts

    def _parts(self, closing: str | None) -> list[_Part]:
        """Returns the parts up to a closing bracket, which is read as well."""
        parts: list[_Part] = []
        awaits_operand = True
        while self._at < len(self._text):
            if self._text.startswith("(:", self._at):
                parts.append(_Part(_Kind.SPACE, self._comment()))
                continue
            if awaits_operand and _CONSTRUCTOR.match(self._text, self._at):
                parts.append(self._constructor())
                awaits_operand = False
                continue
            if awaits_operand and self._text.startswith(_STRING_START, self._at):
                parts.append(self._string_constructor())
                awaits_operand = False
                continue
            token = _TOKEN.match(self._text, self._at)
            if token is None:
                raise _Unread
            self._at = token.end()
            text, group = token.group(), token.lastgroup
            if text == closing:
                return parts
            part, awaits_operand = self._part(text, str(group), awaits_operand)
            parts.append(part)
            if part.is_name and part.text in _BEFORE_TYPES and awaits_operand:
                self._before_type = part.text
            elif part.kind is not _Kind.SPACE and (awaits_operand or part.text in {"*", "+", "?"}):
                # The types of a `case` may be several.
                goes_on = self._before_type == "case" and part.kind is _Kind.OPERAND
                self._before_type = "case" if goes_on else ""
        if closing is not None:
            raise _Unread
        return parts

    def _part(self, text: str, group: str, awaits_operand: bool) -> tuple[_Part, bool]:
        """Returns the part that a token is or begins, and whether an operand has to follow."""
        if group == "space":
            return _Part(_Kind.SPACE, text), awaits_operand
        if text in _CLOSING:
            before_type, self._before_type = self._before_type, ""
            inner = self._parts(_CLOSING[text])
            self._before_type = before_type
            return _Part(_Kind.OPERAND, text, inner=inner), False
        if group in {"string", "number", "variable"}:
            is_literal = group != "variable"
            return _Part(_Kind.OPERAND, text, is_literal=is_literal, is_string=group == "string"), False
        if group == "name":
            kind, follows = self._word(text, awaits_operand)
            return _Part(kind, text, is_name=True, is_operator=not awaits_operand), follows
        kind, follows = self._symbol(text, awaits_operand)
        return _Part(kind, text, is_operator=not awaits_operand), follows

    def _word(self, word: str, awaits_operand: bool) -> tuple[_Kind, bool]:
        """Returns what a word is, and whether an operand has to follow."""
        if awaits_operand:
            return _Kind.OPERAND, False
        if word in _VALUE_COMPARISONS:
            return _Kind.COMPARISON, True
        if word in _ARITHMETIC:
            return _Kind.ARITHMETIC, True
        if word in _LOOSE:
            return _Kind.LOOSE, True
        kind = _Kind.END if word in _ENDING_WORDS else _Kind.OPERAND
        return kind, word not in _BEFORE_WORDS

    def _symbol(self, symbol: str, awaits_operand: bool) -> tuple[_Kind, bool]:
        """Returns what a symbol is, and whether an operand has to follow."""
        if symbol in {")", "]", "}", '"', "'"}:
            raise _Unread
        if symbol in {",", ";", ":=", ":"}:
            return _Kind.END, True
        if symbol in {".", ".."}:
            return _Kind.OPERAND, False
        if awaits_operand:
            if symbol in _COMPARISONS:
                # The operand before it is the root, written as a lone slash.
                return _Kind.COMPARISON, True
            if symbol in {"+", "-"}:
                return _Kind.ARITHMETIC, True
            return _Kind.OPERAND, symbol not in {"*", "?"}
        if symbol in {"*", "+", "?"} and self._before_type and self._is_occurrence():
            return _Kind.OPERAND, False
        if symbol in _COMPARISONS:
            return _Kind.COMPARISON, True
        if symbol in _ARITHMETIC:
            return _Kind.ARITHMETIC, True
        return (_Kind.LOOSE if symbol in _LOOSE else _Kind.OPERAND), True

    def _is_occurrence(self) -> bool:
        """Returns whether a sign is that of a type, as in `as xs:integer*`."""
        # A `case` may also be that of a `switch`, before any value.
        return self._before_type != "case" or _TYPE_END.match(self._text, self._at) is not None

    def _comment(self) -> str:
        """Returns a comment, in which there may be others."""
        start, end = self._at, end_of_comment(self._text, self._at)
        if end is None:
            raise _Unread
        self._at = end
        return self._text[start:end]

    def _constructor(self) -> _Part:
        """Returns a direct constructor, with the expressions that are enclosed in it."""
        part = _Part(_Kind.OPERAND, "")
        open_elements = 0
        while True:
            rest = self._text[self._at : self._at + 9]
            if rest.startswith("<!--"):
                self._take(part, "-->")
            elif rest.startswith("<![CDATA["):
                self._take(part, "]]>")
            elif rest.startswith("<?"):
                self._take(part, "?>")
            elif rest.startswith("</"):
                self._take(part, ">")
                open_elements -= 1
            elif rest.startswith("<"):
                open_elements += self._start_tag(part)
            elif not rest:
                raise _Unread
            else:
                self._text_of(part, "<")
            if not open_elements:
                return part

    def _string_constructor(self) -> _Part:
        """Returns a text in which expressions are enclosed, as in ``[k = `{ @k }`]``."""
        part = _Part(_Kind.OPERAND, "")
        while True:
            mark = _STRING_MARK.search(self._text, self._at)
            if mark is None:
                raise _Unread
            is_end = mark.group() != "`{"
            # The brace begins the expression, as in a constructor.
            end = mark.end() if is_end else mark.end() - 1
            part.pieces.append(self._text[self._at : end])
            self._at = mark.end()
            if is_end:
                return part
            part.pieces.append(_Part(_Kind.OPERAND, "{", inner=self._parts("}")))

    def _take(self, part: _Part, end: str) -> None:
        """Takes all up to a mark, and the mark."""
        found = self._text.find(end, self._at)
        if found < 0:
            raise _Unread
        part.pieces.append(self._text[self._at : found + len(end)])
        self._at = found + len(end)

    def _start_tag(self, part: _Part) -> int:
        """Takes a start tag. Returns 1 if an end tag has to follow."""
        while self._at < len(self._text):
            char = self._text[self._at]
            part.pieces.append(char)
            self._at += 1
            if char in "\"'":
                self._text_of(part, char)
                part.pieces.append(char)
                self._at += 1
            elif char == ">":
                return 1
            elif char == "/" and self._text.startswith(">", self._at):
                part.pieces.append(">")
                self._at += 1
                return 0
        raise _Unread

    def _text_of(self, part: _Part, end: str) -> None:
        """Takes text and enclosed expressions up to a character, which stays; a quote that is doubled is no end."""
        while self._at < len(self._text):
            two = self._text[self._at : self._at + 2]
            if two in {"{{", "}}"} or (end != "<" and two == end * 2):
                part.pieces.append(two)
                self._at += 2
            elif two[0] == "{":
                self._at += 1
                part.pieces.append(_Part(_Kind.OPERAND, "{", inner=self._parts("}")))
            elif two[0] == end:
                return
            else:
                part.pieces.append(two[0])
                self._at += 1
        raise _Unread


class _QueryWriter:
    """Writes parts as text again, with calls of tolerant functions in it."""

    def __init__(self, catches: bool) -> None:
        self.called: set[str] = set()
        self._catches = catches

    def text(self, parts: Sequence[_Part], place: _Place) -> str:
        """Returns the text of the parts of a query, or of a bracket."""
        texts, here = [], place
        segments = list(_split(parts, {_Kind.END}))
        marks = [segment.text if isinstance(segment, _Part) else "" for segment in segments]
        for at, segment in enumerate(segments):
            if isinstance(segment, _Part):
                here = _Place.CONDITION if segment.text in _BEFORE_CONDITIONS else place
                texts.append(segment.text)
                continue
            text = self._segment(segment, here)
            before, after = marks[at - 1] if at else "", marks[at + 1] if at + 1 < len(marks) else ""
            is_condition = before in {"and", "or", *_BEFORE_CONDITIONS} or after in {"and", "or"}
            texts.append(self._truth(segment, text) if is_condition else text)
        return "".join(texts)

    def _truth(self, parts: Sequence[_Part], text: str, function: str = _TRUTH) -> str:
        """Returns the text of a condition, so that it holds as in the engine if it has several values, or is a date."""
        return f" {self._call(function, f'({text})')} " if _may_be_values(parts) else text

    def _segment(self, parts: Sequence[_Part], place: _Place) -> str:
        """Returns the text between two marks that end operands."""
        operators = [at for at, part in enumerate(parts) if part.kind is _Kind.COMPARISON]
        if len(operators) != 1:
            return self._arithmetic(parts, place)
        left, right = parts[: operators[0]], parts[operators[0] + 1 :]
        if not _written(left) or not _written(right) or _is_string(left) or _is_string(right):
            # A text converts no value to a number, and the `=` of a declaration stands before one.
            return self._arithmetic(parts, place)
        operator = parts[operators[0]].text
        one, other = (self._arithmetic(operand, _Place.COMPARED) for operand in (left, right))
        return f" {self._call(_COMPARISONS.get(operator, operator), f'({one}), ({other})')} "

    def _arithmetic(self, parts: Sequence[_Part], place: _Place) -> str:
        """Returns the text of parts, in which operands of arithmetic are numbers."""
        pieces = list(_split(parts, {_Kind.ARITHMETIC, _Kind.LOOSE, _Kind.COMPARISON}))
        texts = []
        for at, piece in enumerate(pieces):
            if isinstance(piece, _Part):
                texts.append(piece.text)
                continue
            around = (pieces[at - 1] if at else None, pieces[at + 1] if at + 1 < len(pieces) else None)
            is_operand = any(isinstance(sign, _Part) and sign.kind is _Kind.ARITHMETIC for sign in around)
            text = self._piece(piece, place)
            written = _written(piece)
            if is_operand and written and not (len(written) == 1 and written[0].is_literal):
                text = f" {self._call(place.conversion, _first(text))} "
            elif (
                written  # not what stands between `||` and a sign
                and any(isinstance(sign, _Part) and sign.text == "||" for sign in around)
                and _may_be_several(piece)
            ):
                text = f" {_first(text)} "
            texts.append(text)
        return "".join(texts)

    def _piece(self, parts: Sequence[_Part], place: _Place) -> str:
        """Returns the text of an operand."""
        texts = []
        if not self._raises(place):
            parts = _with_casts_as_calls(parts)
        written = _written(parts)
        following = dict(zip(map(id, written), written[1:], strict=False))
        before: _Part | None = None
        is_piped = False
        for part in parts:
            if part.kind is _Kind.SPACE:
                texts.append(part.text)
                continue
            is_call = (next_part := following.get(id(part))) is not None and next_part.text == "("
            if part.pieces:
                texts.extend(
                    piece if isinstance(piece, str) else self._bracket(piece, None, place) for piece in part.pieces
                )
            elif part.text in _CLOSING:
                texts.append(self._bracket(part, before, place, is_piped))
            elif part.text in _CAST_CALLS and is_call and not self._raises(place):
                texts.append(self._function(part.text.removeprefix("xs:")))
            else:
                is_piped = is_call and before is not None and before.text == "=>"
                if is_piped and (conversion := self._conversion_of_argument(part.text, 0, place)):
                    texts.append(f"{self._call(conversion, '')} => ")
                texts.append(part.text)
            before = part
        return "".join(texts)

    def _bracket(self, part: _Part, before: _Part | None, place: _Place, is_piped: bool = False) -> str:
        """Returns the text of a bracket, behind another part; ``is_piped`` says that `=>` gives its first argument."""
        opening, closing = part.text, _CLOSING[part.text]
        word = before.text if before is not None and before.is_name and opening == "(" else ""
        name = word.removeprefix("fn:")
        if name in _OF_NUMBERS | _OF_ONE or (name in _OF_TIMES and not self._raises(place)):
            arguments, at = [], int(is_piped)
            for argument in _split(part.inner, {_Kind.END}, only=","):
                if isinstance(argument, _Part):
                    arguments.append(argument.text)
                else:
                    arguments.append(self._argument(argument, name, at, place))
                    at += 1
            return f"({''.join(arguments)})"
        if opening == "[" or word == "if" or (word and place is not _Place.VALUE):
            place = _Place.CONDITION
        elif opening == "{":
            place = _Place.VALUE
        text = self.text(part.inner, place)
        if word in _OF_CONDITIONS:
            text = self._truth(part.inner, text)
        elif opening == "[" and before is not None:
            text = self._truth(part.inner, text, _SELECTED)
        return f"{opening}{text}{closing}"

    def _argument(self, parts: Sequence[_Part], function: str, at: int, place: _Place) -> str:
        """Returns the text of an argument of a function of numbers, dates, times or durations."""
        conversion = self._conversion_of_argument(function, at, place)
        if place is _Place.COMPARED and function not in _NEEDING_NUMBERS:
            place = _Place.CONDITION
        text = self.text(parts, place)
        if not _written(parts):
            return text
        if function not in _OF_SEVERAL and _may_be_several(parts):
            text = _first(text)
        return text if conversion is None else self._call(conversion, f"({text})")

    def _conversion_of_argument(self, function: str, at: int, place: _Place) -> str | None:
        """Returns the function that converts an argument of a function, counted from 0; ``None`` if none has to."""
        name = function.removeprefix("fn:")
        if name in _OF_NUMBERS:
            if name == "substring" and at == 0:
                return None
            return place.conversion if name in _NEEDING_NUMBERS else _NUMBER
        types = _OF_TIMES.get(name, ())
        return types[at] if at < len(types) and not self._raises(place) else None

    def _raises(self, place: _Place) -> bool:
        """Returns whether a cast that fails is an error in a place, since the query may wait for it."""
        return self._catches and place is _Place.VALUE

    def _call(self, function: str, arguments: str) -> str:
        return f"{self._function(function)}({arguments})"

    def _function(self, function: str) -> str:
        """Returns the name of one of our functions, which is called."""
        self.called.add(function)
        return f"Q{{{_NAMESPACE}}}{function}"


def _with_casts_as_calls(parts: Sequence[_Part]) -> list[_Part]:
    """Returns parts in which `a cast as xs:date?` is written `xs:date(a)`."""
    result: list[_Part] = []
    rest = iter(parts)
    for part in rest:
        if part.text != "cast" or not part.is_operator:
            result.append(part)
            continue
        behind = list(rest)
        words = _written(behind)
        if len(words) < 2 or words[1].text not in _CAST_CALLS:
            return [*result, part, *behind]
        start = max(
            (at for at, one in enumerate(result, 1) if one.is_operator and one.text in _SET_OPERATORS), default=0
        )
        operand = _Part(_Kind.OPERAND, "(", inner=result[start:])
        end = behind.index(words[2 if len(words) > 2 and words[2].text == "?" else 1]) + 1
        return [*result[:start], words[1], operand, *behind[end:]]
    return result


def _split(parts: Sequence[_Part], kinds: set[_Kind], only: str | None = None) -> Iterator[_Part | list[_Part]]:
    """Yields runs of parts and the parts of some kinds between them, by turns, beginning with a run."""
    run: list[_Part] = []
    for part in parts:
        if part.kind in kinds and only in {None, part.text}:
            yield run
            yield part
            run = []
        else:
            run.append(part)
    yield run


def _written(parts: Sequence[_Part]) -> list[_Part]:
    """Returns the parts that are no blanks and comments."""
    return [part for part in parts if part.kind is not _Kind.SPACE]


def _first(text: str) -> str:
    """Returns the first of the values of an expression: operators and functions of one value take that."""
    return f"{_FUNCTIONS}head(({text}))"


def _may_be_several(parts: Sequence[_Part]) -> bool:
    """Returns whether an operand may have several values: it is no literal, attribute or context item alone."""
    written = _written(parts)
    if len(written) == 2:
        return not (written[0].text == "@" and written[1].is_name)
    return len(written) != 1 or not (written[0].is_literal or written[0].text == ".")


def _may_be_values(parts: Sequence[_Part]) -> bool:
    """Returns whether a condition may have values that XQuery takes for none; paths and comparisons have no such."""
    written = _written(parts)
    if not written or any(part.kind in {_Kind.COMPARISON, _Kind.END} and part.text != "!" for part in written):
        return False
    first, second = written[0], written[1] if len(written) > 1 else None
    if first.is_name and second is not None:
        begins = first.text in _BEFORE_VARIABLES and second.text.startswith("$")
        if begins or (first.text in _BEFORE_BRACKETS and second.text in _CLOSING):
            return False
        if len(written) == 2 and second.text == "(" and first.text.removeprefix("fn:") in _TRUTHS:
            return False
    return any(part.text in {"!", "("} or part.text.startswith("$") or part.pieces for part in written)


def _is_string(parts: Sequence[_Part]) -> bool:
    written = _written(parts)
    return len(written) == 1 and written[0].is_string


def _declarations(called: set[str]) -> str:
    """Returns the declarations of the functions that are called."""
    needed = called | ({_CONVERSION} if called & _VALUE_COMPARISONS else set())
    needed |= {_TRUTH} if _SELECTED in called else set()
    return " ".join(map(_declaration, sorted(needed)))


def _declaration(function: str) -> str:
    """Returns the declaration of one of the functions that are called.

    None of them catches errors: with `try` in a condition, Saxon 12 fails in ways of its own.
    """
    head = f"declare function Q{{{_NAMESPACE}}}{function}"
    if function in _VALUE_COMPARISONS:
        sign = next(sign for sign, name in _COMPARISONS.items() if name == function)
        is_text = f"($one instance of {_TYPES}untypedAtomic or $one instance of {_TYPES}string)"
        convert = f"Q{{{_NAMESPACE}}}{_CONVERSION}"
        return (
            f"{head}($left as item()*, $right as item()*) as {_TYPES}boolean {{ "
            f"let $a := {_FUNCTIONS}data($left), $b := {_FUNCTIONS}data($right) return "
            # Texts convert nothing, and Saxon has faster ways to compare many with many.
            f"if (every $one in ($a, $b) satisfies {is_text}) then $a {sign} $b else some $x in $a, $y in $b satisfies "
            f"{convert}($x, $y) {sign} {convert}($y, $x) }};"
        )
    if function == _CONVERSION:
        return f"{head}($value as item(), $other as item()) as item()? {{ {_conversion()} }};"
    if function in _CASTS:
        cast = f"if ($one castable as {_TYPES}{function}) then {_TYPES}{function}($one) else ()"
        one = f"{_FUNCTIONS}head({_FUNCTIONS}data($values))"
        return f"{head}($values as item()*) as item()* {{ for $one in {one} return {cast} }};"
    if function == _TRUTH:
        return f"{head}($values as item()*) as {_TYPES}boolean {{ {_truth()} }};"
    if function == _SELECTED:
        is_number = " or ".join(f"$values instance of {_TYPES}{name}" for name in _NUMBERS)
        truth = f"Q{{{_NAMESPACE}}}{_TRUTH}($values)"
        return f"{head}($values as item()*) as item()* {{ if ({is_number}) then $values else {truth} }};"
    no_number = f"$one instance of {_TYPES}untypedAtomic and {_FUNCTIONS}not($one castable as {_TYPES}double)"
    if function == _NUMBER:
        each = f"for $one in $all return if ({no_number}) then {_TYPES}double('NaN') else $one"
    else:
        each = f"if (some $one in $all satisfies ({no_number})) then () else $all"
    return f"{head}($values as item()*) as item()* {{ let $all := {_FUNCTIONS}data($values) return {each} }};"


def _truth() -> str:
    """Returns an expression: whether values hold as a condition. Of the types of one value, XQuery knows some."""
    known = " | ".join(f"{_TYPES}{name}" for name in ("string", "untypedAtomic", "anyURI", "boolean", *_NUMBERS))
    one = f"typeswitch ($values) case {known} return {_FUNCTIONS}boolean($values) default return {_FUNCTIONS}true()"
    is_sequence = f"{_FUNCTIONS}count($values) > 1 and {_FUNCTIONS}not($values[1] instance of node())"
    several = f"if ({is_sequence}) then {_FUNCTIONS}true() else {_FUNCTIONS}boolean($values)"
    return f"typeswitch ($values) case {_TYPES}anyAtomicType return {one} default return {several}"


def _conversion() -> str:
    """Returns an expression: a value as it is compared with another one, or nothing if it is none of its type.

    A comparison converts by itself, but raises an error, and Saxon 12 finds an untyped `NaN` greater than an integer.
    """
    numeric = " or ".join(f"$other instance of {_TYPES}{name}" for name in _NUMBERS)
    cases = [(numeric, "double"), *((f"$other instance of {_TYPES}{name}", name) for name in _COMPARED_TYPES)]
    chain = " else ".join(
        f"if ({is_other}) then (if ($value castable as {_TYPES}{name}) then {_TYPES}{name}($value) else ())"
        for is_other, name in cases
    )
    is_text = " or ".join(f"$value instance of {_TYPES}{name}" for name in ("untypedAtomic", "string"))
    return f"if ({_FUNCTIONS}not({is_text})) then $value else {chain} else $value"


# fmt: off
_FIRST_DECLARATIONS: Final = frozenset({
    "boundary-space", "default", "base-uri", "construction", "ordering", "copy-namespaces", "decimal-format",
    "namespace",
})
# fmt: on
"""What declarations that stand before all functions and variables declare."""


def _prolog_end(parts: Sequence[_Part]) -> int:
    """Returns behind how many parts functions can be declared."""
    end, statement = 0, list[str]()
    for at, part in enumerate(parts, start=1):
        if part.kind is _Kind.SPACE:
            continue
        if part.text != ";":
            statement.append(part.text)
            continue
        is_first = statement[:1] == ["xquery"] or (
            statement[:1] == ["declare"] and statement[1:2] and statement[1] in _FIRST_DECLARATIONS
        )
        if not is_first:
            break
        end, statement = at, []
    return end


@lru_cache(maxsize=1024)
def tolerant(query: str, is_condition: bool = False) -> str:
    """Returns a query as Saxon has to evaluate it, so that what is no number is no match.

    ``is_condition`` says that only the truth of the query matters.

    A text that no processor would read comes back as it is: brackets, strings or constructors in it do not end.
    """
    try:
        parts = _QueryReader(query).whole()
    except _Unread:
        return query
    end = _prolog_end(parts)
    writer = _QueryWriter(catches=_TRY.search(query) is not None)
    place = _Place.CONDITION if is_condition else _Place.VALUE
    # Declarations of the first part hold no expressions, but for the texts that they declare.
    head, body = writer.text(parts[:end], _Place.VALUE), writer.text(parts[end:], place)
    return f"{head}{_declarations(writer.called)} {body}" if writer.called else head + body
