"""A synthetic world for simulations: brokers on a map, users with interests that may depend on their place, messages.

An item of a message concerns one *area* and one *kind*, both chosen by a Zipf distribution, and has a level and text. A
user wants an area, an area and a kind, an area from a level on, or a structure. With locality 1, all users of a broker
want the areas around it; with 0, interests do not depend on the broker.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from itertools import accumulate

from twigcast.overlay.core import Address
from twigcast.query import Path, attribute, child, compare, descendant, equal, nested

_KINDS = 12
_SECTIONS = ("news", "sport", "trade", "weather")


@dataclass(slots=True)
class World:
    """Brokers and areas on the unit square.

    Attributes:
        brokers: Number of brokers.
        areas: Number of areas.
        locality: Share of the interests in the areas around the broker.
        seed: Seed of all random choices.
        filling: Bytes of text in a message.
        items_max: Most items of a message. With several, different items may satisfy the paths of a conjunction, and a
            message is sent where no user wants it.
        structural: Share of the interests without a value.
        branching: Share of the interests with conditions on several children of one item. With any, items have their
            area and kind in children as well, so that different items may satisfy a routing query.
        items_min: Fewest items of a message.
        rewriting: Whether all interests are For-Where-Return queries over the items of one section.
    """

    brokers: int
    areas: int = 100
    locality: float = 0.0
    seed: int = 0
    filling: int = 600
    items_max: int = 3
    structural: float = 0.02
    branching: float = 0.0
    items_min: int = 1
    rewriting: bool = False
    locations: list[tuple[float, float]] = field(init=False)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(f"world {self.seed} {self.brokers}")  # noqa: S311 - reproducible, not secret
        self.locations = [(self._random.random(), self._random.random()) for _ in range(self.brokers)]
        side = max(1, round(self.areas**0.5))
        self._centres = [((n % side + 0.5) / side, (n // side + 0.5) / side) for n in range(self.areas)]
        self._area_weights = list(accumulate(1 / (rank + 1) ** 0.5 for rank in range(self.areas)))
        self._kind_weights = list(accumulate(1 / (rank + 1) for rank in range(_KINDS)))
        # Popularity of areas does not depend on their place.
        self._ranked = self._random.sample(range(self.areas), self.areas)
        self._near = [self._nearest(position) for position in self.locations]

    _centres: list[tuple[float, float]] = field(init=False)
    _area_weights: list[float] = field(init=False)
    _kind_weights: list[float] = field(init=False)
    _ranked: list[int] = field(init=False)
    _near: list[list[int]] = field(init=False)

    def _nearest(self, position: tuple[float, float]) -> list[int]:
        return sorted(range(self.areas), key=lambda area: _distance(position, self._centres[area]))[:4]

    def links(self, neighbours: int = 2) -> dict[tuple[Address, Address], int]:
        """Returns links from each broker to the nearest ones before it, at a cost by distance. All are connected."""
        results = {}
        for node in range(1, self.brokers):
            near = sorted(range(node), key=lambda other: _distance(self.locations[node], self.locations[other]))
            for other in near[:neighbours]:
                results[other, node] = max(1, round(100 * _distance(self.locations[node], self.locations[other])))
        return results

    def _area(self) -> int:
        (rank,) = self._random.choices(range(self.areas), cum_weights=self._area_weights)
        return self._ranked[rank]

    def _kind(self) -> str:
        (kind,) = self._random.choices(range(_KINDS), cum_weights=self._kind_weights)
        return f"k{kind}"

    def interest(self, broker: Address) -> Path:
        """Returns the interest of a user of a broker."""
        rng = self._random
        if self.branching and rng.random() < self.branching:
            return self._branching_interest(broker)
        if rng.random() < self.structural:
            return Path.absolute(child("feed"), child(rng.choice(_SECTIONS)), descendant("picture"))
        area = rng.choice(self._near[broker]) if rng.random() < self.locality else self._area()
        tests = [equal(attribute("area"), f"a{area}")]
        draw = rng.random()
        if draw < 0.5:
            tests.append(equal(attribute("kind"), self._kind()))
        elif draw < 0.7:
            tests.append(compare(nested(child("level")), ">=", rng.randint(2, 9)))
        return Path.absolute(child("feed"), child("*"), child("item", *tests))

    def _branching_interest(self, broker: Address) -> Path:
        rng = self._random
        area = rng.choice(self._near[broker]) if rng.random() < self.locality else self._area()
        tests = [
            equal(nested(child("place")), f"a{area}"),
            equal(nested(child("sort")), self._kind()),
            compare(nested(child("level")), ">=", rng.randint(2, 9)),
        ]
        return Path.absolute(child("feed"), child("*"), child("item", *tests[: rng.choice((2, 3))]))

    def text(self, broker: Address) -> str:
        """Returns the query of a user of a broker."""
        if not self.rewriting:
            return str(self.interest(broker))
        rng = self._random
        area = rng.choice(self._near[broker]) if rng.random() < self.locality else self._area()
        where = f"$i/@area = 'a{area}'"
        if rng.random() < 0.5:
            where += f" and $i/@kind = '{self._kind()}'"
        elif rng.random() < 0.4:
            where += f" and $i/level >= {rng.randint(2, 9)}"
        taken = rng.choice(("$i", "<r>{ $i/level }</r>", "<r>{ $i/@kind }{ $i/body }</r>"))
        return f"for $i in /feed/news/item where {where} return {taken}"

    def message(self) -> bytes:
        """Returns a message."""
        rng = self._random
        section = "news" if self.rewriting else rng.choice(_SECTIONS)
        items = rng.randint(self.items_min, self.items_max)
        reported = "".join(self._item(self.filling // items) for _ in range(items))
        return f"<feed><{section}>{reported}</{section}></feed>".encode()

    def _item(self, filling: int) -> str:
        rng = self._random
        text = "".join(rng.choice("aeiou lnrst") for _ in range(filling))
        picture = "<picture/>" if rng.random() < 0.02 else ""
        area, kind = self._area(), self._kind()
        reported = f"<place>a{area}</place><sort>{kind}</sort>" if self.branching else ""
        return (
            f'<item area="a{area}" kind="{kind}">{reported}<level>{rng.randint(0, 9)}</level>'
            f"<body>{text}{picture}</body></item>"
        )


def _distance(one: tuple[float, float], other: tuple[float, float]) -> float:
    return math.dist(one, other)
