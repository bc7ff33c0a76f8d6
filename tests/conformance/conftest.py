"""The corpus runners tell at the end how many cases each ran, and why it skipped the others."""

from __future__ import annotations

import pytest

from tests.conformance.answers import TALLY


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TALLY:
        return
    terminalreporter.section("cases of the corpus by runner")
    for runner, tally in sorted(TALLY.items()):
        skipped = sum(count for reason, count in tally.items() if reason)
        terminalreporter.line(f"{runner}: {tally['']} run, {skipped} skipped")
        for reason, count in tally.most_common():
            if reason:
                terminalreporter.line(f"    {count} skipped: {reason}")
