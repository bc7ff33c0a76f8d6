"""``twigcast pipeline``: matches and rewrites messages on Spark."""

from pathlib import Path
from typing import Annotated

import typer

from twigcast.cli import common, lifecycles, windows
from twigcast.cli.colours import painted_table

_FeedOption = Annotated[
    str,
    typer.Option(
        "--messages",
        "-m",
        metavar="PATH",
        help="File, folder, .zip, .tar.gz, .gz, or Parquet with the columns message_id and xml.",
    ),
]
_OutputOption = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="DIR", help="Folder for matches/, deliveries/, rejected/ and summary.json."),
]


def _pack(path: Path | None) -> None:
    """Writes the archive for executors, and ends the command."""
    if path is None:
        return
    from twigcast.errors import OutputError
    from twigcast.spark.packing import write_archive

    try:
        size = write_archive(path)
    except OutputError as error:
        raise typer.BadParameter(str(error), param_hint="--pack") from None
    print(f"{path}: {size / 1e6:.1f} MB")
    print(f"spark-submit --archives {path}#twigcast --conf spark.executorEnv.PYTHONPATH=twigcast ...")
    raise typer.Exit


_PackOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.tar.gz",
        callback=_pack,
        is_eager=True,
        help="Write the archive that executors need where Twigcast is not installed, and do nothing else.",
    ),
]
_CheckpointOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder for the progress of a stream.", show_default="in the output"),
]
_IntervalOption = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.0, help="How often a stream looks for new messages.")
]
_FilesOption = Annotated[int, typer.Option(metavar="N", min=1, help="The most files in a micro-batch of a stream.")]


def pipeline(
    messages: _FeedOption,
    subscriptions: common.SubscriptionsOption,
    output: _OutputOption,
    stream: Annotated[bool, typer.Option("--stream", help="Watch the folder of messages until stopped.")] = False,
    once: Annotated[bool, typer.Option("--once", help="With --stream: process the present files, then stop.")] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Where Spark runs.", show_default="spark-submit's, else local[*]")
    ] = None,
    nodes: Annotated[bool, typer.Option("--nodes", help="Count the nodes that each query selects.")] = False,
    envelope: common.EnvelopeOption = None,
    envelope_query: common.EnvelopeQueryOption = False,
    whole: common.WholeOption = False,
    *,
    reading: common.ReadingFlags,
    lifecycle: lifecycles.ProfileFlags,
    window: windows.PipelineWindowFlags,
    queries: common.QueryFlags,
    checkpoint: _CheckpointOption = None,
    interval: _IntervalOption = 1.0,
    files_per_batch: _FilesOption = 20_000,
    pack: _PackOption = None,
) -> int:
    r"""Match and rewrite messages with Spark.

    A batch job replaces the output of an earlier one. A stream adds to it: each file of the watched folder is processed
    exactly once, even if processes are killed, and changes of the subscriptions take effect. Files must be complete
    when they appear in the folder, for example written elsewhere and renamed. With --envelope each payload is put
    into an element of that name, with the message and the key in attributes, with --envelope-query the query too.
    With --profile each message is delivered once, and its updates and its end to those who got it, with the relation
    in a column of deliveries/. Subscriptions with a member "when" in their file, or --when for all, are told only then,
    and columns of deliveries/ say of which messages.

    \b
    Examples:
      twigcast pipeline --messages feed/ --subscriptions subscriptions.jsonl --output out
      twigcast pipeline --messages feed.zip --record item -s subscriptions.jsonl --output out
      twigcast pipeline --messages inbox/ -s subscriptions.jsonl --output out --stream
      twigcast pipeline --messages alerts/ -s subscriptions.jsonl --output out --stream --profile cap
      twigcast pipeline --messages gauges/ -s gauges.jsonl --output out --time /gauge/@at
      twigcast pipeline --pack twigcast.tar.gz

    Exit status: 0 done, 2 bad usage or query, 3 some messages rejected.
    """
    from twigcast.spark import Stream, TerminalReporter, run_pipeline

    if once and not stream:
        raise typer.BadParameter("it goes with --stream", param_hint="--once")
    following = lifecycle.settings(enveloped=envelope is not None)
    settings = Stream(once=once, interval_seconds=interval, files_per_batch=files_per_batch, checkpoint=checkpoint)
    summary = run_pipeline(
        messages,
        subscriptions,
        output,
        stream=settings if stream else None,
        read=reading.options(queries.namespaces),
        lifecycle=following,
        windows=window.settings(subscriptions),
        nodes=nodes,
        envelope=common.parse_envelope(envelope, queries.namespace, query=envelope_query),
        whole=whole,
        namespaces=queries.namespaces,
        dialect=queries.query_dialect,
        limits=queries.limits,
        on_bad_subscription=queries.on_bad_subscription.value,
        master=master,
        reporter=TerminalReporter(advice=common.advice),
    )
    print(painted_table(summary.table(), {"rejected": "red" if summary.rejected else "green"}))
    return common.SOME_REJECTED if summary.rejected else 0
