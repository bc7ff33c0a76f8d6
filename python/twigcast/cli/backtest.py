"""``twigcast backtest``: counts what subscriptions would have delivered of an archive, on Spark."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from twigcast.cli import common
from twigcast.cli.colours import painted_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twigcast.spark import BacktestReport

_REJECTED_SHOWN: Final = 20
_CELL_CHARACTERS: Final = 60

_MessagesOption = Annotated[
    list[str],
    typer.Option(
        "--messages",
        "-m",
        metavar="PATH",
        help="File, folder, pattern, .zip, .tar.gz, .gz, or Parquet with the columns message_id and xml; repeatable.",
    ),
]
_AgainstOption = Annotated[
    Path | None,
    typer.Option(
        "--against",
        metavar="SUBSCRIPTIONS",
        help="Other subscriptions, as for -s: say which keys would get more or less with them.",
    ),
]
_TimeOption = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Where a message says when it was published, such as //pubDate or /order/@at.",
        show_default="when its file was changed",
    ),
]
_RowsOption = Annotated[int, typer.Option(metavar="N", min=1, help="The most rows of each table that are printed.")]
_SamplesOption = Annotated[
    int, typer.Option(metavar="N", min=0, help="The most samples for each day and key, or kind of change.")
]
_MasterOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Where Spark runs.", show_default="spark-submit's, else local[*]")
]


def backtest(
    messages: _MessagesOption,
    subscriptions: common.OptionalSubscriptionsOption = None,
    query: common.QueriesOption = None,
    against: _AgainstOption = None,
    time: _TimeOption = None,
    samples: _SamplesOption = 3,
    rows: _RowsOption = 50,
    json: Annotated[
        bool, typer.Option("--json", help="Print everything as lines of JSON: one for each day and key.")
    ] = False,
    master: _MasterOption = None,
    *,
    reading: common.ReadingFlags,
    queries: common.QueryFlags,
) -> int:
    r"""Count what would have been delivered of an archive.

    On Spark, by day and key, with samples; nothing is delivered. The answers are those of a broker that replays the
    same messages. Days are those of UTC. With --against, only what would change is listed, and --json has all.

    \b
    Examples:
      twigcast backtest -q "//story[topic = 'Sport']" --messages archive/
      twigcast backtest -s subscriptions.jsonl --messages "feeds/2026-*.xml.gz" --record item --time //pubDate
      twigcast backtest -s today.jsonl --against tomorrow.jsonl --messages feed.zip --json

    Exit status: 0 done, 2 bad usage or query, 3 some messages rejected, 4 nothing would have been delivered.
    """
    common.check_standard_input([] if against is None else [str(against)], subscriptions)
    population = queries.load(subscriptions, query)
    other = None if against is None else queries.load(against)
    namespaces, limits = queries.namespaces, queries.limits
    read = reading.options(namespaces)
    from twigcast.spark import TerminalReporter
    from twigcast.spark import backtest as run
    from twigcast.spark.backtest import check_backtest
    from twigcast.spark.jobs import spark_errors
    from twigcast.spark.session import own_session

    check_backtest(messages, time=time, read=read, namespaces=namespaces, limits=limits)
    folder = Path(tempfile.mkdtemp(prefix="twigcast-"))
    with _log_folder(folder), own_session(master, folder / "spark.log") as spark, spark_errors():
        report = run(
            messages,
            population,
            against=other,
            time=time,
            samples=samples,
            read=read,
            namespaces=namespaces,
            limits=limits,
            spark=spark,
            reporter=TerminalReporter(advice=common.advice),
        )
        if json:
            for line in _lines(report):
                print(line)
        else:
            _print_tables(report, rows)
        _complain_of_rejections(report)
    if report.rejected:
        return common.SOME_REJECTED
    return 0 if report.delivered or report.delivered_against else common.NOTHING_MATCHED


@contextmanager
def _log_folder(folder: Path) -> Iterator[None]:
    """Removes the folder of the log at the end, also if nobody reads the output; not after an error, which names it."""
    try:
        yield
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _print_tables(report: BacktestReport, most: int) -> None:
    """Prints the numbers, the counts and the samples."""
    print(painted_table(report.table(), {"rejected": "red" if report.rejected else "green"}))
    total = "gained + lost + changed + undecided" if report.is_comparison else "delivered"
    counts = report.counts.selectExpr("*", f"{total} AS total").where("total > 0 OR undecided > 0")
    numbers = [name for name in report.counts.columns if name != "key" and (name != "undecided" or report.undecided)]
    ordered = counts.orderBy("total", "key", "day", ascending=[False, True, True])
    _print_table(ordered.select(*numbers, "key"), most)
    samples = report.samples
    _print_table(samples.orderBy("key", *(name for name in samples.columns if name != "key")), most)


def _print_table(frame: DataFrame, most: int) -> None:
    """Prints the first rows of a table, and says if there are more."""
    rows = frame.limit(most + 1).collect()
    if not rows:
        return
    cells = [[_cell(value) for value in row] for row in rows[:most]]
    widths = [max(map(len, column)) for column in zip(frame.columns, *cells, strict=True)]
    print()
    for line in [frame.columns, *cells]:
        padded = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
        print("  ".join(padded).rstrip())
    if len(rows) > most:
        print("... there are more: --rows N shows more, --json everything")


def _cell(value: object) -> str:
    """Returns a value as a cell of a table, in one line of text."""
    if value is None:
        return "-"
    text = f"{value:,}" if isinstance(value, int) else " ".join(str(value).split())
    return text if len(text) <= _CELL_CHARACTERS else text[: _CELL_CHARACTERS - 3] + "..."


def _lines(report: BacktestReport) -> Iterator[str]:
    """Yields a line of JSON for each day and key, with its samples."""
    for row in report.details.orderBy("day", "key").toLocalIterator():
        values = row.asDict(recursive=True)
        yield common.as_json({**values, "day": None if values["day"] is None else str(values["day"])})


def _complain_of_rejections(report: BacktestReport) -> None:
    """Reports messages that were rejected, or that left subscriptions undecided."""
    if not report.rejected and not report.undecided:
        return
    rows = report.rejections.orderBy("message_id").limit(_REJECTED_SHOWN + 1).collect()
    for row in rows[:_REJECTED_SHOWN]:
        place = "" if row["line"] is None else f" (line {row['line']}, column {row['column']})"
        common.complain(f"rejected {row['message_id']}: {row['reason']}{place}")
    if len(rows) > _REJECTED_SHOWN:
        common.complain("and more; BacktestReport.rejections in Python has all")
