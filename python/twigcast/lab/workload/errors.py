"""The errors of making a workload."""

from typing import ClassVar

from twigcast.errors import TwigcastError


class WorkloadError(TwigcastError, ValueError):
    """Parameters that do not fit together, or a schema that the generator cannot serve."""

    code: ClassVar[str] = "workload"


class WorkloadExhaustedError(WorkloadError):
    """The error if there are fewer different queries than requested, or they are too rare to be drawn.

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
