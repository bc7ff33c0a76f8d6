"""An hour of made-up alerts in five counties, which are extended, narrowed, called off and repeated."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from xml.sax.saxutils import escape

from twigcast.demo.vocabulary import CAP, EVENTS, NAMESPACES, SEVERITIES
from twigcast.registration import Subscription

COUNTIES: Final = ("Lake", "Hill", "Coast", "Forest", "Valley")
MATTERS: Final = 9
MINUTES: Final = 60
_SENDER: Final = "warnings@weather.example"


@dataclass(frozen=True, slots=True)
class DemoAlert:
    """A made-up message of the hour."""

    minute: int
    number: int
    kind: str
    """``Alert``, ``Update`` or ``Cancel``."""
    event: str
    severity: str
    counties: tuple[str, ...]
    refers: int | None = None
    """The number of the message that it updates or calls off."""
    is_over: bool = False
    """Whether it had expired when it came."""
    copy: str = ""
    """Who sent it once more, under a name of their own."""

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.minute:02d}-{self.number:02d}{self.copy and '_' + self.copy}.xml"

    def xml(self, start: datetime) -> str:
        """Returns the message, of an hour that begins at a time."""
        sent = start + timedelta(minutes=self.minute)
        expires = sent - timedelta(seconds=90) if self.is_over else start + timedelta(hours=9)
        areas = "".join(f"<area><areaDesc>{county} county</areaDesc></area>" for county in self.counties)
        refers = ""
        if self.refers is not None:
            refers = f"<references>{_SENDER},{self.refers},{start.isoformat()}</references>"
        return f"""<alert xmlns="{CAP}">
  <identifier>{self.number}</identifier><sender>{_SENDER}</sender><sent>{sent.isoformat()}</sent>
  <status>Actual</status><msgType>{self.kind}</msgType><scope>Public</scope>{refers}
  <info><category>Met</category><event>{escape(self.event)}</event><urgency>Immediate</urgency>
    <severity>{self.severity}</severity><certainty>Observed</certainty><expires>{expires.isoformat()}</expires>{areas}</info>
</alert>
"""


def hour_of_alerts(seed: int) -> list[DemoAlert]:
    """Returns the messages of the hour in the order in which they come.

    Args:
        seed: The same seed gives the same messages; only their times depend on the clock.
    """
    chance = random.Random(seed)  # noqa: S311 - reproducible data, no secret
    planned = [one for matter in range(MATTERS) for one in _matter(chance, matter)]
    numbers: dict[int, int] = {}
    made: list[DemoAlert] = []
    for one in sorted(planned, key=lambda one: (one.minute, one.number)):
        # Until now they have numbers of their matter: those of messages are given as they are sent.
        number = numbers.setdefault(one.number, len(numbers) + 1)
        made.append(replace(one, number=number, refers=None if one.refers is None else numbers[one.refers]))
    return made


def county_subscriptions() -> Iterator[Subscription]:
    """Yields a subscription for each county, and one of whoever is on duty for all that is extreme."""
    for county in COUNTIES:
        yield Subscription(county.lower(), f"//cap:areaDesc = '{county} county'", NAMESPACES)
    yield Subscription("duty", "//cap:info[cap:severity = 'Extreme']", NAMESPACES)


def _matter(chance: random.Random, matter: int) -> Iterator[DemoAlert]:
    """Yields an alert with its updates, perhaps with its end, and with what others send once more."""
    number, minute = matter * 100, chance.randrange(0, 32)
    counties = set(chance.sample(COUNTIES, chance.choice((1, 1, 2))))
    event, severity = chance.choice(EVENTS), chance.choice(SEVERITIES)
    last = DemoAlert(minute, number, "Alert", event, severity, _sorted(counties))
    yield last
    yield from _copies(chance, last)
    for _ in range(chance.choice((0, 1, 2, 2))):
        minute += chance.randrange(3, 14)
        number += 1
        if len(counties) > 1 and chance.random() < 0.6:
            counties.remove(chance.choice(_sorted(counties)))
        else:
            counties.add(chance.choice(COUNTIES))
        severity = chance.choice((severity, chance.choice(SEVERITIES)))
        last = DemoAlert(minute, number, "Update", event, severity, _sorted(counties), refers=last.number)
        yield last
        yield from _copies(chance, last)
    minute = min(MINUTES - 1, minute + chance.randrange(3, 12))
    if matter % 3 < 2:
        yield DemoAlert(minute, number + 1, "Cancel", event, severity, (), refers=last.number)
    elif matter % 6 == 2:
        counties_again = _sorted(counties)
        yield DemoAlert(minute, number + 1, "Alert", event, severity, counties_again, refers=last.number, is_over=True)


def _copies(chance: random.Random, alert: DemoAlert) -> Iterator[DemoAlert]:
    if chance.random() < 0.4:
        yield replace(alert, copy=chance.choice(("radio", "police")))


def _sorted(counties: set[str]) -> tuple[str, ...]:
    return tuple(sorted(counties))


def described(alerts: Sequence[DemoAlert]) -> str:
    """Returns how many messages there are of each kind."""
    kinds = {kind: sum(one.kind == kind and not one.copy for one in alerts) for kind in ("Alert", "Update", "Cancel")}
    counts = f"{kinds['Alert']} alerts, {kinds['Update']} updates, {kinds['Cancel']} cancels"
    return f"{counts}, {sum(bool(one.copy) for one in alerts)} repetitions"
