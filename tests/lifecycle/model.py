"""A model of life cycles, as simple as can be, and histories of messages for it.

The model keeps a dictionary for each matter, and goes through them one by one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PROFILE = {
    "name": "made-up",
    "identity": "/m/@id",
    "version": "/m/@v",
    "refers": "/m/ref",
    "expires": "/m/@expires",
    "cancel": "/m[@kind = 'cancel']",
    "end": "/m[@kind = 'end']",
    "update": "/m[@kind = 'update']",
    "apart": "/m[@kind = 'apart']",
    "follow": True,
}

AREAS = "ABCD"


@dataclass(frozen=True)
class Made:
    """A made-up message."""

    id: str
    version: int
    kind: str
    refers: tuple[str, ...]
    areas: str
    expires: int | None

    @property
    def xml(self) -> str:
        expires = "" if self.expires is None else f' expires="{iso(self.expires)}"'
        refers = "".join(f"<ref>{one}</ref>" for one in self.refers)
        areas = "".join(f"<area>{area}</area>" for area in self.areas)
        return f'<m id="{self.id}" v="{self.version}" kind="{self.kind}"{expires}>{refers}{areas}</m>'


def iso(seconds: int) -> str:
    return f"1970-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def history(random_: random.Random, count: int, *, expiring: bool = True) -> list[Made]:
    """Returns messages about a few matters, with repetitions, and some out of order."""
    made: list[Made] = []
    for number in range(count):
        earlier = [one for one in made[-12:] if one.kind != "apart"]
        kind = random_.choices(["new", "update", "cancel", "end", "apart"], [4, 5, 2, 1, 1])[0]
        areas = "".join(area for area in AREAS if random_.random() < 0.4)
        expires = random_.choice([None, None, number + random_.randrange(-5, 40)])
        expires = None if expires is None or not expiring else max(1, expires)
        if earlier and random_.random() < 0.2:
            made.append(random_.choice(earlier))
        elif earlier and random_.random() < 0.4:
            before = random_.choice(earlier)
            made.append(Made(before.id, before.version + random_.choice([-1, 1, 1]), kind, (), areas, expires))
        else:
            refers = sorted({random_.choice(earlier).id for _ in range(random_.choice([0, 1, 1, 2])) if earlier})
            made.append(Made(f"id{number}", 500, kind, tuple(refers), areas, expires))
    for index in range(len(made) - 1):
        if random_.random() < 0.15:
            other = min(len(made) - 1, index + random_.randrange(1, 5))
            made[index], made[other] = made[other], made[index]
    return made


EFFECTS = ("first", "update", "cancel", "end", "expired", "late")
REPEATED = {"cancel": ("cancel", "late"), "end": ("end", "late"), "update": ("update", "expired", "late")}
"""By kind of a message, the effects that one of the same version had if this one says nothing new."""


class Model:
    """What subscribers have, matter by matter."""

    def __init__(self) -> None:
        self.matters: list[dict[str, Any]] = []
        self.waiting: set[tuple[str, int]] = set()
        """What subscribers have got and not been told to forget: key, and number of the message."""
        self._count = 0

    def enter(
        self, m: Made, subscribers: Mapping[str, str], follows: Mapping[str, bool], at: float, number: int = 0
    ) -> dict[str, str]:
        """Returns what a message is to those who get it."""
        self._count += 1
        told = self._enter(m, subscribers, {k: follows[k] and k in subscribers for k in follows}, at, number)
        self.waiting |= {(key, number) for key in told}
        return told

    def _enter(
        self, m: Made, subscribers: Mapping[str, str], follows: Mapping[str, bool], at: float, number: int
    ) -> dict[str, str]:
        matching = {key for key, area in subscribers.items() if area in m.areas}
        if m.kind == "apart":
            return dict.fromkeys(matching, "")
        mine = [one for one in self.matters if {m.id, *m.refers} & one["names"]]
        later = [one for one in mine if m.id in one["names"]]
        mine_before = [entry for one in later for entry in one["log"] if entry[0] == m.id]
        versions = [entry[1] for entry in mine_before]
        overtaken = any(v > m.version for v in versions) or (
            not versions and any(m.id in one["referred"] for one in later)
        )
        if any(entry[1] == m.version and entry[5] in REPEATED.get(m.kind, EFFECTS) for entry in mine_before):
            (one,) = mine if len(mine) == 1 else [self.join(mine)]
            standing = [entry for entry in one["log"] if entry[2]]
            is_last = bool(standing) and standing[-1][:2] == (m.id, m.version)
            newly = matching - set(one["has"]) if is_last and one["over"] is None else set()
            one["has"].update(dict.fromkeys(newly, True))
            return dict.fromkeys(newly, "entered")
        behind = {k for one in mine if one not in later for k in having(one)}
        behind -= {k for one in later for k in having(one)}
        state = self.join(later) if overtaken else None
        over, expires = (state["over"], state["expires"]) if state else (None, m.expires)
        one = self.join([state, *(x for x in mine if x not in later)] if state else mine)
        before = having(one)
        one["names"] |= {m.id, *m.refers}
        one["referred"] |= {name for name in m.refers if name != m.id}
        ends = {"cancel": "cancelled", "end": "expired"}.get(m.kind)
        effect = {"cancel": "cancel", "end": "end"}.get(
            m.kind, "update" if one["log"] or m.kind == "update" else "first"
        )
        if ends is None and m.expires is not None and m.expires <= at:
            ends, effect = "expired", "expired"
        effect = "late" if overtaken else effect
        one["log"].append((m.id, m.version, not overtaken, number, self._count, effect))
        told: dict[str, str] = {}
        if overtaken:
            for k in behind:
                if k in matching or follows[k]:
                    told[k] = over or ("updated" if k in matching else "left")
                one["has"][k] = told.get(k) == "updated"
        elif ends is not None:
            before |= set(one["has"]) if one["over"] is None else set()
            if ends == "cancelled":
                self.waiting -= {(k, entry[3]) for k in before for entry in one["log"][:-1]}
            told = dict.fromkeys({k for k in before if follows[k]} | matching, ends)
            one["has"].update(dict.fromkeys(before | matching, False))
            over = ends
        else:
            told = {k: "updated" if k in before else "entered" for k in matching}
            told |= {k: "left" for k in before - matching if follows[k]}
            one["has"].update({k: k in matching for k in before | matching})
        one["over"], one["expires"] = over, expires
        return told

    def join(self, matters: list[dict[str, Any]]) -> dict[str, Any]:
        """Makes one matter of several."""
        one: dict[str, Any] = {"names": set(), "referred": set(), "log": [], "has": {}, "over": None, "expires": None}
        held = [x for x in matters if x["log"]]
        for x in matters:
            self.matters.remove(x)
            one["names"] |= x["names"]
            one["referred"] |= x["referred"]
            one["has"].update({k: v or one["has"].get(k, False) for k, v in x["has"].items()})
        one["log"] = sorted((entry for x in held for entry in x["log"]), key=lambda entry: entry[4])
        one["over"] = None if any(x["over"] is None for x in held) or not held else held[0]["over"]
        ends = [x["expires"] for x in matters]
        one["expires"] = None if None in ends else max(ends, default=None)
        self.matters.append(one)
        return one

    def expire(self, at: int, subscribers: Mapping[str, str], follows: Mapping[str, bool]) -> set[str]:
        """Returns the matters that are over by now, each with those to whom that is news."""
        news = set()
        for one in self.matters:
            if one["over"] is None and one["expires"] is not None and one["expires"] <= at:
                one["over"] = "expired"
                keys = sorted(k for k in having(one) if follows[k] and k in subscribers)
                one["has"].update(dict.fromkeys(one["has"], False))
                news.add(f"{','.join(keys)} of {sorted(one['names'])}")
        return news


def having(matter: Mapping[str, Any]) -> set[str]:
    """Returns who has a matter."""
    return {key for key, has in matter["has"].items() if has}
