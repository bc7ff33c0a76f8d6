"""Rules about who imports whom: layers, circles, the compiled module, the package face, the lab."""

from __future__ import annotations

from collections.abc import Mapping

from tests.architecture import python_sources, rust_sources
from tests.architecture.graphs import circles
from tests.architecture.layers import Layers, layers
from tests.architecture.python_sources import PACKAGE, SourceFile
from tests.architecture.rust_sources import RustFile

CORE_CRATE = "twigcast-core"
PACKETS_CRATE = "twigcast-packets"


def python_files_without_layer(
    files: Mapping[str, SourceFile] | None = None, python: Layers | None = None
) -> list[str]:
    """Returns the Python files that no layer names."""
    files, python = files or python_sources.package_files(), python or layers()["python"]
    return [path for path in files if python.layer_of(path) is None]


def python_imports_upwards(files: Mapping[str, SourceFile] | None = None, python: Layers | None = None) -> list[str]:
    """Returns the imports that the layers forbid. Those of the lab by the command line have a rule of their own."""
    files, python = files or python_sources.package_files(), python or layers()["python"]
    offenders = []
    for importer, targets in python_sources.import_graph(files).items():
        for imported in sorted(targets):
            objection = python.objection(importer, imported)
            if objection is not None:
                offenders.append(f"{importer} -> {imported}: {objection}")
    return offenders


def python_circles(files: Mapping[str, SourceFile] | None = None) -> list[str]:
    """Returns the groups of Python files that import each other, in functions and for type checking too."""
    graph = python_sources.import_graph(files or python_sources.package_files())
    return [" ".join(group) for group in circles(graph)]


def lab_imports(files: Mapping[str, SourceFile] | None = None, python: Layers | None = None) -> list[str]:
    """Returns the imports of the lab by the rest of the package, except those that the list allows."""
    files, python = files or python_sources.package_files(), python or layers()["python"]
    return [
        f"{importer} -> {imported}"
        for importer, targets in python_sources.import_graph(files).items()
        for imported in sorted(targets)
        if imported.startswith("lab/")
        and not importer.startswith("lab/")
        and imported not in python.importers_of_lab.get(importer, ())
    ]


def core_imports(files: Mapping[str, SourceFile] | None = None) -> list[str]:
    """Returns the imports of the compiled module in another form than ``from twigcast._core import X``."""
    core = f"{PACKAGE}._core"
    return [
        f"{path}: {item.module}.{item.name or ''}".rstrip(".")
        for path, file in (files or python_sources.package_files()).items()
        for item in file.imports
        if (item.module == core and item.name is None) or (item.module == PACKAGE and item.name == "_core")
    ]


def face_imports(files: Mapping[str, SourceFile] | None = None) -> list[str]:
    """Returns the imports of the package face, ``twigcast`` itself. A file names the module that it needs."""
    return [
        f"{path}: {item.name or PACKAGE}"
        for path, file in (files or python_sources.package_files()).items()
        for item in file.imports
        if item.module == PACKAGE and item.name != "_core"
    ]


# --- Rust -------------------------------------------------------------------------------------------------------------


def _below_source(path: str) -> str:
    return path.split("/src/", 1)[1]


def _core_files(files: Mapping[str, RustFile]) -> dict[str, RustFile]:
    return {path: file for path, file in files.items() if file.crate == CORE_CRATE and not path.endswith("/lib.rs")}


def rust_files_without_layer(files: Mapping[str, RustFile] | None = None, rust: Layers | None = None) -> list[str]:
    """Returns the files of the core that no layer names."""
    rust = rust or layers()["rust"]
    core = _core_files(files or rust_sources.crate_files())
    return [path for path, file in core.items() if not file.is_test and rust.layer_of(_below_source(path)) is None]


def rust_imports_upwards(files: Mapping[str, RustFile] | None = None, rust: Layers | None = None) -> list[str]:
    """Returns the uses of higher layers in the core: by the defining file, and by the path as written."""
    files, rust = files or rust_sources.crate_files(), rust or layers()["rust"]
    core = _core_files(files)
    offenders = set()
    for path, targets in rust_sources.file_graph(files).items():
        if path in core:
            offenders |= {_rust_offender(rust, path, _below_source(target)) for target in targets if target in core}
    for path, file in core.items():
        if file.is_test:
            continue
        for segments, _ in rust_sources.crate_paths(file):
            if len(segments) > 1:
                offenders.add(_rust_offender(rust, path, f"{segments[0]}/mod.rs"))
    return sorted(offenders - {""})


def _rust_offender(rust: Layers, path: str, target: str) -> str:
    objection = rust.objection(_below_source(path), target)
    return f"{path} -> {target.removesuffix('/mod.rs')}: {objection}" if objection else ""


def rust_circles(files: Mapping[str, RustFile] | None = None, rust: Layers | None = None) -> list[str]:
    """Returns the groups of Rust files that use each other, except those that the list names."""
    rust = rust or layers()["rust"]
    found = circles(rust_sources.file_graph(files or rust_sources.crate_files()))
    return [" ".join(group) for group in found if not any({_below_source(p) for p in group} <= c for c in rust.circles)]


def core_in_packets(files: Mapping[str, RustFile] | None = None) -> list[str]:
    """Returns the files of the packets' crate that name the core; that crate knows nothing of queries."""
    packets = {p: f for p, f in (files or rust_sources.crate_files()).items() if f.crate == PACKETS_CRATE}
    if not packets:
        return [f"there is no crate {PACKETS_CRATE}"]
    return sorted(
        path
        for path, file in packets.items()
        if any(name == "twigcast_core" for name, *_ in file.identifiers)
        or any(leaf.segments[0] == "twigcast_core" for leaf in file.uses)
    )


def module_styles(paths: list[str] | None = None) -> list[str]:
    """Returns the files ``x.rs`` that stand beside a folder ``x``: a module with parts is ``x/mod.rs``."""
    folder = rust_sources.CRATES_FOLDER
    if paths is None:
        paths = [path.relative_to(folder).as_posix() for path in folder.glob("*/src/**/*.rs")]
    folders = {path.rpartition("/")[0] for path in paths}
    return sorted(path for path in paths if path.removesuffix(".rs") in folders)
