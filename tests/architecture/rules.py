"""All rules by name. Each is a function that returns the offenders as texts, in a stable order and wording."""

from __future__ import annotations

from collections.abc import Callable

from tests.architecture import import_rules, layer_rules, name_rules, recipe_rules, text_rules, use_rules
from tests.architecture.exceptions import by_file

Rule = Callable[[], list[str]]


def _counted(rule: Rule) -> Rule:
    """Makes a rule with very many offenders count them by file."""
    return lambda: by_file(rule())


RULES: dict[str, Rule] = {
    "python-layers": layer_rules.python_imports_upwards,
    "python-files-have-layers": layer_rules.python_files_without_layer,
    "python-circles": layer_rules.python_circles,
    "lab-apart": layer_rules.lab_imports,
    "core-imports": layer_rules.core_imports,
    "face-imports": layer_rules.face_imports,
    "rust-layers": layer_rules.rust_imports_upwards,
    "rust-files-have-layers": layer_rules.rust_files_without_layer,
    "rust-circles": layer_rules.rust_circles,
    "packets-apart": layer_rules.core_in_packets,
    "rust-module-style": layer_rules.module_styles,
    "class-names": name_rules.class_names,
    "rust-type-names": name_rules.rust_type_names,
    "split-impls": name_rules.split_impls,
    "python-words": name_rules.python_words,
    "rust-words": name_rules.rust_words,
    "python-first-lines": _counted(text_rules.python_first_lines),
    "package-maps": text_rules.package_maps,
    "rust-first-lines": _counted(text_rules.rust_first_lines),
    "long-functions": text_rules.long_functions,
    "python-only-tests": use_rules.python_only_tests,
    "rust-only-tests": use_rules.rust_only_tests,
    "heavy-imports": import_rules.heavy_imports,
    "protocols-without-input": recipe_rules.protocols_with_input,
    "kinds-of-delivery": recipe_rules.kinds_of_delivery,
    "recipe-pages": recipe_rules.recipe_pages,
    "recipe-xpath-function": recipe_rules.xpath_functions,
    "recipe-delivery-channel": recipe_rules.delivery_channels,
    "recipe-spark-source-or-sink": recipe_rules.spark_sources_and_sinks,
    "recipe-overlay-protocol": recipe_rules.overlay_protocols,
    "recipe-published-figure": recipe_rules.published_figures,
    "recipe-error": recipe_rules.errors_with_cases,
}
RECIPES = [name for name in RULES if name.startswith("recipe-")]
HOUSE_RULES = [name for name in RULES if name not in RECIPES]

DETAILS: dict[str, Rule] = {
    "python-first-lines": text_rules.python_first_lines,
    "rust-first-lines": text_rules.rust_first_lines,
}
"""What stands behind the counts of counted rules."""

HINTS: dict[str, str] = {
    "python-layers": "move the name to a lower layer, or pass it in; layers.txt tells the layers",
    "python-files-have-layers": "name the file in layers.txt, in the layer where it belongs",
    "python-circles": "move what both files need to a third one below them",
    "lab-apart": "the product never imports the lab: move what it needs into the product",
    "core-imports": "write `from twigcast._core import X`",
    "face-imports": "import from the module that defines the name",
    "rust-layers": "move the item to a lower folder, or pass it in; layers.txt tells the layers",
    "rust-files-have-layers": "name the file or its folder in layers.txt, in the layer where it belongs",
    "rust-circles": "move what both files need to a third one below them",
    "packets-apart": "the crate of packets knows nothing of the core",
    "rust-module-style": "move x.rs to x/mod.rs",
    "class-names": "give one of the classes a name that says which of the two it is",
    "rust-type-names": "give one of the types a name that says which of the two it is",
    "split-impls": "gather the methods in fewer files, or in one folder, or part the type",
    "python-words": "take the word of the glossary",
    "rust-words": "take the word of the glossary",
    "python-first-lines": "begin with a sentence: 'Returns the keys of ...', for a class 'A set of ...'",
    "package-maps": "name the module in the docstring of its package, with its task",
    "rust-first-lines": "begin with a sentence: 'Returns the keys of ...', for a type 'A set of ...'",
    "long-functions": "part the function where its steps part",
    "python-only-tests": "use it, or move it to the tests or the lab, or delete it",
    "rust-only-tests": "use it, or move it to the tests, or delete it",
    "heavy-imports": "import the module in the function that uses it",
    "protocols-without-input": "time comes as `now`, messages as calls; drivers do the rest",
    "kinds-of-delivery": "ask broker/delivery/channels.py",
    "recipe-pages": "write the page in docs/extending",
    "recipe-xpath-function": "docs/extending/xpath-function.md",
    "recipe-delivery-channel": "docs/extending/delivery-channel.md",
    "recipe-spark-source-or-sink": "docs/extending/spark-source-or-sink.md",
    "recipe-overlay-protocol": "docs/extending/overlay-protocol.md",
    "recipe-published-figure": "docs/extending/published-figure.md",
    "recipe-error": "docs/extending/error.md",
}
"""What to do when a rule fails."""
