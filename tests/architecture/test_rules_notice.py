"""Each rule notices what it forbids, and lets pass what it allows: on sources of a few lines."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.architecture import (
    import_rules,
    layer_rules,
    name_rules,
    python_sources,
    rust_sources,
    text_rules,
    use_rules,
)
from tests.architecture.exceptions import Exceptions, differences, read_exceptions, renewed
from tests.architecture.graphs import circles
from tests.architecture.layers import Layers, read_layers
from tests.architecture.python_sources import SourceFile
from tests.architecture.rust_sources import RustFile

LAYERS = """
[python]
base     {errors,limits}.py
reading  reading/
outward  web/ {config,__init__}.py
spark    spark/   | up to base | and reading/text.py
client   client/  | only errors.py
lab      lab/     | up to spark | not out
cli      cli/

[inside outward]
config.py  -> web/push.py
web/       ->

[lab importers]
cli/__init__.py -> lab/commands.py

[rust]
base   ids util
scan   scan document
engine engine

[rust circles]
engine/{mod,part}.rs
"""


def python_layers() -> Layers:
    return read_layers(LAYERS)["python"]


def rust_layers() -> Layers:
    return read_layers(LAYERS)["rust"]


def _path(name: str) -> str:
    return re.sub(r"(?<=[a-z])__(?=[a-z_])", "/", name)


def python_package(**texts: str) -> dict[str, SourceFile]:
    """Makes a package; `a__b` stands for the file a/b.py."""
    paths = {f"{_path(name)}.py": text for name, text in texts.items()}
    return {path: python_sources.read_source(path, text) for path, text in paths.items()}


def crate(name: str = "twigcast-core", **texts: str) -> dict[str, RustFile]:
    """Makes a crate; `a__b` stands for the file a/b.rs."""
    paths = {f"{name}/src/{_path(key)}.rs": text for key, text in texts.items()}
    files = {path: rust_sources.read_source(path, text) for path, text in paths.items()}
    rust_sources.mark_tests(files)
    return files


# --- layers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("importer", "statement", "is_allowed"),
    [
        ("reading__text", "from twigcast.errors import E", True),
        ("errors", "from twigcast.reading import text", False),
        ("errors", "def f():\n    from twigcast.reading.text import T", False),
        ("errors", "if TYPE_CHECKING:\n    import twigcast.reading.text", False),
        ("reading__other", "from . import text", True),
        ("limits", "from .reading import text", False),
        ("spark__a", "from twigcast.reading.text import T", True),
        ("spark__a", "from twigcast.reading import other", False),
        ("client__a", "from twigcast.errors import E", True),
        ("client__a", "from twigcast.limits import L", False),
        ("lab__a", "from twigcast.spark.b import B", True),
        ("lab__a", "from twigcast.web.push import P", False),
        ("config", "from twigcast.web.push import P", True),
        ("config", "from twigcast.web.pull import P", False),
        ("web__push", "import twigcast.config", False),
    ],
)
def test_imports_upwards(importer: str, statement: str, *, is_allowed: bool) -> None:
    others = (
        "errors",
        "limits",
        "config",
        "reading____init__",
        "reading__text",
        "reading__other",
        "spark__b",
        "web__push",
        "web__pull",
    )
    files = python_package(**{**dict.fromkeys(others, ""), importer: statement})
    assert (layer_rules.python_imports_upwards(files, python_layers()) == []) == is_allowed


def test_files_without_layer() -> None:
    files = python_package(errors="", somewhere="")
    assert layer_rules.python_files_without_layer(files, python_layers()) == ["somewhere.py"]


def test_python_circles() -> None:
    files = python_package(
        a="from twigcast.b import B",
        b="def f():\n    from twigcast import c",
        c="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from twigcast.a import A",
        d="import twigcast.a",
    )
    assert layer_rules.python_circles(files) == ["a.py b.py c.py"]


def test_circles_of_a_graph() -> None:
    graph = {"a": ["b"], "b": ["c", "a"], "c": ["d"], "d": ["c"], "e": ["a"], "f": ["f"]}
    assert circles(graph) == [["a", "b"], ["c", "d"]]


def test_imports_of_the_lab() -> None:
    files = python_package(
        lab____init__="",
        lab__commands="",
        lab__tool="from twigcast.lab import commands",
        cli____init__="from twigcast.lab import commands\nfrom twigcast.lab.tool import T",
        config="import twigcast.lab.commands",
    )
    assert layer_rules.lab_imports(files, python_layers()) == [
        "cli/__init__.py -> lab/tool.py",
        "config.py -> lab/commands.py",
    ]


def test_imports_of_the_compiled_module_and_the_face() -> None:
    files = python_package(
        __init__="",
        a="from twigcast._core import Engine",
        b="from twigcast import _core",
        c="import twigcast._core",
        d="from twigcast import Match",
        e="import twigcast",
    )
    assert layer_rules.core_imports(files) == ["b.py: twigcast._core", "c.py: twigcast._core"]
    assert layer_rules.face_imports(files) == ["d.py: Match", "e.py: twigcast"]


# --- Rust -------------------------------------------------------------------------------------------------------------

CORE = {
    "lib": "mod engine; mod scan; mod util; mod document;",
    "document": "pub struct Document;",
    "util__mod": "pub mod table;",
    "util__table": "pub struct Table;",
    "scan__mod": "use crate::document::Document; pub struct Scanner(Document);",
    "engine__mod": "mod part; pub use self::part::Part; use crate::scan::Scanner; pub struct Engine { part: Part }",
    "engine__part": "use super::Engine; pub struct Part<'a> { engine: &'a Engine }",
}


def test_rust_layers_and_circles() -> None:
    files = crate(**CORE)
    assert layer_rules.rust_imports_upwards(files, rust_layers()) == []
    assert layer_rules.rust_files_without_layer(files, rust_layers()) == []
    assert layer_rules.rust_circles(files, rust_layers()) == []
    assert layer_rules.rust_circles(files, Layers()) == [
        "twigcast-core/src/engine/mod.rs twigcast-core/src/engine/part.rs"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "use crate::engine::Engine;",
        "use crate::{document::Document, engine::{self, Part}};",
        "fn f() { let x: crate::engine::Engine = make(); }",
        "use super::super::engine::*; fn f(e: Engine) {}",
        "use crate::engine; fn f() { engine::Engine::new() }",
    ],
)
def test_rust_upwards(text: str) -> None:
    files = crate(**{**CORE, "util__table": text})
    assert layer_rules.rust_imports_upwards(files, rust_layers())


@pytest.mark.parametrize(
    "text",
    [
        "// use crate::engine::Engine;\npub struct Table;",
        'fn f() -> &\'static str { "crate::engine::Engine" }',
        "#[cfg(test)] mod tests { use crate::engine::Engine; }",
        "fn f<'engine>(x: &'engine u8) -> char { 'e' }",
    ],
)
def test_rust_not_upwards(text: str) -> None:
    files = crate(**{**CORE, "util__table": text})
    assert layer_rules.rust_imports_upwards(files, rust_layers()) == []


def test_re_exports_lead_to_the_file_that_defines() -> None:
    files = crate(
        lib="mod a; mod b;",
        a__mod="mod inner; pub use inner::Thing;",
        a__inner="pub struct Thing;",
        b="use crate::a::Thing; fn f(t: Thing) {}",
    )
    assert rust_sources.file_graph(files)["twigcast-core/src/b.rs"] == {"twigcast-core/src/a/inner.rs": 1}
    assert rust_sources.file_graph(files)["twigcast-core/src/a/mod.rs"] == {}


def test_items_end_where_they_end() -> None:
    text = """
fn items() -> impl Iterator<Item = u8> { a() }
const TABLE: [u8; 2] = [{ 1 }, 2];
static PAIR: Pair = Pair { left: 1 };
type Map<T = u8> = Vec<T>;
struct Wide<T = u8> { pub left: Vec<(u8, T)>, right: [u8; 2] }
struct Tuple(pub u8, u8);
trait Shape: Iterator<Item = u8> { fn area(&self) -> u8; fn name(&self) {} }
macro_rules! ids { ($x:ident) => { struct $x; } }
pub(crate) unsafe extern "C" fn last(x: [u8; 2]) where u8: Copy { if x { 'a' } }
"""
    (file,) = crate(a=text).values()
    assert [(item.kind, item.name, item.owner) for item in file.items] == [
        ("fn", "items", ""),
        ("const", "TABLE", ""),
        ("static", "PAIR", ""),
        ("type", "Map", ""),
        ("struct", "Wide", ""),
        ("field", "left", "Wide"),
        ("field", "right", "Wide"),
        ("struct", "Tuple", ""),
        ("trait", "Shape", ""),
        ("fn", "area", "Shape"),
        ("fn", "name", "Shape"),
        ("macro", "ids", ""),
        ("fn", "last", ""),
    ]


def test_files_of_tests_are_left_out() -> None:
    files = crate(lib="#[cfg(test)] mod tests; mod a;", tests__mod="mod deep;", tests__deep="", a="")
    assert [path for path, file in files.items() if file.is_test] == [
        "twigcast-core/src/tests/mod.rs",
        "twigcast-core/src/tests/deep.rs",
    ]


def test_packets_know_nothing_of_the_core() -> None:
    assert layer_rules.core_in_packets(crate("twigcast-packets", lib="use std::fmt;")) == []
    assert layer_rules.core_in_packets(crate("twigcast-packets", lib="use twigcast_core::scan;"))
    assert layer_rules.core_in_packets(crate("twigcast-packets", lib="fn f() { twigcast_core::scan::g() }"))
    assert layer_rules.core_in_packets(crate(lib=""))


def test_module_style() -> None:
    paths = ["c/src/a.rs", "c/src/a/b.rs", "c/src/d/mod.rs", "c/src/d/e.rs", "c/src/f.rs"]
    assert layer_rules.module_styles(paths) == ["c/src/a.rs"]


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "is_used"),
    [
        ("made", False),
        ("is_made", False),
        ("RoomId", False),
        ("HTTPWay", False),
        ("PLACES_MAX", True),
        ("placeholder", True),
        ("look", False),
        ("look_up", True),
        ("replace", True),
        ("_give_way", False),
    ],
)
def test_words_of_names(name: str, *, is_used: bool) -> None:
    assert name_rules.has_unused_word(name) == (not is_used)


def test_words_of_python_names() -> None:
    files = python_package(
        given="",
        a="""
class C:
    made: int
    def look(self, way, *, crowd=1): ...
    def _told(self, thing): ...
    def __init__(self): self.room = 1; self._late = 2
def f():
    made = 1
    def known(): ...
""",
    )
    assert name_rules.python_words(files) == [
        "a.py: C.look",
        "a.py: C.look.crowd",
        "a.py: C.look.way",
        "a.py: C.made",
        "a.py: C.room",
        "given.py: its name",
    ]


def test_words_of_rust_names() -> None:
    files = crate(
        lib="mod late;",
        late="""
pub struct Told { pub made: u8, room: u8 }
pub(crate) enum Kind { Known { way: u8 }, Other(u8) }
impl Told { pub fn look(&self) {} fn hear(&self) {} }
trait Private { fn place(&self); }
#[cfg(test)] mod tests { pub fn known() {} }
""",
    )
    assert [entry.removeprefix("twigcast-core/src/late.rs: ") for entry in name_rules.rust_words(files)] == [
        "Kind::Known",
        "Kind::Known::way",
        "Told",
        "Told::look",
        "Told::made",
        "its name",
    ]


def test_class_names_occur_once() -> None:
    files = python_package(
        a="class Match: ...",
        b="class Outer:\n    class Match: ...",
        client__values="class Match: ...",
        client__other="class Page: ...",
        lab__reference__x="class State: ...",
        lab__reference__y="class State: ...",
        lab__other="class Match: ...",
    )
    assert name_rules.class_names(files) == ["Match: a.py b.py lab/other.py"]


def test_rust_types_occur_once() -> None:
    files = crate(
        a="struct Item; impl Iterator for Item { type Output = u8; } trait Show { type Output; }",
        b="enum Item {} type Alias = u8;",
        c="#[cfg(test)] mod tests { struct Alias; }",
    )
    assert name_rules.rust_type_names(files) == ["twigcast-core Item: twigcast-core/src/a.rs twigcast-core/src/b.rs"]


def test_impls_lie_together() -> None:
    block = "impl<'a, T: Into<u8>> super::Engine<'a, T> where T: Copy { fn f() {} }"
    scattered = crate(a__x=block, a__y=block, b__x=block, b__y=block)
    assert [entry.partition(":")[0] for entry in name_rules.split_impls(scattered)] == ["twigcast-core Engine"]
    assert name_rules.split_impls(crate(a__w=block, a__x=block, a__y=block, a__z=block)) == []
    assert name_rules.split_impls(crate(a__x=block, b__x=block, c__x=block)) == []
    trait = "impl fmt::Display for Engine {}"
    assert name_rules.split_impls(crate(a__x=trait, a__y=trait, b__x=trait, b__y=trait)) == []


# --- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "needs_verb", "is_sentence"),
    [
        ("Returns the keys.", True, True),
        ("Passes deliveries on.", True, True),
        ("Returns the keys", True, False),
        ("The keys.", True, False),
        ("Return the keys.", True, False),
        ("Keys of the set.", True, False),
        ("Names that occur.", True, False),
        ("Its keys.", True, False),
        ("Is it empty?", True, False),
        ("A set of keys.", False, True),
        ("Receives results.", False, True),
        ("Settings of a broker.", False, True),
        ("A set of keys", False, False),
        ("What is told.", False, False),
        ("`Node` of a tree.", False, True),
        ("one key.", False, False),
    ],
)
def test_first_lines(text: str, *, needs_verb: bool, is_sentence: bool) -> None:
    assert text_rules.is_sentence(text, needs_verb=needs_verb) == is_sentence


def test_first_lines_of_files() -> None:
    python = python_package(
        a='"""Why not?"""\nclass C:\n    """A set."""\n    def f(self):\n        """The keys."""\n'
        '    @property\n    def size(self):\n        """Number of keys."""\n    def _g(self):\n        """x"""\n',
        cli__a='"""A command."""\ndef run():\n    """Run it."""\n',
    )
    assert text_rules.python_first_lines(python) == ["a.py: the module", "a.py: C.f"]
    rust = crate(
        lib="//! What for?\n/// A set\n/// of keys. More of it\npub struct Set;\n"
        "impl Set {\n /// The keys.\n pub fn keys(&self) {}\n /// x\n fn own(&self) {}\n}\n"
    )
    assert text_rules.rust_first_lines(rust) == [
        "twigcast-core/src/lib.rs: the module",
        "twigcast-core/src/lib.rs: Set::keys",
    ]


def test_maps_of_packages() -> None:
    files = python_package(
        __init__='"""A package.\n\n- ``a``: something\n"""\n',
        a="",
        b="",
        c____init__='"""A folder: `d`, `e.py`."""\n',
        c__d="",
        c__e="",
        c__f="",
        c____main__="",
    )
    assert text_rules.package_maps(files) == ["__init__.py: b", "__init__.py: c", "c/__init__.py: f"]


def test_long_functions() -> None:
    body = "    x = 1\n" * 68
    files = python_package(
        a=f"def f():\n{body}\ndef g():\n    x = 1\n{body}", b=f'def h():\n    """\n    Long.\n    """\n{body}'
    )
    rust = crate(a="fn f() {\n" + "g();\n" * 67 + "}\nfn h() {\n" + "g();\n" * 68 + "}\n")
    assert text_rules.long_functions(files, rust) == ["a.py: g", "twigcast-core/src/a.rs: h"]


# --- use --------------------------------------------------------------------------------------------------------------


def test_what_only_tests_call_in_python() -> None:
    files = python_package(
        a="""
def used(): ...
def unused(): only_from_unused()
def only_from_unused(): ...
def recursive(): return recursive()
def measured(): ...
def documented(): ...
@command
def registered(): ...
class Handler(other.Base):
    def on_event(self): ...
class Plain:
    def orphan(self): ...
""",
        b="from twigcast.a import used, unused\nused()\nHandler\nPlain",
        lab__a="def only_for_tests(): ...",
    )
    benchmarks = {"x.py": python_sources.read_source("x.py", "measured()")}
    assert use_rules.python_only_tests(files, benchmarks, lambda: {"documented"}) == [
        "a.py: Plain.orphan",
        "a.py: only_from_unused",
        "a.py: recursive",
        "a.py: unused",
    ]


def test_what_only_tests_call_in_rust() -> None:
    core = crate(
        lib="mod a;",
        a="""
pub fn used() { helper() }
fn helper() {}
pub fn unused() {}
impl A { pub fn orphan(&self) { used() } }
impl Show for A { fn shown(&self) {} }
#[cfg(test)] mod tests { fn t() { super::unused(); A.orphan(); } }
""",
        b="fn f() { crate::a::used() }",
    )
    binding = crate(
        "twigcast-python",
        lib="""
#[pymethods] impl B { fn seen(&self) {} fn unseen(&self) {} fn __len__(&self) {} }
#[pyfunction] #[pyo3(name = "other")] pub fn renamed() {}
""",
    )
    assert use_rules.rust_only_tests({**core, **binding}, lambda: {"seen", "other"}) == [
        "twigcast-core/src/a.rs: A::orphan",
        "twigcast-core/src/a.rs: unused",
        "twigcast-python/src/lib.rs: B::unseen",
    ]


def test_imports_of_a_statement_are_noticed() -> None:
    assert import_rules.imported_modules("import asyncio") & import_rules.HEAVY_MODULES >= {"asyncio", "ssl"}
    assert "twigcast.errors" in import_rules.imported_modules("import twigcast.errors")


# --- exceptions -------------------------------------------------------------------------------------------------------


def test_new_offenders_and_stale_exceptions_are_noticed() -> None:
    assert differences(["a", "b", "b"], Counter({"b": 1, "c": 1})) == (["a", "b"], ["c"])


def test_the_list_only_shrinks() -> None:
    tables = [Exceptions("r", "why", ["a", "b"]), Exceptions("counted", "why", counts={"x.py": 3, "y.py": 1})]
    result, grown = renewed(tables, {"r": ["b"], "counted": ["x.py", "x.py", "z.py"]})
    assert [(table.entries, table.counts) for table in result] == [(["b"], {}), ([], {"x.py": 2, "z.py": 1})]
    assert grown == {}
    result, grown = renewed(tables, {"r": ["a", "b", "c"], "counted": [], "other": ["d"]})
    assert (result, grown) == (tables[:1], {"r": ["c"], "other": ["d"]})


def test_exceptions_are_read() -> None:
    text = '[[exceptions]]\nrule = "r"\nreason = "why"\nentries = ["a"]\n[exceptions.counts]\n"x.py" = 2\n'
    assert read_exceptions(text) == [Exceptions("r", "why", ["a"], {"x.py": 2})]
