"""The published plans for rewriting: worked examples, claims, and agreement with libxml2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest
from lxml import etree

from twigcast.lab.experiments.diao2005.rewriting import transform_query_of
from twigcast.lab.reference.events import read_events
from twigcast.lab.reference.language import LocationStep, OutsideFragment
from twigcast.lab.transform import Optimization, PathSharing, PlanSharing, Pushed, TransformQuery, transform_query
from twigcast.lab.transform.claims import canonical, claim_1, claim_2, claim_3, claim_4, claim_5
from twigcast.lab.transform.plans import DupElim
from twigcast.lab.transform.query import NavigationPath
from twigcast.lab.transform.streams import PathMatcher, Stream
from twigcast.lab.workload import PRESETS, bundled_dtd, flwr_parts
from twigcast.query import parse
from twigcast.schema import ElementGraph, read_dtd

# A bulletin of our own with the structure of the worked examples: sheet, item (recursive), head, pic, cap.
MESSAGE = (
    b'<sheet><item id="1" prio="high"><head>Port</head><item id="2" prio="low"><head>Cranes</head>'
    b'<pic src="p1"><cap>Quay</cap></pic></item><pic src="p2"><cap>Harbour</cap></pic></item>'
    b'<item id="3" prio="high"><head>Rail</head></item></sheet>'
)
GRAPH = ElementGraph(
    read_dtd(
        b"<!ELEMENT sheet (item*)> <!ELEMENT item (head, (item | pic)*)> <!ELEMENT head (#PCDATA)>"
        b"<!ELEMENT pic (cap)> <!ELEMENT cap (#PCDATA)>"
    )
)


def path(text: str) -> NavigationPath:
    return tuple(LocationStep(axis, name) for axis, name in re.findall(r"(//?)([\w*]+)", text))


EXAMPLES: dict[str, tuple[str, str | None]] = {
    "T1": (
        """for $i in //item[@prio="high"] where $i/head = "Port" return <n>{ $i/head }{ $i//pic }</n>""",
        '<n><head>Port</head><pic src="p1"><cap>Quay</cap></pic><pic src="p2"><cap>Harbour</cap></pic></n>',
    ),
    "T2": (
        """<pics>{ for $p in //item[@id<=2]//pic where $p/cap = "Quay" return <p>{ $p/cap }</p> }</pics>""",
        "<pics><p><cap>Quay</cap></p></pics>",
    ),
    "T3": (
        """for $i in //item where $i//cap = "Quay" return <it>{ $i//item//head }{ $i/pic }</it>""",
        '<it><head>Cranes</head><pic src="p2"><cap>Harbour</cap></pic></it>'
        '<it><pic src="p1"><cap>Quay</cap></pic></it>',
    ),
    "T4": (
        "for $i in //item return <e><k>{ $i/pic/cap }</k>{ $i/head }</e>",
        "<e><k><cap>Harbour</cap></k><head>Port</head></e><e><k><cap>Quay</cap></k><head>Cranes</head></e>"
        "<e><k></k><head>Rail</head></e>",
    ),
    "T5": (
        """for $i in /sheet/item where $i/item/head="Cranes" and $i/pic/cap="Harbour" return <hit>{ $i/head }</hit>""",
        "<hit><head>Port</head></hit>",
    ),
    "T6": (
        """for $i in //item where $i/@prio="high" return <h>{$i/head}</h>""",
        "<h><head>Port</head></h><h><head>Rail</head></h>",
    ),
    "T7": ("""for $p in //item[@prio="low"]//pic return <x>{$p/cap}</x>""", "<x><cap>Quay</cap></x>"),
    "T8": (
        """for $p in //item[@prio="high"]//pic return <x>{$p/cap}</x>""",
        "<x><cap>Quay</cap></x><x><cap>Harbour</cap></x>",
    ),
    "T9": ("""for $i in //item where $i/head="Nope" return <e>{$i/head}</e>""", None),
}

PLANS = [(pushed, level) for pushed in Pushed for level in Optimization]


def plan(pushed: Pushed, level: Optimization) -> PathSharing:
    return PathSharing(pushed, level, GRAPH if level is Optimization.QUERY_AND_DTD else None)


def expected_results() -> dict[str, str]:
    return {key: text for key, (_, text) in EXAMPLES.items() if text is not None}


@pytest.mark.parametrize(("pushed", "level"), PLANS)
def test_worked_examples(pushed: Pushed, level: Optimization) -> None:
    plans = plan(pushed, level)
    for key, (query, _) in EXAMPLES.items():
        plans.add(key, transform_query(parse(query)))
    assert plans.transform(MESSAGE) == expected_results()


@pytest.mark.parametrize("graph", [None, GRAPH])
def test_worked_examples_shared(graph: ElementGraph | None) -> None:
    plans = PlanSharing(graph)
    for key, (query, _) in EXAMPLES.items():
        plans.add(key, transform_query(parse(query)))
    assert plans.transform(MESSAGE) == expected_results()


def test_streams_are_ordered_on_the_last_field_only() -> None:
    matcher = PathMatcher()
    streams: dict[str, Stream] = {
        "//item": [(2,), (4,), (10,)],
        "//item//pic": [(2, 6), (4, 6), (2, 8)],
        "//item/head": [(2, 3), (4, 5), (10, 11)],
        "//item/pic": [(4, 6), (2, 8)],
        "//item/pic/cap": [(4, 6, 7), (2, 8, 9)],
        "//item//item//head": [(2, 4, 5)],
        "/sheet/item/pic/cap": [(1, 2, 8, 9)],
    }
    for text in streams:
        matcher.insert(path(text))
    message = matcher.match(read_events(MESSAGE))
    for text, stream in streams.items():
        results = message.stream(path(text))
        assert sorted(results) == sorted(stream), text
        assert [t[-1] for t in results] == sorted(t[-1] for t in results), text


def test_paths_leave_with_their_last_user() -> None:
    matcher = PathMatcher()
    matcher.insert(path("/a//b"))
    matcher.insert(path("/a//b"))
    matcher.insert(path("/a/c"))
    matcher.remove(path("/a//b"))
    assert len(matcher) == 2
    matcher.remove(path("/a//b"))
    matcher.remove(path("/a/c"))
    assert (len(matcher), matcher.states) == (0, 1)


# Claims


@pytest.mark.parametrize(
    ("text", "bound", "expected"),
    [
        ("//item//pic", 2, (False, False)),
        ("//item", 1, (True, False)),
        ("//pic//cap", 2, (False, True)),
    ],
)
def test_claims_on_bindings(text: str, bound: int, expected: tuple[bool, bool]) -> None:
    assert (claim_1(path(text)), claim_2(path(text), GRAPH)) == expected


def test_claims_on_extended_paths() -> None:
    assert not claim_4(path("//item//pic/cap"), 2)
    assert claim_5(path("//item//pic/cap"), 2, GRAPH)
    assert claim_3(path("//item/pic/cap"), 1)
    assert not claim_5(path("//item/pic/cap"), 1, GRAPH)
    assert not claim_3(path("//item//item//head"), 1, GRAPH)
    assert claim_4(path("/sheet/item//head"), 2)
    # A wildcard stands for every element.
    assert not claim_2(path("//*//pic"), GRAPH)
    assert not claim_5(path("//*/head"), 1, GRAPH)


def random_graph(random: Random) -> ElementGraph:
    names = "abcd"
    text = ""
    for number, name in enumerate(names):
        later = [other for other in names if random.random() < (0.5 if other > name else 0.15)]
        if not later and number == 0:
            later = ["b"]
        text += f"<!ELEMENT {name} ({'|'.join(later)})*>" if later else f"<!ELEMENT {name} EMPTY>"
    return ElementGraph(read_dtd(text.encode(), root="a"))


def random_message(graph: ElementGraph, random: Random) -> bytes:
    def element(name: str, level: int) -> str:
        count = 0 if level > 5 else int(random.random() * 3.2)
        children = graph.children(name)
        inner = "".join(element(random.choice(children), level + 1) for _ in range(count if children else 0))
        return f"<{name}>{inner}</{name}>"

    return element(graph.root, 1).encode()


def random_path(graph: ElementGraph, random: Random) -> NavigationPath:
    steps: list[LocationStep] = []
    previous: str | None = None
    for _ in range(random.randint(1, 4)):
        axis = random.choice(["/", "//"])
        options: tuple[str, ...] = (graph.root,) if previous is None else graph.children(previous)
        if axis == "//":
            options = tuple(graph.names)
        if not options:
            break
        previous = random.choice(options)
        steps.append(LocationStep(axis, "*" if random.random() < 0.1 else previous))
    return tuple(steps)


def test_claims_are_sound() -> None:
    """No stream breaks what a claim promises, and every claim applies often."""
    random = Random("claims")
    applied = dict.fromkeys(range(1, 6), 0)
    for _ in range(2500):
        graph = random_graph(random)
        text = random_path(graph, random)
        matcher = PathMatcher()
        matcher.insert(text)
        stream = matcher.match(read_events(random_message(graph, random))).stream(text)
        if not stream:
            continue
        last = [t[-1] for t in stream]
        if claim_1(text) or claim_2(text, graph):
            applied[1 if claim_1(text) else 2] += 1
            assert len(set(last)) == len(last)
        for field in range(1, len(text)):
            values = [t[field - 1] for t in stream]
            pairs = list(zip(values, last, strict=True))
            if claim_3(text, field, graph):
                applied[3] += 1
                assert len(set(pairs)) == len(pairs)
            if claim_4(text, field) or claim_5(text, field, graph):
                applied[4 if claim_4(text, field) else 5] += 1
                assert all(before <= after for before, after in pairwise(values))
    assert min(applied.values()) > 20, applied


def test_canonical_form_selects_the_same() -> None:
    random = Random("canonical")
    changed = 0
    for _ in range(500):
        graph = random_graph(random)
        text = random_path(graph, random)
        rewritten = canonical(text, graph)
        changed += rewritten != text
        matcher = PathMatcher()
        matcher.insert(text)
        matcher.insert(rewritten)
        message = matcher.match(read_events(random_message(graph, random)))
        last = [{t[-1] for t in message.stream(p)} for p in (text, rewritten)]
        assert last[0] == last[1], (text, rewritten)
    assert changed > 50


def test_canonical_examples() -> None:
    assert canonical(path("//sheet//item"), GRAPH) == path("/sheet//item")
    assert canonical(path("//pic//cap"), GRAPH) == path("//pic/cap")
    assert canonical(path("//item//cap"), GRAPH) == path("//item//cap")


def test_operators_of_example_plans() -> None:
    plans = plan(Pushed.FOR_WHERE_RETURN, Optimization.QUERY_AND_DTD)
    second = plans.plan(transform_query(parse(EXAMPLES["T2"][0])))
    assert second.binding_dup_elim is DupElim.SCAN
    assert second.predicates[0].merge
    fourth = plans.plan(transform_query(parse(EXAMPLES["T4"][0])))
    assert fourth.binding_dup_elim is DupElim.DROPPED
    assert [r.dup_elim for r in fourth.returns] == [DupElim.DROPPED, DupElim.DROPPED]
    assert not fourth.merge_outer_join


def test_without_recursion_nothing_is_left_to_hash() -> None:
    schema = bundled_dtd("library")
    plans = PathSharing(Pushed.FOR_WHERE_RETURN, Optimization.QUERY_AND_DTD, ElementGraph(schema))
    for number, query in enumerate(flwr_parts(schema, 300, descendant=0.4)):
        plans.add(str(number), transform_query_of(query))
    counts = plans.operator_counts()
    assert (counts["semijoins, hash"], counts["outer joins, hash"], counts["DupElims"]) == (0, 0, 0)


# Differential tests


def naive(query: TransformQuery, tree: etree._ElementTree) -> str | None:
    """One query, evaluated by libxml2 clause by clause (Diao 2005, section 6.2)."""
    conditions: dict[int, str] = {}
    for condition in query.conditions:
        conditions[condition.step] = conditions.get(condition.step, "") + str(condition.predicate)
    binding = "".join(f"{s.axis}{s.name}{conditions.get(i, '')}" for i, s in enumerate(query.binding))
    pieces = []
    for node in tree.xpath(binding):
        if all(node.xpath(_relative(w.path) + (str(w.predicate) if w.predicate else "")) for w in query.where):
            for part in query.template:
                if isinstance(part, str):
                    pieces.append(part)
                else:
                    results = node.xpath(_relative(query.returns[part]))
                    pieces += [etree.tostring(e, with_tail=False).decode() for e in results]
    return None if not pieces else query.wrapper[0] + "".join(pieces) + query.wrapper[1]


def _relative(steps: NavigationPath) -> str:
    return "self::*" if not steps else f".{''.join(map(str, steps))}"


def workloads() -> Iterator[tuple[str, float, int]]:
    for name in ("library", "manual"):
        for descendant_probability in (0.0, 0.4):
            for predicates in (0, 1, 3):
                yield name, descendant_probability, predicates


@pytest.mark.parametrize(("name", "descendants", "predicates"), list(workloads()))
def test_plans_agree_with_libxml2(name: str, descendants: float, predicates: int) -> None:
    schema = bundled_dtd(name)
    graph = ElementGraph(schema)
    parts = flwr_parts(schema, 40, 7, binding_depth=3, predicate_paths=predicates, descendant=descendants, max_value=2)
    queries = {f"q{number}": transform_query_of(part) for number, part in enumerate(parts)}
    matchers: list[PathSharing | PlanSharing] = [PathSharing(p, level, graph) for p, level in PLANS]
    matchers += [PlanSharing(), PlanSharing(graph)]
    for matcher in matchers:
        for key, query in queries.items():
            matcher.add(key, query)
    preset = PRESETS[name]
    small = preset.__class__(preset.levels, 3, max_value=2, draw_sizes=False)
    matched = 0
    for message in small.make(schema, 6, seed=3):
        tree = etree.ElementTree(etree.fromstring(message))
        results = {key: naive(query, tree) for key, query in queries.items()}
        expected = {key: text for key, text in results.items() if text is not None}
        matched += len(expected)
        for matcher in matchers:
            assert matcher.transform(message) == expected
    assert matched > 5


def test_removing_leaves_the_others() -> None:
    schema = bundled_dtd("manual")
    graph = ElementGraph(schema)
    parts = flwr_parts(schema, 60, 3, binding_depth=3, max_value=4)
    message = next(PRESETS["manual"].make(schema, 1, seed=5))
    for make in (lambda: PathSharing(Pushed.FOR_WHERE_RETURN), lambda: PlanSharing(graph), lambda: PlanSharing()):
        whole, half = make(), make()
        for number, part in enumerate(parts):
            whole.add(str(number), transform_query_of(part))
            if number % 2:
                half.add(str(number), transform_query_of(part))
        for number in range(0, len(parts), 2):
            whole.remove(str(number))
        assert whole.match(message) == half.match(message)
        assert whole.matcher.states == half.matcher.states
        for number in range(1, len(parts), 2):
            whole.remove(str(number))
        assert whole.matcher.states == 1


def test_equal_plans_are_counted_once() -> None:
    plans = PlanSharing(GRAPH)
    texts = [f'for $i in //item where $i/head = "Port" return <{tag}>{{ $i/head }}</{tag}>' for tag in "xyz"]
    texts.append('for $i in //item where $i/head = "Rail" return <x>{ $i/head }</x>')
    for number, text in enumerate(texts):
        plans.add(str(number), transform_query(parse(text)))
    assert plans.unique_plans == 2
    assert len(plans.joins) == 1
    assert list(plans.match(MESSAGE)) == ["0", "1", "2", "3"]


def test_keys_are_unique() -> None:
    for plans in (PathSharing(Pushed.FOR), PlanSharing()):
        plans.add("k", transform_query(parse(EXAMPLES["T1"][0])))
        with pytest.raises(ValueError, match="already"):
            plans.add("k", transform_query(parse(EXAMPLES["T1"][0])))


@pytest.mark.parametrize(
    "query",
    [
        "/a",
        "for $i in /a[b] return <x/>",
        "for $i in /a[2] return <x/>",
        "for $i in /a where not($i/b) return <x/>",
        "for $i in /a where $i/b[c] return <x/>",
        "for $i in /a where /b return <x/>",
        "for $i in /a, $j in $i/b return <x/>",
        "for $i in /a let $j := $i/b return <x/>",
        "for $i in /a order by $i/b return <x/>",
        "for $i in /a return <x>{ count($i/b) }</x>",
        "for $i in /a return <x>{ $i/@b }</x>",
        """for $i in /a return <x y="{ $i/b }"/>""",
        "<w>{ for $i in /a return $i }{ for $i in /a return $i }</w>",
    ],
)
def test_what_is_outside_the_subset_is_refused(query: str) -> None:
    with pytest.raises(OutsideFragment):
        transform_query(parse(query))


def test_templates_are_xml() -> None:
    plans = PathSharing(Pushed.FOR_WHERE_RETURN)
    plans.add("k", transform_query(parse("""for $i in /r return (<o a="{{1}} &lt;">b &amp; {{</o>, $i/s, <e/>)""")))
    assert plans.transform(b"<r><s/></r>") == {"k": '<o a="{1} &lt;">b &amp; {</o><s/><e/>'}


def test_results_are_escaped_and_keep_their_namespaces() -> None:
    message = b'<r xmlns:x="urn:x"><x:a k="&lt;&quot;">1 &amp; 2<b x:m="1"/></x:a></r>'
    plans = PathSharing(Pushed.FOR_WHERE_RETURN)
    plans.add("k", transform_query(parse("for $i in /r return <o>{ $i/* }</o>")))
    text = plans.transform(message)["k"]
    inner = etree.fromstring(text)[0]
    assert inner.tag == "{urn:x}a"
    assert (inner.get("k"), inner.text, inner[0].get("{urn:x}m")) == ('<"', "1 & 2", "1")
