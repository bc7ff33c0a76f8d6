"""``twigcast generate``: documents, queries and populations from a DTD, and the statistics of a DTD."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twigcast.errors import MissingExtra, TwigcastError
from twigcast.lab.workload.documents import documents
from twigcast.lab.workload.flwr import flwr_queries
from twigcast.lab.workload.population import DEFAULT_SHARES, population
from twigcast.lab.workload.presets import DTD_NAMES, bundled_dtd
from twigcast.lab.workload.queries import path_queries
from twigcast.lab.workload.values import draw_domains
from twigcast.schema import Schema, read_dtd, statistics, statistics_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = typer.Typer(no_args_is_help=True, help="Make documents, queries and populations from a DTD.")

Dtd = Annotated[str, typer.Argument(help=f"A DTD file, or one that comes with Twigcast: {', '.join(DTD_NAMES)}.")]
Count = Annotated[int, typer.Option("--count", "-n", min=0, help="How many.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same workload.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write to; without it, standard output.")]
Depth = Annotated[int, typer.Option(help="Maximum depth of the queries (D).")]
Wildcard = Annotated[float, typer.Option(help="Probability of '*' at a step (W).")]
Descendant = Annotated[float, typer.Option(help="Probability of '//' at a step (DS).")]
Skew = Annotated[float, typer.Option(help="Zipf's theta for the choice among child elements; 0: uniform.")]
MinValue = Annotated[int, typer.Option(help="Smallest number of different values of an attribute or a text.")]
MaxValue = Annotated[int, typer.Option(help="Largest number of different values of an attribute or a text.")]
Master = Annotated[
    str | None, typer.Option(help="Make them on this Spark master (local[*], ...), into a folder of Parquet files.")
]


def register(parent: typer.Typer) -> None:
    """Add ``generate`` to the command line."""
    parent.add_typer(app, name="generate")


@app.command("documents")
def documents_command(
    dtd: Dtd,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder to write to: d1.xml, d2.xml, ...; with --master Parquet files."),
    ],
    count: Count = 10,
    seed: Seed = 1,
    levels: Annotated[int, typer.Option(help="Levels with free content, the root being level 0 (D).")] = 6,
    max_repeats: Annotated[int, typer.Option(help="Largest number of repetitions under one parent (RP).")] = 3,
    repeats: Annotated[list[str] | None, typer.Option(help="The same for one element: NAME=NUMBER.")] = None,
    occurrence_min: Annotated[
        float, typer.Option(help="Least probability that an attribute occurs; each has one of its own.")
    ] = 0.0,
    occurrence_max: Annotated[float, typer.Option(help="Largest probability that an attribute occurs.")] = 1.0,
    min_value: MinValue = 1,
    max_value: MaxValue = 20,
    master: Master = None,
) -> None:
    """Write documents that are valid against a DTD."""
    schema = _schema(dtd)
    parameters: dict[str, Any] = {"levels": levels, "max_repeats": max_repeats, "repeats": _repeats(repeats)}
    try:
        domains = draw_domains(
            schema, seed, min_value=min_value, max_value=max_value, occurrence=(occurrence_min, occurrence_max)
        )
        if master is not None:
            with _distributed(master) as (spark, distributed):
                created = distributed.documents_on_spark(spark, schema, count, seed, **parameters, domains=domains)
                created.write.parquet(str(output))
            return
        created = documents(schema, count, seed, **parameters, domains=domains)
        output.mkdir(parents=True, exist_ok=True)
        for number, document in enumerate(created, 1):
            (output / f"d{number}.xml").write_bytes(document)
    except (TwigcastError, OSError) as error:
        raise _fail(error) from error


@app.command("queries")
def queries_command(
    dtd: Dtd,
    count: Count = 10,
    seed: Seed = 1,
    flwr: Annotated[bool, typer.Option("--flwr", help="For-Where-Return queries instead of paths.")] = False,
    depth: Depth = 6,
    wildcard: Wildcard = 0.2,
    descendant: Descendant = 0.2,
    predicates: Annotated[int, typer.Option(help="Value predicates per query (P; PP with --flwr).")] = 0,
    nested: Annotated[int, typer.Option(help="Nested paths per query (NP).")] = 0,
    returns: Annotated[int, typer.Option(help="Return paths per query (RP), with --flwr.")] = 2,
    binding_depth: Annotated[int, typer.Option(help="Maximum depth of binding paths (D1), with --flwr.")] = 2,
    path_depth: Annotated[int, typer.Option(help="Maximum depth of predicate and return paths (D2), with --flwr.")] = 2,
    full_bindings: Annotated[
        bool, typer.Option("--full-bindings", help="Binding paths as deep as they may be, with --flwr.")
    ] = False,
    skew: Skew = 0.0,
    distinct: Annotated[bool, typer.Option(help="Whether all queries shall differ.")] = True,
    min_value: MinValue = 1,
    max_value: MaxValue = 20,
    output: Output = None,
    master: Master = None,
) -> None:
    """Write path queries or For-Where-Return queries, one a line."""
    schema = _schema(dtd)
    if master is not None and (flwr or output is None):
        raise typer.BadParameter("--master is for path queries, and needs --output")
    try:
        domains = draw_domains(schema, seed, min_value=min_value, max_value=max_value)
        parameters: dict[str, Any] = {
            "depth": depth,
            "wildcard": wildcard,
            "descendant": descendant,
            "predicates": predicates,
            "nested": nested,
            "skew": skew,
            "distinct": distinct,
            "domains": domains,
        }
        if master is not None:
            with _distributed(master) as (spark, distributed):
                frame = distributed.path_queries_on_spark(spark, schema, count, seed, **parameters)
                frame.write.parquet(str(output))
            return
        if flwr:
            created = flwr_queries(
                schema,
                count,
                seed,
                binding_depth=binding_depth,
                predicate_paths=predicates,
                return_paths=returns,
                path_depth=path_depth,
                descendant=descendant,
                domains=domains,
                full_bindings=full_bindings,
            )
        else:
            created = path_queries(schema, count, seed, **parameters)
        _write(created, output)
    except (TwigcastError, OSError) as error:
        raise _fail(error) from error


@app.command("population")
def population_command(
    dtd: Dtd,
    count: Count = 1000,
    seed: Seed = 1,
    share: Annotated[
        list[str] | None, typer.Option(help="KIND=NUMBER; kinds: path, predicate, twig, flwr. Default: a mixture.")
    ] = None,
    depth: Depth = 6,
    wildcard: Wildcard = 0.2,
    descendant: Descendant = 0.2,
    skew: Skew = 0.0,
    distinct: Annotated[bool, typer.Option(help="Whether all queries of a kind shall differ.")] = False,
    output: Output = None,
) -> None:
    """Write a population of subscriptions as JSON lines, as the other commands read them."""
    shares = {name: float(value) for name, value in map(_pair, share)} if share else DEFAULT_SHARES
    try:
        created = population(
            _schema(dtd),
            count,
            seed,
            shares=shares,
            depth=depth,
            wildcard=wildcard,
            descendant=descendant,
            skew=skew,
            distinct=distinct,
        )
        _write((json.dumps({"key": item.key, "query": item.query}) for item in created), output)
    except (TwigcastError, OSError) as error:
        raise _fail(error) from error


@app.command("statistics")
def statistics_command(
    dtds: Annotated[
        list[str] | None, typer.Argument(help="DTD files or names; without any, all that come along.")
    ] = None,
) -> None:
    """Print the characteristics of DTDs."""
    print(statistics_table(statistics(_schema(dtd)) for dtd in dtds or DTD_NAMES))


@contextmanager
def _distributed(master: str) -> Iterator[tuple[SparkSession, ModuleType]]:
    """A Spark session, quiet, and the module that makes workloads there."""
    try:
        from twigcast.lab.workload import distributed
        from twigcast.spark.session import open_session
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "pyspark", "lab") from error
    with TemporaryDirectory() as folder:
        spark = open_session(master, log=Path(folder) / "spark.log")
        try:
            yield spark, distributed
        finally:
            spark.stop()


def _schema(dtd: str) -> Schema:
    try:
        return bundled_dtd(dtd) if dtd in DTD_NAMES else read_dtd(dtd)
    except (TwigcastError, OSError) as error:
        raise _fail(error) from error


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not value.replace(".", "", 1).isdigit():
        raise typer.BadParameter(f"{text!r} is not NAME=NUMBER")
    return name, value


def _repeats(texts: list[str] | None) -> dict[str, int]:
    return {name: int(float(value)) for name, value in map(_pair, texts or [])}


def _write(lines: Iterable[str], output: Path | None) -> None:
    if output is None:
        sys.stdout.writelines(line + "\n" for line in lines)
        return
    with output.open("w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def _fail(error: Exception) -> typer.Exit:
    print(f"twigcast: {error}", file=sys.stderr)
    return typer.Exit(2)
