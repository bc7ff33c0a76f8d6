"""Reads the Python sources without importing them: imports, definitions and references of each file."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PACKAGE = "twigcast"
PACKAGE_FOLDER = REPOSITORY / "python" / PACKAGE

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Import:
    """One imported name: a module, or an object of a module."""

    module: str
    """The module that the statement names, without leading dots."""
    name: str | None
    """The name that is taken from the module; ``None`` for ``import module``."""
    line: int


@dataclass(frozen=True)
class Definition:
    """A name that a file defines, with all that the rules ask about it."""

    kind: str
    """``class``, ``function``, ``method``, ``property``, ``attribute`` or ``parameter``."""
    qualified_name: str
    line: int
    end_line: int
    is_public: bool
    is_nested: bool = False
    """It stands inside a function."""
    first_line: str | None = None
    """First line of the docstring, if there is one."""
    code_lines: int = 0
    """Lines of a function without its docstring."""
    decorators: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the qualified name."""
        return self.qualified_name.rpartition(".")[2]


@dataclass
class SourceFile:
    """One Python file, read once."""

    path: str
    """The path below the folder of the package, such as ``overlay/core.py``."""
    imports: list[Import] = field(default_factory=list)
    definitions: list[Definition] = field(default_factory=list)
    references: list[tuple[str, int]] = field(default_factory=list)
    """Identifiers that are read, with their lines, and strings that are identifiers."""
    compared: set[str] = field(default_factory=set)
    """The strings that something is compared with."""
    exported: set[str] = field(default_factory=set)
    """The strings of ``__all__``."""
    first_line: str | None = None
    """First line of the docstring of the module."""
    docstring: str = ""
    """The docstring of the module."""

    @property
    def module(self) -> str:
        """The dotted name of the module."""
        parts = self.path.removesuffix(".pyi").removesuffix(".py").split("/")
        if parts[-1] == "__init__":
            parts.pop()
        return ".".join([PACKAGE, *parts])


def _last_name(node: ast.expr) -> str:
    """Returns the last identifier of an expression such as ``a.b.C[T]`` or ``f(x)``."""
    while True:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return name
            case ast.Call(func=inner) | ast.Subscript(value=inner):
                node = inner
            case _:
                return ""


def _first_line(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    text = ast.get_docstring(node, clean=False)
    return None if text is None else text.strip().partition("\n")[0].strip()


def _target_names(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for item in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(item, ast.Name):
                yield item.id


def _is_public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


@dataclass(frozen=True)
class _Scope:
    """Where a statement stands."""

    name: str = ""
    """The names of the classes and functions around it."""
    kind: str = "module"
    """``module``, ``class`` or ``function``."""
    is_public: bool = True
    is_nested: bool = False
    """It stands inside a function."""

    def inner(self, name: str, kind: str) -> _Scope:
        """Returns the scope of a class or function that is defined here."""
        is_public = self.is_public and _is_public(name) and kind == "class" and not self.is_nested
        return _Scope(self.qualified(name), kind, is_public, self.is_nested or kind == "function")

    def qualified(self, name: str) -> str:
        """Returns a name with those around it."""
        return f"{self.name}.{name}" if self.name else name


class _Reader:
    """Fills one :class:`SourceFile` from its tree in a single walk."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file

    def read(self, tree: ast.Module) -> None:
        self.file.first_line = _first_line(tree)
        self.file.docstring = ast.get_docstring(tree) or ""
        self._body(tree.body, _Scope())

    def _body(self, body: Iterable[ast.AST], scope: _Scope) -> None:
        for statement in body:
            self._statement(statement, scope)

    def _statement(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, _FUNCTIONS):
            self._function(node, scope)
        elif isinstance(node, ast.ClassDef):
            self._class(node, scope)
        elif scope.kind != "function" and isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            self._body(ast.iter_child_nodes(node), scope)
        elif scope.kind != "function" and isinstance(node, ast.Assign | ast.AnnAssign):
            self._assignment(node, scope)
        else:
            self._expression(node, scope)

    def _define(self, kind: str, scope: _Scope, name: str, node: ast.AST, **more: Any) -> None:
        line: int = getattr(node, "lineno", 0)
        end_line: int = getattr(node, "end_lineno", None) or line
        is_public = more.pop("is_public", scope.is_public and _is_public(name) and not scope.is_nested)
        self.file.definitions.append(
            Definition(kind, scope.qualified(name), line, end_line, is_public, scope.is_nested, **more)
        )

    def _assignment(self, node: ast.Assign | ast.AnnAssign, scope: _Scope) -> None:
        for name in _target_names(node):
            self._define("attribute", scope, name, node)
            if name == "__all__" and isinstance(node.value, ast.List | ast.Tuple):
                values = (item.value for item in node.value.elts if isinstance(item, ast.Constant))
                self.file.exported |= {value for value in values if isinstance(value, str)}
                return
        self._expression(node, scope)

    def _class(self, node: ast.ClassDef, scope: _Scope) -> None:
        # A base of the same name comes from another package.
        bases = tuple(name if name != node.name else f"other.{name}" for name in map(_last_name, node.bases))
        decorators = tuple(map(_last_name, node.decorator_list))
        self._define(
            "class", scope, node.name, node, first_line=_first_line(node), bases=bases, decorators=decorators
        )  # fmt: skip
        for part in (*node.bases, *node.keywords, *node.decorator_list):
            self._expression(part, scope)
        self._body(node.body, scope.inner(node.name, "class"))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: _Scope) -> None:
        decorators = tuple(map(_last_name, node.decorator_list))
        is_property = any("property" in name or name in {"setter", "getter"} for name in decorators)
        has_doc = ast.get_docstring(node, clean=False) is not None
        first = node.body[0]
        doc_lines = (first.end_lineno or 0) - first.lineno + 1 if has_doc else 0
        kind = "property" if is_property else "method" if scope.kind == "class" else "function"
        lines = (node.end_lineno or node.lineno) - node.lineno + 1 - doc_lines
        first_line = _first_line(node)
        self._define(kind, scope, node.name, node, first_line=first_line, code_lines=lines, decorators=decorators)
        inner = scope.inner(node.name, "function")
        is_public = scope.is_public and _is_public(node.name) and not scope.is_nested
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            self._define("parameter", inner, argument.arg, argument, is_public=is_public)
        for part in (*node.decorator_list, arguments, node.returns):
            if part is not None:
                self._expression(part, scope)
        self._body(node.body[1:] if has_doc else node.body, inner)
        if scope.kind == "class" and scope.is_public and node.name in {"__init__", "__new__", "__post_init__"}:
            self._own_attributes(node, scope)

    def _own_attributes(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: _Scope) -> None:
        """Defines the attributes that the constructor assigns to ``self``."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Assign | ast.AnnAssign):
                for target in inner.targets if isinstance(inner, ast.Assign) else [inner.target]:
                    match target:
                        case ast.Attribute(value=ast.Name(id="self"), attr=name):
                            self._define("attribute", scope, name, target)

    def _expression(self, root: ast.AST, scope: _Scope) -> None:
        """Collects the references below a node, and the imports and definitions that stand in function bodies."""
        inside = replace(scope, kind="function", is_public=False, is_nested=True)
        stack = [root]
        while stack:
            node = stack.pop()
            reader = self._READERS.get(type(node))
            if reader is not None:
                reader(self, node)
            elif isinstance(node, _FUNCTIONS):
                self._function(node, inside)
                continue
            elif isinstance(node, ast.ClassDef):
                self._class(node, inside)
                continue
            stack.extend(ast.iter_child_nodes(node))

    def _refer(self, name: str, node: ast.Name | ast.Attribute | ast.Constant) -> None:
        self.file.references.append((name, node.lineno))

    def _name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._refer(node.id, node)

    def _attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self._refer(node.attr, node)

    def _constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.isidentifier():
            self._refer(node.value, node)

    def _compare(self, node: ast.Compare | ast.MatchValue) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                self.file.compared.add(inner.value)

    def _import(self, node: ast.Import) -> None:
        self.file.imports.extend(Import(alias.name, None, node.lineno) for alias in node.names)

    def _import_from(self, node: ast.ImportFrom) -> None:
        base = self._absolute(node)
        self.file.imports.extend(Import(base, alias.name, node.lineno) for alias in node.names)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.file.module.split(".")
        if not self.file.path.endswith("__init__.py"):
            parts.pop()
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, node.module] if node.module else parts)

    _READERS: ClassVar[dict[type, Callable[..., None]]] = {
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Constant: _constant,
        ast.Compare: _compare,
        ast.MatchValue: _compare,
        ast.Import: _import,
        ast.ImportFrom: _import_from,
    }


def read_source(path: str, text: str) -> SourceFile:
    """Reads one file from its text."""
    file = SourceFile(path)
    _Reader(file).read(ast.parse(text))
    return file


def _read_folder(folder: Path) -> dict[str, SourceFile]:
    files: dict[str, SourceFile] = {}
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder).as_posix()
        files[relative] = read_source(relative, path.read_text(encoding="utf-8"))
    return files


@functools.cache
def package_files() -> Mapping[str, SourceFile]:
    """Returns the files of the package by their paths below its folder."""
    return _read_folder(PACKAGE_FOLDER)


@functools.cache
def benchmark_files() -> Mapping[str, SourceFile]:
    """Returns the benchmarks by their paths below their folder."""
    return _read_folder(REPOSITORY / "benchmarks")


def imported_file(files: Mapping[str, SourceFile], item: Import) -> str | None:
    """Returns the file of the package that an import reads, or ``None`` for another package or the compiled module."""
    is_compiled = f"{PACKAGE}._core" in {item.module, f"{item.module}.{item.name}"}
    if is_compiled or (item.module != PACKAGE and not item.module.startswith(PACKAGE + ".")):
        return None
    base = "/".join(item.module.split(".")[1:])
    candidates = [] if item.name is None else [f"{base}/{item.name}".lstrip("/")]
    for stem in (*candidates, base):
        for path in (f"{stem}.py", f"{stem}/__init__.py".lstrip("/")):
            if path in files:
                return path
    return None


def import_graph(files: Mapping[str, SourceFile]) -> dict[str, set[str]]:
    """Returns which files each file imports, in functions and for type checking too."""
    graph: dict[str, set[str]] = {}
    for path, file in files.items():
        targets = (imported_file(files, item) for item in file.imports)
        graph[path] = {target for target in targets if target is not None and target != path}
    return graph
