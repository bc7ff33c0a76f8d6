"""The read plan: which task of a job reads which messages.

Spark makes rows of what its readers read, and Arrow batches of the rows again; that costs as much as matching a
thousand subscriptions. So tasks get numbers instead of messages, look up their input in the plan, a file in the staging
folder, and read it themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from twigcast.errors import SourceError
from twigcast.spark.message_format import source_frame
from twigcast.spark.session import task_slots
from twigcast.spark.sources.source import Batches, MessageSource, TaskInput

_TASKS_PER_CORE: Final = 3
"""Starting a task takes as long as matching a few thousand messages, but with too few of them cores that finish early
stay idle.
"""

_PLAN_FILE: Final = "plan.jsonl"


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The rows that tasks are handed, and the function that reads their messages from these."""

    rows: DataFrame
    read: Callable[[Batches], Batches]

    tasks: int = 0
    """0 if only Spark knows."""


def plan_frame(messages: DataFrame) -> ReadPlan:
    """Returns the plan for messages that Spark reads."""
    return ReadPlan(messages, iter)


def plan_source(spark: SparkSession, source: MessageSource, staging: Path) -> ReadPlan:
    """Returns the plan for a source: the tasks read it, or Spark where they cannot.

    The plan is kept in `staging`, a folder that driver and tasks see.

    Raises:
        SourceError: There is nothing to read, or no such columns.
    """
    source.has_places |= source.options.has_places
    inputs = source.plan(_TASKS_PER_CORE * task_slots(spark))
    if inputs is None:
        return plan_frame(source_frame(spark, source))
    path = str(staging / _PLAN_FILE)
    positions = write_plan(path, inputs)
    rows = spark.range(0, len(inputs), 1, max(1, len(inputs)))
    return ReadPlan(rows, plan_reader(source, path, positions), len(inputs))


def write_plan(path: str, inputs: Sequence[TaskInput]) -> list[int]:
    """Writes a plan and returns the position of each input in the file."""
    positions = []
    with Path(path).open("wb") as file:
        for task_input in inputs:
            positions.append(file.tell())
            file.write(task_input.line())
    return positions


def plan_reader(source: MessageSource, path: str, positions: Sequence[int]) -> Callable[[Batches], Batches]:
    """Returns the function that reads the inputs whose numbers a task is handed."""

    def read(numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                try:
                    with Path(path).open("rb") as file:
                        file.seek(positions[number])
                        line = file.readline()
                except OSError as error:
                    reason = error.strerror or str(error)
                    raise SourceError(path, f"{reason}; driver and executors must share the output folder") from None
                yield from source.read(TaskInput.of_line(line))

    return read
