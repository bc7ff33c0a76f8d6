"""Variables of the environment: the broker refuses what it does not know, so those of tests are named as such."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.architecture.python_sources import REPOSITORY
from twigcast.broker.config import FOR_TESTS, OTHER_VARIABLES, Settings, variable_of

SET_OR_READ = re.compile(r"""(?:environ(?:\.get\(|\[)|getenv\()["'](TWIGCAST_\w+)|\b(TWIGCAST_\w+)=""")


def variables_of_recipes_and_tests() -> Iterator[tuple[str, str]]:
    """Yields each variable of Twigcast's that CI, make or a test sets or reads, with the file."""
    for path in (REPOSITORY / ".ci" / "run", REPOSITORY / "Makefile", *sorted((REPOSITORY / "tests").rglob("*.py"))):
        for groups in SET_OR_READ.findall(path.read_text(encoding="utf-8")):
            yield "".join(groups), path.relative_to(REPOSITORY).as_posix()


def test_tests_are_set_up_by_variables_that_a_broker_takes() -> None:
    known = {variable_of(name) for name in Settings.model_fields} | OTHER_VARIABLES
    found = sorted(set(variables_of_recipes_and_tests()))
    assert any(name.startswith(FOR_TESTS) for name, path in found if path == ".ci/run")
    assert not [pair for pair in found if pair[0] not in known and not pair[0].startswith(FOR_TESTS)]
