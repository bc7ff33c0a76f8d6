"""For-Where-Return queries that join variables by equality look pairs up; their results are those of nested loops."""

from __future__ import annotations

import random

import lxml.etree
import pytest

from tests.seeds import printed_seed
from twigcast import Limits, SubscriptionSet

PATHS = ["//a", "//b", "/r/*", "//a/b", "//*[@k]"]
OWN = ["@k", "b", ".", "b/@k", "*", "@none", ".//b", "b[1]", "../@k"]


def message(randomness: random.Random) -> str:
    """Returns a message of nested elements with few different values."""
    count = iter(range(1_000_000))

    def element(depth: int) -> str:
        name = randomness.choice("aab")
        key = f" k='{randomness.randrange(6)}'" if randomness.random() < 0.7 else ""
        text = str(randomness.randrange(6)) if randomness.random() < 0.7 else ""
        children = "".join(element(depth + 1) for _ in range(randomness.choice([0, 0, 1, 2]) if depth < 4 else 0))
        return f"<{name}{key} i='{next(count)}'>{text}{children}</{name}>"

    return f"<r>{''.join(element(0) for _ in range(randomness.randint(0, 12)))}</r>"


def strings(node: lxml.etree._Element, path: str) -> set[str]:
    """Returns the string-values of the nodes that a path selects."""
    return {one if isinstance(one, str) else str(one.xpath("string()")) for one in node.xpath(path)}


def places(nodes: list[lxml.etree._Element]) -> list[str]:
    """Returns which elements these are."""
    return [str(node.get("i")) for node in nodes]


def test_two_variables_are_joined_as_by_nested_loops() -> None:
    seed = printed_seed()
    randomness = random.Random(seed)
    nonempty = 0
    for _ in range(400):
        xml = message(randomness)
        tree = lxml.etree.fromstring(xml)
        first, second = randomness.choice(PATHS), randomness.choice(PATHS)
        left, right = randomness.choice(OWN), randomness.choice(OWN)
        further = randomness.random() < 0.3
        pairs = [
            (x, y)
            for x in tree.xpath(first)
            for y in tree.xpath(second)
            if strings(x, left) & strings(y, right) and (not further or strings(x, "@k") - strings(y, "@k"))
        ]
        if further:
            # Of two attributes at most, one differs from the other: `!=` needs both.
            pairs = [(x, y) for x, y in pairs if strings(y, "@k")]
        sides = [f"$x/{left}", f"$y/{right}"]
        randomness.shuffle(sides)
        more = " and $x/@k != $y/@k" if further else ""
        result = "<z>{ $x/@i }<y>{ $y/@i }</y></z>"
        is_inner = not further and randomness.random() < 0.5
        if is_inner and right != ".":
            start = f"for $x in {first} for $y in {second}[{right} = $x/{left}]"
            query = f"{start} return {result}"
        elif is_inner:
            query = (
                f"for $x in {first} return <o>{{ for $y in {second} where {' = '.join(sides)} return {result} }}</o>"
            )
        else:
            query = f"for $x in {first} for $y in {second} where {' = '.join(sides)}{more} return {result}"
        deliveries = SubscriptionSet({"q": query}).deliver(xml)
        assert deliveries.undecided == []
        payload = deliveries[0].payload.decode() if len(deliveries) else ""
        found = lxml.etree.fromstring(f"<all>{payload}</all>")
        written = [(str(z.get("i")), str(z[0].get("i"))) for z in found.iter("z")]
        expected = list(zip(places([x for x, _ in pairs]), places([y for _, y in pairs]), strict=True))
        assert written == expected, (query, xml)
        nonempty += bool(expected)
    assert nonempty > 100


@pytest.mark.parametrize(
    "query",
    [
        "for $x in //a for $y in //a where $x/b = $y/@x return <z>{ $x/@x }</z>",
        "for $x in //a for $y in //a[@x = $x/b] return <z>{ $x/@x }</z>",
        "for $x in //a return <o>{ for $y in //a where $y/@x = $x/b return <z>{ $y/@x }</z> }</o>",
        "for $x in //a let $n := $x/b for $y in //a where $x/b = $y/@x and count($n) = 1 return <z>{ $x/@x }</z>",
    ],
)
def test_a_join_takes_time_in_proportion_to_the_message(query: str) -> None:
    def visits(size: int) -> int:
        message = "<r>" + "".join(f"<a x='{n}'><b>{n}</b></a>" for n in range(size)) + "</r>"
        subscriptions = SubscriptionSet({"q": query}, limits=Limits())
        assert subscriptions.deliver(message).undecided == []
        match = subscriptions.match(message)
        assert match.keys == ["q"]
        (delivery,) = subscriptions.deliver(message)
        assert delivery.payload.count(b"<z ") == size
        return len(delivery.payload) + match.visits

    # Where nested loops take the square, 3,000 elements cost 9,000,000 visits.
    assert visits(6_000) < 3_000_000
