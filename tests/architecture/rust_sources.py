"""Reads the Rust sources as far as the rules need it: items, their documentation, ``use`` declarations and paths.

A file is split into tokens; an item parser walks them and skips function bodies. It knows no types and expands no
macros: names that a macro defines are not seen. Code behind ``#[cfg(test)]`` is marked, and so are files whose ``mod``
declaration stands behind it.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
CRATES_FOLDER = REPOSITORY / "crates"

_TOKEN = re.compile(
    r"""
      (?P<doc>//[/!](?!/)[^\n]*)
    | (?P<comment>//[^\n]*|/\*(?s:.*?)\*/)
    | (?P<string>[bc]?"(?:[^"\\]|\\(?s:.))*"|[bc]?r(?P<hashes>\#*)"(?s:.*?)"(?P=hashes))
    | (?P<char>b?'(?:[^'\\\n]|\\(?:x[0-9a-fA-F]{2}|u\{[0-9a-fA-F_]+\}|.))')
    | (?P<lifetime>'[A-Za-z_]\w*)
    | (?P<ident>(?:r\#)?[A-Za-z_]\w*)
    | (?P<number>\d\w*(?:\.\d\w*)?)
    | (?P<path>::)
    | (?P<punct>->|=>|\S)
    """,
    re.VERBOSE,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_ITEM_WORDS = {"fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "impl", "use", "extern"}
_TYPE_KINDS = {"struct", "enum", "union", "trait", "type"}


@dataclass(frozen=True)
class Item:
    """An item, a field, a variant or an associated item."""

    kind: str
    name: str
    owner: str
    """The type or trait that it belongs to; empty at the top of a file."""
    line: int
    end_line: int
    is_public: bool
    """It is ``pub`` in any form, or belongs to a public trait or enum."""
    is_test: bool
    doc: str = ""
    attributes: tuple[str, ...] = ()
    is_trait_impl: bool = False


@dataclass(frozen=True)
class Impl:
    """One ``impl`` block."""

    type_name: str
    trait_name: str | None
    line: int
    is_test: bool


@dataclass(frozen=True)
class UseLeaf:
    """One name that a ``use`` declaration brings in."""

    segments: tuple[str, ...]
    alias: str
    is_glob: bool
    is_public: bool
    is_test: bool
    line: int


@dataclass
class RustFile:
    """One file of a crate, read once."""

    path: str
    """The path below ``crates``, such as ``twigcast-core/src/scan/mod.rs``."""
    items: list[Item] = field(default_factory=list)
    impls: list[Impl] = field(default_factory=list)
    uses: list[UseLeaf] = field(default_factory=list)
    paths: list[tuple[tuple[str, ...], int, bool]] = field(default_factory=list)
    """Paths of two segments or more outside ``use`` declarations: segments, line, whether a test uses it."""
    identifiers: list[tuple[str, int, bool]] = field(default_factory=list)
    """Identifiers outside ``use`` declarations: name, line, whether a test uses it."""
    strings: list[str] = field(default_factory=list)
    modules: dict[str, bool] = field(default_factory=dict)
    """The modules that it declares in files of their own, and whether they are tests."""
    doc: str = ""
    """The first paragraph of the documentation of the module."""
    is_test: bool = False

    @property
    def crate(self) -> str:
        """The folder of the crate."""
        return self.path.partition("/")[0]

    @property
    def module(self) -> tuple[str, ...]:
        """The path of the module in its crate; the root is empty."""
        parts = self.path.removesuffix(".rs").split("/")[2:]
        if parts[-1] in {"mod", "lib"}:
            parts.pop()
        return tuple(parts)


class _Reader:
    """Fills one :class:`RustFile` from its text."""

    def __init__(self, file: RustFile, text: str) -> None:
        self.file = file
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.offsets: list[int] = []
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or ""
            if kind == "comment":
                continue
            self.kinds.append("string" if kind == "hashes" else kind)
            self.texts.append(match.group())
            self.offsets.append(match.start())
        self.newlines = [match.start() for match in re.finditer("\n", text)]
        self.partner = self._match_brackets()
        self.tests: list[tuple[int, int]] = []
        """Ranges of tokens behind ``#[cfg(test)]`` or ``#[test]``."""
        self.inline_modules: list[tuple[int, int]] = []

    def line(self, index: int) -> int:
        return bisect.bisect_left(self.newlines, self.offsets[min(index, len(self.offsets) - 1)]) + 1

    def _match_brackets(self) -> dict[int, int]:
        partner: dict[int, int] = {}
        opened: list[int] = []
        for index, (kind, text) in enumerate(zip(self.kinds, self.texts, strict=True)):
            if kind != "punct":
                continue
            if text in _CLOSING:
                opened.append(index)
            elif text in ")]}":
                start = opened.pop()
                if _CLOSING[self.texts[start]] != text:
                    raise ValueError(f"{self.file.path}:{self.line(index)}: brackets do not match")
                partner[start] = index
        if opened:
            raise ValueError(f"{self.file.path}:{self.line(opened[-1])}: a bracket is not closed")
        return partner

    def read(self) -> None:
        self.file.doc = _first_paragraph(self._module_doc())
        self._items(0, len(self.texts), owner="", is_public=False, is_test=False, is_trait_impl=False)
        self._uses_and_paths()

    def _module_doc(self) -> list[str]:
        return [text[3:] for kind, text in zip(self.kinds, self.texts, strict=True) if kind == "doc" and text[2] == "!"]

    # --- items --------------------------------------------------------------------------------------------------------

    def _items(self, at: int, end: int, *, owner: str, is_public: bool, is_test: bool, is_trait_impl: bool) -> None:
        while at < end:
            at = self._item(at, end, owner, is_public=is_public, is_test=is_test, is_trait_impl=is_trait_impl)

    def _leading(self, at: int, end: int) -> tuple[int, list[str], list[str], bool]:
        """Reads documentation, attributes and visibility: the next token, both as texts, and whether it is ``pub``."""
        docs: list[str] = []
        attributes: list[str] = []
        while at < end:
            if self.kinds[at] == "doc":
                if self.texts[at][2] == "/":
                    docs.append(self.texts[at][3:])
                at += 1
            elif self.texts[at] == "#" and at + 1 < end and self.texts[at + 1] in {"[", "!"}:
                start = at + 1 if self.texts[at + 1] == "[" else at + 2
                attributes.append(" ".join(self.texts[start + 1 : self.partner[start]]))
                at = self.partner[start] + 1
            else:
                break
        is_public = at < end and self.texts[at] == "pub"
        if is_public:
            at += 1
            if at < end and self.texts[at] == "(":
                at = self.partner[at] + 1
        return at, docs, attributes, is_public

    def _item(self, at: int, end: int, owner: str, *, is_public: bool, is_test: bool, is_trait_impl: bool) -> int:
        start = at
        at, docs, attributes, has_pub = self._leading(at, end)
        if at >= end:
            return end
        is_test = is_test or any(
            attribute == "test" or (attribute.startswith("cfg (") and re.search(r"\btest\b", attribute) is not None)
            for attribute in attributes
        )
        at, kind = self._keyword(at, end)
        stop = self._stop(at, end, has_value=kind in {"const", "static", "type"})
        if is_test:
            self.tests.append((start, stop))
        if not kind:
            return stop
        public = has_pub or is_public
        if kind == "impl":
            self._impl(at, stop, is_test=is_test)
        elif kind == "use":
            pass
        else:
            name = next((t for t, k in zip(self.texts[at:stop], self.kinds[at:stop], strict=True) if k == "ident"), "")
            self.file.items.append(
                Item(
                    kind,
                    name,
                    owner,
                    self.line(at),
                    self.line(stop - 1),
                    public,
                    is_test,
                    _first_paragraph(docs),
                    tuple(attributes),
                    is_trait_impl,
                )
            )
            self._inside(kind, name, at, stop, is_public=public, is_test=is_test)
        return stop

    def _keyword(self, at: int, end: int) -> tuple[int, str]:
        """Skips qualifiers: the position behind the word that names the kind of item, and that word."""
        while at < end and self.kinds[at] == "ident":
            word = self.texts[at]
            following = self.texts[at + 1] if at + 1 < end else ""
            if word in {"unsafe", "async", "default"} or (word == "const" and following in {"fn", "unsafe", "async"}):
                at += 1
            elif word == "extern":
                at += 2 if self.kinds[at + 1] == "string" else 1
            elif word == "macro_rules" and following == "!":
                return at + 2, "macro"
            elif word in _ITEM_WORDS:
                return at + 1, word
            else:
                break
        return at, ""

    def _stop(self, at: int, end: int, *, has_value: bool) -> int:
        """Returns the position behind the item: behind its block, or behind its semicolon if it has a value."""
        while at < end:
            text = self.texts[at]
            if text == ";":
                return at + 1
            if text in _CLOSING and self.kinds[at] == "punct":
                at = self.partner[at]
                if text == "{" and not has_value:
                    return at + 1
            at += 1
        return end

    def _block(self, at: int, stop: int, bracket: str) -> tuple[int, int] | None:
        """Returns the inside of the item's block, if it has one of that kind."""
        while at < stop:
            if self.kinds[at] == "punct" and self.texts[at] in _CLOSING:
                if self.texts[at] == bracket:
                    return at + 1, self.partner[at]
                at = self.partner[at]
            at += 1
        return None

    def _inside(self, kind: str, name: str, at: int, stop: int, *, is_public: bool, is_test: bool) -> None:
        if kind == "mod":
            block = self._block(at, stop, "{")
            if block is None:
                self.file.modules[name] = is_test
            else:
                self.inline_modules.append(block)
                self._items(*block, owner="", is_public=False, is_test=is_test, is_trait_impl=False)
        elif kind == "trait" and (block := self._block(at, stop, "{")):
            self._items(*block, owner=name, is_public=is_public, is_test=is_test, is_trait_impl=False)
        elif kind in {"struct", "union"} and (block := self._block(at, stop, "{")):
            self._members(*block, owner=name, kind="field", is_public=False, is_test=is_test)
        elif kind == "enum" and (block := self._block(at, stop, "{")):
            self._members(*block, owner=name, kind="variant", is_public=is_public, is_test=is_test)

    def _members(self, at: int, end: int, *, owner: str, kind: str, is_public: bool, is_test: bool) -> None:
        """Reads fields or variants, which commas part."""
        while at < end:
            at, docs, attributes, has_pub = self._leading(at, end)
            if at >= end:
                return
            name, line = self.texts[at], self.line(at)
            depth = 0
            while at < end and not (self.texts[at] == "," and depth == 0):
                text = self.texts[at]
                if self.kinds[at] == "punct" and text in _CLOSING:
                    if kind == "variant" and text == "{":
                        self._members(
                            at + 1, self.partner[at], owner=f"{owner}::{name}", kind="field", is_public=is_public,
                            is_test=is_test,
                        )  # fmt: skip
                    at = self.partner[at]
                elif text == "<":
                    depth += 1
                elif text == ">":
                    depth -= 1
                at += 1
            public = has_pub or is_public
            self.file.items.append(
                Item(kind, name, owner, line, line, public, is_test, _first_paragraph(docs), tuple(attributes))
            )
            at += 1

    def _impl(self, at: int, stop: int, *, is_test: bool) -> None:
        line = self.line(at)
        names: list[str] = [""]
        depth = 0
        while at < stop and (self.texts[at] != "{" or depth):
            text = self.texts[at]
            if text == "<":
                depth += 1
            elif text == ">":
                depth -= 1
            elif depth == 0 and self.texts[at] in {"(", "["}:
                at = self.partner[at]
            elif depth == 0 and self.kinds[at] == "ident":
                if text == "for":
                    names.append("")
                elif text == "where":
                    break
                elif text not in {"dyn", "mut"}:
                    names[-1] = text
            at += 1
        block = self._block(at, stop, "{")
        trait = names[0] if len(names) > 1 else None
        self.file.impls.append(Impl(names[-1], trait, line, is_test))
        if block is not None:
            self._items(*block, owner=names[-1], is_public=False, is_test=is_test, is_trait_impl=trait is not None)

    # --- use declarations and paths -----------------------------------------------------------------------------------

    def _is_test(self, index: int) -> bool:
        return any(start <= index < stop for start, stop in self.tests)

    def _outside(self, index: int, segments: tuple[str, ...]) -> tuple[str, ...]:
        """Returns a path in a module without a file of its own as the file around it would write it."""
        for start, stop in self.inline_modules:
            if start <= index < stop and segments[0] == "super":
                segments = ("self", *segments[1:]) if segments[1:2] != ("super",) else segments[1:]
        return segments

    def _uses_and_paths(self) -> None:
        at, count = 0, len(self.texts)
        while at < count:
            kind, text = self.kinds[at], self.texts[at]
            if kind == "string":
                self.file.strings.append(text)
            elif kind == "ident":
                if text == "use" and self.texts[at + 1] != "<":
                    at = self._use(at)
                    continue
                at = self._path(at)
                continue
            at += 1

    def _use(self, at: int) -> int:
        before = at - 1
        if before >= 0 and self.texts[before] == ")":
            while self.texts[before] != "(":
                before -= 1
            before -= 1
        is_public = before >= 0 and self.texts[before] == "pub"
        is_test, line = self._is_test(at), self.line(at)
        end = at
        while self.texts[end] != ";":
            end += 1
        for segments, alias, is_glob in self._use_tree(at + 1, end, ()):
            self.file.uses.append(UseLeaf(self._outside(at, segments), alias, is_glob, is_public, is_test, line))
        return end + 1

    def _use_tree(self, at: int, end: int, prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, bool]]:
        segments = prefix
        alias: str | None = None
        while at < end:
            text = self.texts[at]
            if text == "{":
                inner, stop = at + 1, self.partner[at]
                while inner < stop:
                    depth, part_end = 0, inner
                    while part_end < stop and not (self.texts[part_end] == "," and depth == 0):
                        depth += {"{": 1, "}": -1}.get(self.texts[part_end], 0)
                        part_end += 1
                    if part_end > inner:
                        yield from self._use_tree(inner, part_end, segments)
                    inner = part_end + 1
                return
            if text == "*":
                yield segments, "*", True
                return
            if text == "as":
                alias = self.texts[at + 1]
                break
            if self.kinds[at] == "ident" and not (text == "self" and segments):
                segments = (*segments, text)
            at += 1
        yield segments, alias or segments[-1], False

    def _path(self, at: int) -> int:
        """Reads an identifier or a path of several; the position behind it."""
        segments = [self.texts[at]]
        start = at
        at += 1
        while at + 1 < len(self.texts) and self.kinds[at] == "path" and self.kinds[at + 1] == "ident":
            segments.append(self.texts[at + 1])
            at += 2
        is_test, line = self._is_test(start), self.line(start)
        if len(segments) > 1:
            self.file.paths.append((self._outside(start, tuple(segments)), line, is_test))
        self.file.identifiers.extend((segment, line, is_test) for segment in segments)
        return at


def _first_paragraph(lines: list[str]) -> str:
    paragraph: list[str] = []
    for line in lines:
        if line.strip():
            paragraph.append(line.strip())
        elif paragraph:
            break
    return " ".join(paragraph)


def read_source(path: str, text: str) -> RustFile:
    """Reads one file from its text."""
    file = RustFile(path)
    _Reader(file, text).read()
    return file


def mark_tests(files: Mapping[str, RustFile]) -> None:
    """Marks the files whose ``mod`` declaration, or that of a module around them, is a test."""
    by_module = {(file.crate, file.module): file for file in files.values()}
    for file in files.values():
        for length in range(len(file.module)):
            parent = by_module.get((file.crate, file.module[:length]))
            if parent is not None and parent.modules.get(file.module[length], False):
                file.is_test = True


@functools.cache
def crate_files() -> Mapping[str, RustFile]:
    """Returns the files below ``src`` of each crate, by their paths below the folder of the crates."""
    files: dict[str, RustFile] = {}
    for path in sorted(CRATES_FOLDER.glob("*/src/**/*.rs")):
        relative = path.relative_to(CRATES_FOLDER).as_posix()
        files[relative] = read_source(relative, path.read_text(encoding="utf-8"))
    mark_tests(files)
    return files


class Resolver:
    """Finds the file that defines what a path names."""

    def __init__(self, files: Mapping[str, RustFile]) -> None:
        self.files = files
        self.by_module = {(file.crate, file.module): file for file in files.values()}
        self.defined = {
            path: {item.name for item in file.items if not item.owner and item.kind != "mod"}
            for path, file in files.items()
        }
        self.bindings = {
            path: {leaf.alias: leaf for leaf in file.uses if not leaf.is_glob} for path, file in files.items()
        }

    def resolve(self, file: RustFile, segments: tuple[str, ...], depth: int = 0) -> tuple[RustFile, str] | None:
        """Returns the file that a path leads to, and the name in it; the name is empty for the module itself.

        Re-exports are followed to where the name is defined. Paths that leave the crate give ``None``.
        """
        if depth > 8:
            return None
        module = list(file.module)
        rest = list(segments)
        if rest[0] == "crate":
            module, rest = [], rest[1:]
        elif rest[0] in {"self", "super"}:
            while rest and rest[0] in {"self", "super"}:
                if rest.pop(0) == "super":
                    module.pop()
        elif rest[0] not in file.modules:
            leaf = self.bindings[file.path].get(rest[0])
            if leaf is None or leaf.segments == segments:
                return None
            return self.resolve(file, (*leaf.segments, *rest[1:]), depth + 1)
        current = self.by_module.get((file.crate, tuple(module)))
        return None if current is None else self._descend(current, rest, depth)

    def _descend(self, current: RustFile, rest: list[str], depth: int) -> tuple[RustFile, str] | None:
        while rest:
            child = self.by_module.get((current.crate, (*current.module, rest[0])))
            if child is None or rest[0] not in current.modules:
                break
            current = child
            rest = rest[1:]
        if not rest:
            return current, ""
        name = rest[0]
        if name in self.defined[current.path]:
            return current, name
        leaf = self.bindings[current.path].get(name)
        if leaf is not None:
            return self.resolve(current, (*leaf.segments, *rest[1:]), depth + 1)
        for leaf in self.files[current.path].uses:
            if leaf.is_glob and leaf.is_public:
                target = self.resolve(current, leaf.segments, depth + 1)
                if target is not None and name in self.defined[target[0].path]:
                    return target[0], name
        return current, name


def _leaf_targets(resolver: Resolver, file: RustFile, words: set[str]) -> Iterator[tuple[RustFile, int]]:
    for leaf in file.uses:
        if leaf.is_test:
            continue
        target = resolver.resolve(file, leaf.segments)
        if target is None:
            continue
        definer, name = target
        if leaf.is_glob:
            if name or words & resolver.defined[definer.path]:
                yield definer, leaf.line
        # A module brings in nothing by itself; a re-export is a use only where the file itself uses the name.
        elif name and (not leaf.is_public or leaf.alias in words):
            yield definer, leaf.line


def file_graph(files: Mapping[str, RustFile]) -> dict[str, dict[str, int]]:
    """Returns which files of the same crate each file uses outside tests, with the first line that does."""
    resolver = Resolver(files)
    graph: dict[str, dict[str, int]] = {}
    for path, file in files.items():
        if file.is_test:
            continue
        words = {name for name, _, is_test in file.identifiers if not is_test}
        targets = list(_leaf_targets(resolver, file, words))
        for segments, line, is_test in file.paths:
            if not is_test and (target := resolver.resolve(file, segments)) is not None:
                targets.append((target[0], line))
        edges = graph.setdefault(path, {})
        for definer, line in targets:
            if definer.path != path and not definer.is_test:
                edges[definer.path] = min(line, edges.get(definer.path, line))
    return graph


def crate_paths(file: RustFile) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yields the absolute paths that a file writes outside tests, re-exports not followed."""
    for leaf in file.uses:
        if not leaf.is_test:
            yield _absolute(file, leaf.segments), leaf.line
    for segments, line, is_test in file.paths:
        if not is_test and segments[0] in {"crate", "super"}:
            yield _absolute(file, segments), line


def _absolute(file: RustFile, segments: tuple[str, ...]) -> tuple[str, ...]:
    if segments[0] == "crate":
        return segments[1:]
    module = list(file.module)
    rest = list(segments)
    if rest[0] not in {"self", "super"}:
        return ()
    while rest and rest[0] in {"self", "super"}:
        if rest.pop(0) == "super":
            module.pop()
    return (*module, *rest)
