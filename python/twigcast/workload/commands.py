"""``twigcast generate``: documents, queries and populations from a DTD, and the statistics of a DTD."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from twigcast.errors import TwigcastError
from twigcast.schema import Schema, read_dtd, statistics, statistics_table
from twigcast.workload.documents import documents
from twigcast.workload.flwr import flwr_queries
from twigcast.workload.population import DEFAULT_SHARES, population
from twigcast.workload.presets import DTD_NAMES, bundled_dtd
from twigcast.workload.queries import path_queries
from twigcast.workload.values import draw_domains

app = typer.Typer(no_args_is_help=True, help="Make documents, queries and populations from a DTD.")

Dtd = Annotated[str, typer.Argument(help=f"A DTD file, or one that comes with Twigcast: {', '.join(DTD_NAMES)}.")]
Count = Annotated[int, typer.Option("--count", "-n", min=0, help="How many.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same workload.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write to; without it, standard output.")]
Depth = Annotated[int, typer.Option(help="Maximum depth of the queries (D).")]
Wildcard = Annotated[float, typer.Option(help="Probability of '*' at a step (W).")]
Descendant = Annotated[float, typer.Option(help="Probability of '//' at a step (DS).")]
Skew = Annotated[float, typer.Option(help="Zipf's theta for the choice among child elements; 0: uniform.")]
MaxValue = Annotated[int, typer.Option(help="Largest number of different values of an attribute or a text.")]


def register(parent: typer.Typer) -> None:
    """Add ``generate`` to the command line."""
    parent.add_typer(app, name="generate")


@app.command("documents")
def documents_command(
    dtd: Dtd,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write d1.xml, d2.xml, ... to.")],
    count: Count = 10,
    seed: Seed = 1,
    levels: Annotated[int, typer.Option(help="Levels with free content, the root being level 0 (D).")] = 6,
    max_repeats: Annotated[int, typer.Option(help="Largest number of repetitions under one parent (RP).")] = 3,
    repeats: Annotated[list[str] | None, typer.Option(help="The same for one element: NAME=NUMBER.")] = None,
    max_value: MaxValue = 20,
) -> None:
    """Write documents that are valid against a DTD."""
    schema = _schema(dtd)
    made = documents(
        schema, count, seed, levels=levels, max_repeats=max_repeats, repeats=_repeats(repeats), max_value=max_value
    )
    try:
        output.mkdir(parents=True, exist_ok=True)
        for number, document in enumerate(made, 1):
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
    skew: Skew = 0.0,
    distinct: Annotated[bool, typer.Option(help="Whether all queries shall differ.")] = True,
    max_value: MaxValue = 20,
    output: Output = None,
) -> None:
    """Write path queries or For-Where-Return queries, one a line."""
    schema = _schema(dtd)
    domains = draw_domains(schema, seed, max_value=max_value)
    try:
        if flwr:
            made = flwr_queries(
                schema,
                count,
                seed,
                predicate_paths=predicates,
                return_paths=returns,
                descendant=descendant,
                domains=domains,
            )
        else:
            made = path_queries(
                schema,
                count,
                seed,
                depth=depth,
                wildcard=wildcard,
                descendant=descendant,
                predicates=predicates,
                nested=nested,
                skew=skew,
                distinct=distinct,
                domains=domains,
            )
        _write(made, output)
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
        made = population(
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
        _write((json.dumps({"key": item.key, "query": item.query}) for item in made), output)
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
