"""``twigcast overlay peer``, with one command for each protocol."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from twigcast._core import VERSION
from twigcast.errors import MissingExtra, TwigcastError

if TYPE_CHECKING:
    from twigcast.overlay.core import Address
    from twigcast.peers.process import Member

peers = typer.Typer(no_args_is_help=True, help="Run a node of a network of peers, over TLS.")

_BAD_USAGE = 2

Listen = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="Address at which others reach this peer, for good.")
]
Join = Annotated[
    list[str] | None, typer.Option("--join", metavar="URL", help="A peer of the network. May be repeated.")
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name of this peer, which its certificate must hold.")
]
Certificate = Annotated[
    Path | None, typer.Option("--cert", metavar="FILE", help="Its certificate; with --key and --ca.")
]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Its private key.")]
Authority = Annotated[Path | None, typer.Option("--ca", metavar="FILE", help="The authority of all certificates.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Allow links to other machines without certificates: anyone may take part.")
]


Patience = Annotated[
    float,
    typer.Option("--patience", metavar="N", help="Factor of all times, the same for all peers."),
]


class _Options(NamedTuple):
    listen: str
    join: list[str]
    name: str | None
    cert: Path | None
    key: Path | None
    ca: Path | None
    insecure: bool
    patience: float


@peers.command()
def chord(
    listen: Listen,
    join: Join = None,
    name: Name = None,
    cert: Certificate = None,
    key: Key = None,
    ca: Authority = None,
    insecure: Insecure = False,
    patience: Patience = 1.0,
) -> None:
    """Run a peer of a ring: subscribe, publish, and be notified.

    Without --join it starts a ring. Orders are JSON objects, one a line, on standard input: {"do": "subscribe", "key":
    "k", "query": "//a"}, {"do": "unsubscribe", "key": "k"}, {"do": "publish", "name": "m", "xml": "<a/>"}. A query
    with prefixes needs "namespaces": {"prefix": "uri"}. Events come as JSON objects on standard output. SIGTERM and
    Ctrl-C let it leave in good order.

    Exit status: 0 stopped, 2 it cannot start.
    """

    def make(address: Address, incarnation: int, seeds: tuple[Address, ...]) -> Member:
        from twigcast.peers.ring import RingMember

        return RingMember(address, incarnation, seeds, patience)

    _run(make, _Options(listen, join or [], name, cert, key, ca, insecure, patience))


@peers.command()
def codd(
    listen: Listen,
    query: Annotated[
        str | None, typer.Option("--query", metavar="XPATH", help="What this node subscribes to; not for the producer.")
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option("-n", "--namespace", metavar="PREFIX=URI", help="Namespace of a prefix in the query."),
    ] = None,
    join: Join = None,
    name: Name = None,
    cert: Certificate = None,
    key: Key = None,
    ca: Authority = None,
    insecure: Insecure = False,
    patience: Patience = 1.0,
) -> None:
    """Run a node of a cooperative tree: the producer of a stream, or a subscriber that passes it on.

    Without --join it is the producer; otherwise the first --join names the producer, and others a node may be asked for
    a parent. The producer reads {"do": "publish", "name": "m", "xml": "<a/>"} from standard input, one a line. Events
    come as JSON objects on standard output. SIGTERM and Ctrl-C let it leave in good order.

    Exit status: 0 stopped, 2 it cannot start.
    """

    def make(address: Address, incarnation: int, seeds: tuple[Address, ...]) -> Member:
        from twigcast.overlay.errors import ImpossibleSetting
        from twigcast.peers.tree import TreeMember

        for value in namespace or []:
            if "=" not in value:
                raise ImpossibleSetting("--namespace", value, "PREFIX=URI")
        namespaces = dict(value.split("=", 1) for value in namespace or [])
        return TreeMember(address, incarnation, seeds, query, namespaces, patience)

    _run(make, _Options(listen, join or [], name, cert, key, ca, insecure, patience))


def _run(make: Callable[[Address, int, tuple[Address, ...]], Member], options: _Options) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(_serve(make, options))
    except ModuleNotFoundError as error:
        _fail(MissingExtra(error.name or "grpcio", "overlay"))
    except TwigcastError as error:
        _fail(error)


async def _serve(make: Callable[[Address, int, tuple[Address, ...]], Member], options: _Options) -> None:
    from twigcast.overlay.errors import ImpossibleSetting
    from twigcast.overlay.onyx.network.tls import Certificates, host_and_port, is_loopback, target_of
    from twigcast.peers.addresses import address_of
    from twigcast.peers.driver import PeerIdentity
    from twigcast.peers.process import PeerProcess

    if not 0.1 <= options.patience <= 1_000:
        raise ImpossibleSetting("--patience", options.patience, "from 0.1 to 1,000")
    files = [file for file in (options.cert, options.key, options.ca) if file is not None]
    if len(files) not in (0, 3):
        raise ImpossibleSetting("--cert, --key and --ca", "incomplete", "given together, or not at all")
    certificates = Certificates(files[0], files[1], files[2]) if files else None
    if certificates is not None:
        certificates.check()
    try:
        host, port = host_and_port(options.listen)
        targets = [target_of(url, secure=certificates is not None) for url in options.join]
    except ValueError as error:
        raise ImpossibleSetting("--listen or --join", str(error), "an address with a port") from None
    for other in (host, *(target.host for target in targets)):
        if certificates is None and not options.insecure and not is_loopback(other):
            raise ImpossibleSetting("--cert", None, f"given for links over {other}, unless --insecure allows them")
    address = address_of(host, port)
    # Greater than that of every earlier start at this address, if the clock does not go back.
    incarnation = time.time_ns() // 1_000_000
    member = make(address, incarnation, tuple(address_of(target.host, target.port) for target in targets))
    name = options.name or (options.listen if certificates is None else host)
    identity = PeerIdentity(member.protocol, address, name, incarnation, f"twigcast {VERSION}")
    await PeerProcess(member, identity, certificates).run()


def _fail(error: Exception) -> None:
    print(f"twigcast: {error}", file=sys.stderr)
    raise typer.Exit(_BAD_USAGE)
