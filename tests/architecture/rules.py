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
