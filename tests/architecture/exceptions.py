"""The exceptions to the house rules, which may only become fewer.

``exceptions.toml`` lists for each rule what breaks it today and why that is accepted. A test compares the list with
what the sources hold: what is new fails, and so does an entry that no longer occurs. After a change that removes or
renames offenders::

    python -m tests.architecture.exceptions

rewrites the list. It leaves out the rules that would have more exceptions than before, and names them: a new exception
is added by hand, with a reason.
"""

from __future__ import annotations

import functools
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

EXCEPTIONS_FILE = Path(__file__).with_name("exceptions.toml")
_HEAD = """\
# What breaks a house rule today, with the reason. The tests beside this file fail on anything that is not listed, and
# on entries that no longer occur: the lists may only become shorter. `python -m tests.architecture.exceptions` removes
# what is gone. A number in place of a list: so many offenders in that file.
"""


@dataclass
class Exceptions:
    """One table of the file: offenders of one rule that share a reason."""

    rule: str
    reason: str
    entries: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """Number of offenders by file, for rules with very many."""


def read_exceptions(text: str) -> list[Exceptions]:
    """Reads the tables of the file."""
    return [Exceptions(**table) for table in tomllib.loads(text).get("exceptions", [])]


@functools.cache
def _tables() -> list[Exceptions]:
    return read_exceptions(EXCEPTIONS_FILE.read_text(encoding="utf-8"))


def _accepted(tables: Iterable[Exceptions]) -> Counter[str]:
    accepted: Counter[str] = Counter()
    for table in tables:
        accepted.update(table.entries)
        accepted.update(table.counts)
    return accepted


def listed(rule: str) -> Counter[str]:
    """Returns the accepted offenders of a rule with how often each may occur."""
    return _accepted(table for table in _tables() if table.rule == rule)


def differences(offenders: Iterable[str], accepted: Counter[str]) -> tuple[list[str], list[str]]:
    """Returns which offenders are new, and which accepted ones no longer occur."""
    occurring = Counter(offenders)
    return sorted((occurring - accepted).elements()), sorted((accepted - occurring).elements())


def check(rule: str, hint: str, offenders: Iterable[str], detail: Callable[[str], str] = str) -> None:
    """Fails if offenders of a rule are not listed, or if listed ones no longer occur. The hint says what to do."""
    new, gone = differences(offenders, listed(rule))
    lines = []
    if new:
        lines += [
            f"{rule}: {len(new)} that no exception lists ({hint}):",
            *(f"  {detail(n)}" for n in dict.fromkeys(new)),
        ]
    if gone:
        lines += [
            f"{rule}: {len(gone)} listed exceptions no longer occur; run `python -m tests.architecture.exceptions`:",
            *(f"  {item} ({count} times)" if count > 1 else f"  {item}" for item, count in Counter(gone).items()),
        ]
    assert not lines, "\n".join(lines)


def by_file(offenders: Iterable[str]) -> list[str]:
    """Returns the files of offenders that are written ``file: what``; a file occurs once for each."""
    return [offender.partition(": ")[0] for offender in offenders]


def _written(tables: Iterable[Exceptions]) -> str:
    parts = [_HEAD]
    for table in tables:
        lines = ["[[exceptions]]", f"rule = {json.dumps(table.rule)}", f"reason = {json.dumps(table.reason)}"]
        if table.entries:
            lines += ["entries = [", *(f"    {json.dumps(entry)}," for entry in table.entries), "]"]
        if table.counts:
            lines += ["[exceptions.counts]", *(f"{json.dumps(name)} = {n}" for name, n in sorted(table.counts.items()))]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def renewed(
    tables: Iterable[Exceptions], occurring: Mapping[str, Iterable[str]]
) -> tuple[list[Exceptions], dict[str, list[str]]]:
    """Returns the tables with what occurs now, and for rules with more offenders than listed the new ones.

    Offenders under a new name replace those that are gone, in the first table of their rule. The tables of a rule that
    has more than before stay as they are.
    """
    result = [Exceptions(t.rule, t.reason, list(t.entries), dict(t.counts)) for t in tables]
    grown: dict[str, list[str]] = {}
    for rule, offenders in occurring.items():
        own = [table for table in result if table.rule == rule]
        accepted = _accepted(own)
        remaining = Counter(offenders)
        if remaining.total() > accepted.total():
            grown[rule] = sorted((remaining - accepted).elements())
        elif own:
            _renew(own, remaining)
    return [table for table in result if table.entries or table.counts], grown


def _renew(tables: list[Exceptions], remaining: Counter[str]) -> None:
    for table in tables:
        table.entries = [entry for entry in table.entries if _taken(remaining, entry)]
        for name, count in list(table.counts.items()):
            table.counts[name] = min(count, remaining[name])
            remaining[name] -= table.counts[name]
            if not table.counts[name]:
                del table.counts[name]
    left = Counter((+remaining).elements())
    if tables[0].counts:
        tables[0].counts = dict(Counter(tables[0].counts) + left)
    else:
        tables[0].entries = sorted([*tables[0].entries, *left.elements()])


def _taken(remaining: Counter[str], entry: str) -> bool:
    if remaining[entry] <= 0:
        return False
    remaining[entry] -= 1
    return True


def main() -> None:
    """Rewrites the file of exceptions with what occurs now."""
    from tests.architecture.rules import RULES

    tables, grown = renewed(_tables(), {name: rule() for name, rule in RULES.items()})
    EXCEPTIONS_FILE.write_text(_written(tables), encoding="utf-8")
    if grown:
        sys.exit("\n".join(f"{rule} has more offenders than are listed: {new[:20]}" for rule, new in grown.items()))


if __name__ == "__main__":
    main()
