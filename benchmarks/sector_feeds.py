"""More feeds of :mod:`benchmarks.real_feeds`: patients' observations, situations on roads, facts of reports.

They are read as conditions on many small siblings, references between elements, and text that says where it belongs.
"""

from __future__ import annotations

import random

from benchmarks.real_feeds import Feed, Kind, element, word, words

WARDS, PATIENTS, CODES, ROADS, ENTITIES, CONCEPTS = 40, 5_000, 600, 300, 4_000, 120
INTERPRETATIONS = ["H", "L", "HH", "LL"]


def _code(chance: random.Random) -> str:
    return f"{chance.randrange(CODES):04d}-{chance.randrange(CODES) % 3}"


def _bundle(chance: random.Random) -> str:
    observations = ""
    for _ in range(chance.randrange(2, 9)):
        about = element("code", _code(chance), system="loinc")
        about += element("value", f"{chance.uniform(0, 200):.2f}", unit=chance.choice(["mg", "mmol"]))
        if chance.random() < 0.6:
            about += element("interpretation", chance.choice(["N", *INTERPRETATIONS]))
        about += element("effective", f"2026-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}")
        observations += element("observation", about, status=chance.choice(["final", "preliminary", "amended"]))
    patient = element("id", f"p{chance.randrange(PATIENTS)}") + element(
        "birth", f"{chance.randrange(1930, 2020)}-05-01"
    )
    patient = element("patient", patient, ward=f"w{chance.randrange(WARDS)}")
    return element("bundle", patient + observations + element("note", words(chance, 40)))


def _traffic(chance: random.Random) -> str:
    situations = "".join(
        element(
            "situation",
            element("road", f"A{chance.randrange(ROADS)}")
            + element("direction", chance.choice("NSEW"))
            + element("km", f"{chance.uniform(0, 400):.1f}")
            + element("type", chance.choice(["accident", "roadworks", "closure", "congestion"]))
            + element("delay", int(chance.expovariate(1 / 20)))
            + element("comment", words(chance, 8)),
            severity=chance.randrange(1, 6),
        )
        for _ in range(chance.randrange(1, 10))
    )
    return element("traffic", situations, publisher=f"pub{chance.randrange(50)}")


def _report(chance: random.Random) -> str:
    contexts = "".join(
        element("context", element("entity", f"{chance.randrange(ENTITIES):06d}"), id=f"c{number}")
        for number in range(3)
    )
    facts = "".join(
        element(
            "fact",
            chance.randrange(-1_000_000, 1_000_000_000),
            concept=_concept(chance),
            ref=f"c{chance.randrange(3)}",
            unit=chance.choice(["USD", "EUR"]),
        )
        for _ in range(chance.randrange(10, 40))
    )
    return element("report", contexts + facts)


def _concept(chance: random.Random) -> str:
    return f"gaap:Concept{chance.randrange(CONCEPTS)}"


def _rest_of_year(chance: random.Random) -> str:
    first = chance.randrange(1930, 2010)
    return f"/bundle/patient[substring(birth, 1, 4) >= {first} and substring(birth, 1, 4) < {first + 5}]"


def _stretch(chance: random.Random) -> str:
    start = chance.randrange(380)
    return f"//situation[road='A{chance.randrange(ROADS)}'][km > {start} and km < {start + chance.randrange(50)}]"


HEALTH: dict[str, Kind] = {
    "above": lambda r: f"//observation[code='{_code(r)}' and value > {r.randrange(200)}]",
    "notable": lambda r: (
        f"//observation[@status='final'][code='{_code(r)}'][interpretation='{r.choice(INTERPRETATIONS)}']"
    ),
    "ward or patient": lambda r: (
        f"/bundle[patient/@ward='w{r.randrange(WARDS)}' or observation/code='{_code(r)}'"
        f" or patient/id='p{r.randrange(PATIENTS)}']"
    ),
    "in ward, either": lambda r: (
        f"/bundle[patient/@ward='w{r.randrange(WARDS)}']"
        f"/observation[interpretation='{r.choice(INTERPRETATIONS)}' or value > {r.randrange(100, 200)}]"
    ),
    "never said": lambda r: f"//observation[code='{_code(r)}'][not(interpretation)]",
    "other ward": lambda r: f"/bundle/patient[@ward != 'w{r.randrange(WARDS)}']",
    "last above": lambda r: f"/bundle/observation[last()][value > {r.randrange(200)}]",
    "followed": lambda r: f"//observation[code='{_code(r)}'][following-sibling::observation/code='{_code(r)}']",
    "born in": _rest_of_year,
    "note": lambda r: f"/bundle[contains(note, '{word(r)}') and observation/code='{_code(r)}']",
}

TRAFFIC: dict[str, Kind] = {
    "delay on": lambda r: f"//situation[road='A{r.randrange(ROADS)}' and delay > {r.randrange(60)}]",
    "stretch": _stretch,
    "or within or": lambda r: (
        f"/traffic[@publisher='pub{r.randrange(50)}' and (situation/road='A{r.randrange(ROADS)}'"
        f" or situation[type='closure' and (delay > {r.randrange(50, 200)} or @severity = 5)])]"
    ),
    "neither": lambda r: (
        f"/traffic[not(situation[road='A{r.randrange(ROADS)}']) and not(situation[delay > {r.randrange(20, 100)}])]"
    ),
    "delays": lambda r: f"/traffic[@publisher='pub{r.randrange(50)}'][sum(situation/delay) > {r.randrange(50, 600)}]",
    "longest": lambda r: f"/traffic[situation[not(delay < ../situation/delay)][road='A{r.randrange(ROADS)}']]",
}

REPORTS: dict[str, Kind] = {
    "fact above": lambda r: f"//fact[@concept='{_concept(r)}' and . > {r.randrange(10**9)}]",
    "two facts": lambda r: (
        f"/report[fact[@concept='{_concept(r)}'] > {r.randrange(10**9)}"
        f" and fact[@concept='{_concept(r)}'] < {r.randrange(10**9)}]"
    ),
    "of entity": lambda r: (
        f"//fact[@concept='{_concept(r)}'][@ref = //context[entity='{r.randrange(ENTITIES):06d}']/@id]"
    ),
    "ratio": lambda r: f"/report[fact[@concept='{_concept(r)}'] div 1000 > {r.randrange(10**6)}]",
    "negative": lambda r: f"//fact[. < 0][@unit='USD'][@name='{_concept(r)}']",
}

SECTOR_FEEDS = (
    Feed("health", _bundle, HEALTH),
    Feed("traffic", _traffic, TRAFFIC),
    Feed("reports", _report, REPORTS),
)
"""These feeds."""
