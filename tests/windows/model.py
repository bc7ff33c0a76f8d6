"""A model of windows that knows the whole history: what each message and each moment means, said without any state.

It looks at all events of one key again for each of them, as the definitions say, and shares nothing with the code that
it checks. Times are whole seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Happening:
    """A message of one key."""

    name: str
    arrived: int
    at: int
    value: str = ""
    is_first: bool = True
    is_second: bool = False


@dataclass(frozen=True)
class ModelWindow:
    """A window, in whole seconds."""

    kind: str
    length: int
    lateness: int = 0
    count: int = 0


@dataclass
class Told:
    """Everything that the subscriber of one key is told: why, when, and of which messages."""

    all: list[tuple[str, int, tuple[str, ...]]] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def add(self, what: str, at: int, names: tuple[str, ...]) -> None:
        """Notes something that is told at a time."""
        self.all.append((what, at, names))


def told(window: ModelWindow, events: list[Happening], until: int, begun: int | None = None) -> Told:
    """Returns what the subscriber of one key is told of its events, in the order of their coming, up to a time.

    ``begun`` is when the subscription began, where silence counts from then.
    """
    events = [Happening(e.name, e.arrived, min(e.at, e.arrived), e.value, e.is_first, e.is_second) for e in events]
    result = Told()
    if window.kind == "digest":
        _digest(window, events, until, result)
        return result
    result.late = [e.name for e in events if e.at < e.arrived - window.lateness]
    on_time = [e for e in events if e.name not in result.late]
    if window.kind == "absence":
        _absence(window, on_time, until, begun, result)
    else:
        {"at_least": _at_least, "sequence": _sequence, "throttle": _throttle, "changed": _changed}[window.kind](
            window, on_time, result
        )
    return result


def _at_least(window: ModelWindow, events: list[Happening], result: Told) -> None:
    """Says which messages complete a set of so many unused ones that are close together; the earliest are used up."""
    used: set[str] = set()
    for index, event in enumerate(events):
        unused = sorted((e for e in events[: index + 1] if e.name not in used), key=lambda e: e.at)
        for start in range(len(unused) - window.count + 1):
            some = unused[start : start + window.count]
            if event in some and some[-1].at - some[0].at < window.length:
                used.update(e.name for e in some)
                result.add("deliver", event.arrived, tuple(e.name for e in some))
                break


def _sequence(window: ModelWindow, events: list[Happening], result: Told) -> None:
    """Finds pairs of an unused first message and an unused second one, whichever of them comes first.

    A pair uses up the second message, and all first ones so far that did not happen after its own.
    """
    used_firsts: set[str] = set()
    used_seconds: set[str] = set()

    def follows(first: Happening, second: Happening) -> bool:
        return 0 <= second.at - first.at < window.length

    def pair(first: Happening, second: Happening, known: list[Happening], arrived: int) -> None:
        used_firsts.update(e.name for e in known if e.is_first and e.at <= first.at)
        used_seconds.add(second.name)
        result.add("deliver", arrived, (first.name, second.name))

    for index, event in enumerate(events):
        before = events[:index]
        firsts = [e for e in before if e.is_first and e.name not in used_firsts and follows(e, event)]
        if event.is_second and firsts:
            latest = max(e.at for e in firsts)
            pair([e for e in firsts if e.at == latest][-1], event, before, event.arrived)
        seconds = [e for e in before if e.is_second and e.name not in used_seconds and follows(event, e)]
        # What first ones can no longer come before is not waited for.
        seconds = [e for e in seconds if e.at > event.arrived - window.lateness]
        if event.is_first and seconds:
            pair(event, min(seconds, key=lambda e: e.at), events[: index + 1], event.arrived)


def _throttle(window: ModelWindow, events: list[Happening], result: Told) -> None:
    last: int | None = None
    for event in events:
        if last is None or event.at >= last + window.length:
            last = event.at
            result.add("deliver", event.arrived, (event.name,))


def _changed(window: ModelWindow, events: list[Happening], result: Told) -> None:
    """Compares each message that says a value with the one that happened last of those before it."""
    known: list[Happening] = []
    for event in (e for e in events if e.value):
        last = known[-1] if known and event.arrived < known[-1].arrived + window.length else None
        if last is not None and event.at < last.at:
            result.late.append(event.name)
            continue
        if last is not None and last.value != event.value:
            result.add("deliver", event.arrived, (last.name, event.name))
        known.append(event)


def _absence(window: ModelWindow, events: list[Happening], until: int, begun: int | None, result: Told) -> None:
    """Finds the moments at which the last sign of life is too long ago: each silence is told once."""
    signs = [] if begun is None else [(begun, begun, "")]
    signs += [(e.arrived, e.at, e.name) for e in events]
    for moment in range(until + 1):
        # What comes at the moment itself comes too late.
        known = [(at, index, name) for index, (arrived, at, name) in enumerate(signs) if arrived < moment]
        if known:
            at, _, name = max(known)
            if at + window.length + window.lateness == moment:
                result.add("absent", moment, (name,) if name else ())


def _digest(window: ModelWindow, events: list[Happening], until: int, result: Told) -> None:
    """Collects what happened in each period and came before it was closed."""
    periods: dict[int, list[Happening]] = {}
    for event in events:
        start = event.at - event.at % window.length
        if event.arrived >= start + window.length + window.lateness:
            result.late.append(event.name)
        else:
            periods.setdefault(start, []).append(event)
    for start, some in sorted(periods.items()):
        closed = start + window.length + window.lateness
        if closed <= until:
            result.add("release", closed, tuple(e.name for e in sorted(some, key=lambda e: e.at)))
