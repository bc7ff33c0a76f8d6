"""All experiments and illustrations, found in the packages of the publications."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from twigcast.errors import TwigcastError
from twigcast.lab.experiments.framework.model import Experiment, Illustration
from twigcast.lab.experiments.framework.variants import SUFFIX, renamed
from twigcast.lab.experiments.reporting.illustrations import ILLUSTRATIONS

PACKAGES = (
    "twigcast.lab.experiments.diao2005",
    "twigcast.lab.experiments.dai2009",
    "twigcast.lab.experiments.miliaraki2008",
    "twigcast.lab.experiments.codd",
    "twigcast.lab.experiments.onyx",
)
GROUPS = {"chord": "M-", "codd": "C-", "onyx": "O-"}
"""Names for all experiments of one publication: the prefix of their ids."""


class UnknownExperimentError(TwigcastError, LookupError):
    """The error of an id that no experiment has."""

    code = "unknown-experiment"


@cache
def experiments() -> tuple[Experiment, ...]:
    """Returns all experiments, in the order of the publications.

    A module holds one, several parts of one figure, or only what the others share.
    """
    results: list[Experiment] = []
    for package in PACKAGES:
        for module in sorted(info.name for info in iter_modules(import_module(package).__path__)):
            results.extend(getattr(import_module(f"{package}.{module}"), "EXPERIMENTS", ()))
    return tuple(results)


def experiment_by_id(name: str) -> Experiment:
    """Returns one experiment. For a variant (``D-F4.6@nitf``) it has that name, and the points of the original.

    Raises:
        UnknownExperimentError: there is none of that id.
    """
    base, variant, _ = name.lower().partition(SUFFIX)
    for experiment in experiments():
        if experiment.id.lower() == base:
            return renamed(experiment) if variant else experiment
    raise UnknownExperimentError(f"no experiment {name!r}; `twigcast experiment list` names them")


def illustrations() -> tuple[Illustration, ...]:
    """Returns the figures and tables without measurements."""
    return ILLUSTRATIONS
