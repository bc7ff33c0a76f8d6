"""Random histories of small networks: what users do and what goes wrong meanwhile; and what must hold at their end."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

from lxml import etree

from twigcast.lab.overlays.onyx.scenario import OnyxNetwork
from twigcast.lab.overlays.simulator import NetworkFaults
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.content.projection import Projection
from twigcast.overlay.onyx.content.routing_query import routing_query
from twigcast.overlay.onyx.messages import OverlayMessage, RoutingQuery
from twigcast.overlay.onyx.protocol.settings import OnyxSettings

#: So few that many users want the same, and that some messages are wanted by nobody.
QUERIES = (
    "/a",
    "/a/b",
    "//c",
    "/a/b[@x = 1]",
    "/a/b[@x = 2]",
    "//b[@x = 1][c]",
    "/a[b/@x = 1][c/@y = 2]",
    "//c[@y > 1]",
    "/a/*[@y = 2]",
    "/a[not(b)]",
    "/a/b | //c[@y = 3]",
)


@lru_cache
def wanted(query: str) -> RoutingQuery:
    return routing_query(query)


@lru_cache(maxsize=4_096)
def matches(query: str, body: bytes) -> bool:
    """The oracle: libxml2."""
    return bool(etree.fromstring(body).xpath(f"boolean({query})"))


def draw_message(rng: random.Random) -> bytes:
    parts = []
    for _ in range(rng.randint(0, 3)):
        inner = f"<c y='{rng.randint(1, 3)}'/>" if rng.random() < 0.3 else ""
        parts.append(rng.choice((f"<b x='{rng.randint(1, 3)}'>{inner}</b>", f"<c y='{rng.randint(1, 3)}'/>", "<d/>")))
    return f"<{rng.choice('aaae')}>{''.join(parts)}</a>".replace("<e>", "<a><e/>").encode()


def draw_links(rng: random.Random, count: int) -> dict[tuple[Address, Address], int]:
    """A connected graph with some links to spare."""
    edges = {(rng.randrange(node), node) for node in range(1, count)}
    for _ in range(rng.randint(0, 3)):
        one, other = rng.randrange(count), rng.randrange(count)
        if one != other:
            edges.add((min(one, other), max(one, other)))
    return {edge: rng.randint(1, 40) for edge in sorted(edges)}


@dataclass
class Wish:
    """A subscription in one of its versions."""

    broker: Address
    key: int
    query: str
    token: int
    ended: float | None = None


@dataclass
class History:
    """One run. All of it follows from its seed."""

    seed: int
    steps: int = 35
    wishes: list[Wish] = field(default_factory=list)
    settled: dict[int, float] = field(default_factory=dict)
    published: list[OverlayMessage] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    queries: ClassVar[Sequence[str]] = QUERIES

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)
        faults = NetworkFaults(
            0.002, rng.choice((0.01, 0.05)), loss=rng.choice((0, 0.03, 0.1)), duplication=rng.choice((0, 0.05))
        )
        settings = OnyxSettings(shared_tree=rng.random() < 0.3, report_delay=1.0, attach_delay=2.0)
        links = draw_links(rng, rng.randint(2, 7))
        self.network = OnyxNetwork(
            links,
            settings,
            faults,
            self.seed,
            portion=rng.choice((2, 50)),
            settings_of=self.settings_of(settings),
        )
        self.network.on_item = self._note
        self.cuts: set[tuple[Address, Address]] = set()

    # What users want and publish.

    def settings_of(self, settings: OnyxSettings) -> Callable[[Address], OnyxSettings]:
        """The settings of each broker."""
        return lambda address: settings

    def draw(self) -> bytes:
        """A message."""
        return draw_message(self.rng)

    def matches(self, query: str, body: bytes) -> bool:
        """The oracle."""
        return matches(query, body)

    def wanted(self, query: str) -> RoutingQuery:
        """The routing query of a query."""
        return wanted(query)

    def part(self, query: str) -> Projection | None:
        """What it takes of a message."""
        return None

    def is_published(self, message: OverlayMessage, body: bytes | None) -> bool:
        """Whether what was accepted is what was published."""
        return message.body == body

    def _note(self, time: float, address: Address, item: object) -> None:
        token = getattr(item, "token", None)
        if isinstance(token, int):
            self.settled.setdefault(token, time)

    # What happens.

    def run(self) -> None:
        network, rng = self.network, self.rng
        network.start_all()
        network.run(rng.choice((0.0, 0.2, 8.0)))
        for _ in range(self.steps):
            self._step()
            network.run(rng.choice((0.0, 0.005, 0.05, 0.3, 1.5)))
        for one, other in sorted(self.cuts):
            network.simulator.mend(one, other)
        for address in network.addresses:
            if not network.is_alive(address):
                network.start(address)
        self.heal()

    def heal(self) -> None:
        """Until everybody knows everything, at most for long."""
        for _ in range(30):
            self.network.run(4.0)
            if not self.unfinished():
                break

    def unfinished(self) -> list[str]:
        """Who does not know all there is to know of whom."""
        stores = self.network.stores
        return [
            f"{address} knows {root} up to {store.horizons.get(root)} of {stores[root].last}"
            for address, store in stores.items()
            for root in stores
            if root != address and store.horizons.get(root) != stores[root].last
        ]

    def _step(self) -> None:
        rng, network = self.rng, self.network
        alive = [address for address in network.addresses if network.is_alive(address)]
        dead = [address for address in network.addresses if not network.is_alive(address)]
        what = rng.choices(
            ("publish", "subscribe", "unsubscribe", "crash", "start", "cut", "mend"), (12, 6, 2, 2, 4, 2, 3)
        )[0]
        if what == "publish" and alive:
            self._publish(rng.choice(alive))
        elif what == "subscribe" and alive:
            self._subscribe(rng.choice(alive))
        elif what == "unsubscribe" and self.open_wishes():
            self.unsubscribe(rng.choice(self.open_wishes()))
        elif what == "crash" and alive:
            address = rng.choice(alive)
            network.crash(address)
            self._log(f"crash {address}")
        elif what == "start" and dead:
            address = rng.choice(dead)
            network.start(address)
            self._log(f"start {address}")
        elif what == "cut":
            link = rng.choice(sorted(network.links))
            self.cuts.add(link)
            network.simulator.cut(*link)
            self._log(f"cut {link}")
        elif what == "mend" and self.cuts:
            link = rng.choice(sorted(self.cuts))
            self.cuts.discard(link)
            network.simulator.mend(*link)
            self._log(f"mend {link}")

    def _publish(self, address: Address) -> None:
        network, rng = self.network, self.rng
        for _ in range(rng.choice((1, 1, 3, 6))):
            crashing = rng.random() < 0.03
            message = network.publish(address, self.draw(), f"m{len(self.published)}", crashing=crashing)
            self.published.append(message)
            self._log(f"publish {address} {message.number} {message.body!r}{' crashing' if crashing else ''}")
            if crashing:
                break
            network.run(rng.choice((0.0, 0.01)))

    def _log(self, what: str) -> None:
        self.done.append(f"{self.network.simulator.now:.3f} {what}")

    def open_wishes(self) -> list[Wish]:
        return [interest for interest in self.wishes if interest.ended is None]

    def _subscribe(self, broker: Address) -> None:
        key, query = self.rng.randrange(4), self.rng.choice(self.queries)
        for interest in self.open_wishes():
            if (interest.broker, interest.key) == (broker, key):
                interest.ended = self.network.simulator.now
        interest = Wish(broker, key, query, len(self.wishes))
        self.wishes.append(interest)
        self.network.subscribe(broker, key, self.wanted(query), self.part(query))
        self.network.settle(broker, interest.token)
        self._log(f"subscribe {broker} {key} {query}")

    def unsubscribe(self, interest: Wish) -> None:
        interest.ended = self.network.simulator.now
        self.network.unsubscribe(interest.broker, interest.key)
        self._log(f"unsubscribe {interest.broker} {interest.key}")

    # What must hold.

    def violations(self) -> list[str]:
        results = self.unfinished()
        results += [f"refused by {address}: {refusal}" for address, refusal in self.network.refusals]
        results += [f"trouble of {address}: {trouble}" for address, trouble in self.network.troubles]
        results += [f"lost at {address}: {store.lost}" for address, store in self.network.stores.items() if store.lost]
        results += [f"twice at {at}: {store.doubled}" for at, store in self.network.stores.items() if store.doubled]
        for interest in self.open_wishes():
            settled = self.settled.get(interest.token)
            store = self.network.stores[interest.broker]
            for message in self.published:
                if (
                    settled is not None
                    and settled < message.published
                    and message.root != interest.broker
                    # Of a root that it had never heard of, a broker gets what comes from then on.
                    and store.tracked_since.get(message.root, math.inf) < message.published
                    and (message.root, message.number) not in store.accepted
                    and self.matches(interest.query, message.body)
                ):
                    results.append(
                        f"number {message.number} of {message.root} never came to {interest.broker}: {interest}"
                    )
        for address, store in self.network.stores.items():
            own = {(message.root, message.number): message.body for message in self.published}
            for (root, number), message in store.accepted.items():
                if root == address or not self.is_published(message, own.get((root, number))):
                    results.append(f"{address} accepted what nobody published: {message}")
        return results

    def tables(self) -> dict[tuple[Address, Address], object]:
        """What each broker believes that each neighbour wants."""
        return {
            (address, neighbour): self.network.broker(address).table.remote(neighbour)
            for address in self.network.addresses
            for neighbour in self.network.neighbours(address)
        }


def run_history(seed: int) -> list[str]:
    """Violations of one history, in words; and of the tables after all wishes are taken back."""
    return violations_of(History(seed))


def violations_of(history: History) -> list[str]:
    """The same of any history."""
    history.run()
    results = history.violations()
    for interest in history.open_wishes():
        history.unsubscribe(interest)
    history.network.run(8.0)
    results += [f"{at} is left with {table}" for at, table in history.tables().items() if table]
    return [f"seed {history.seed}: {violation}" for violation in results]
