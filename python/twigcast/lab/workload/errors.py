"""What can go wrong when a workload is made."""

from typing import ClassVar

from twigcast.errors import TwigcastError


class WorkloadError(TwigcastError, ValueError):
    """Parameters that do not fit together, or a schema that the generator cannot serve."""

    code: ClassVar[str] = "workload"


class WorkloadExhaustedError(WorkloadError):
    """There are not as many different queries as were asked for, or they are too rare to be found.

    ``result`` is how many there were after ``tries`` attempts.
    """

    code: ClassVar[str] = "workload-exhausted"

    def __init__(self, wanted: int, result: int, tries: int) -> None:
        super().__init__(wanted, result, tries)
        self.wanted = wanted
        self.found = result
        self.tries = tries

    def __str__(self) -> str:
        return f"only {self.found} different queries found in {self.tries} tries, {self.wanted} wanted"
