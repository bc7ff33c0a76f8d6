"""What can go wrong when a workload is made."""

from typing import ClassVar

from twigcast.errors import TwigcastError


class WorkloadError(TwigcastError, ValueError):
    """Parameters that do not fit together, or a schema that the generator cannot serve."""

    code: ClassVar[str] = "workload"


class WorkloadExhaustedError(WorkloadError):
    """There are not as many different queries as were asked for, or they are too rare to be found.

    ``produced`` is how many there were after ``tries`` attempts.
    """

    code: ClassVar[str] = "workload-exhausted"

    def __init__(self, requested: int, produced: int, tries: int) -> None:
        super().__init__(requested, produced, tries)
        self.requested = requested
        self.produced = produced
        self.tries = tries

    def __str__(self) -> str:
        return f"only {self.produced} different queries found in {self.tries} tries, {self.requested} wanted"
