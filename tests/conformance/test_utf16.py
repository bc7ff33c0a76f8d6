"""Messages in UTF-16: what is asked of the same characters has the same answer, at the same places."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.conformance import engines
from tests.conformance.answers import Check, no_answer
from tests.conformance.cases import Case, cases_of, files

_ENCODING: Final = re.compile(r"^(\ufeff?<\?xml[^>]*?)(\s+encoding\s*=\s*(?:'[^']*'|\"[^\"]*\"))")


def reason(case: Case) -> str | None:
    if not case.is_plain:
        return "the message has an encoding of its own"
    if case.error is not None and "encoding" in case.message.decode():
        return "the error is one of the encoding"
    if not case.message.removeprefix("\ufeff".encode()).startswith(b"<"):
        return "without markup at its start nothing says that a message is UTF-16"
    if (case.error is not None and case.error.limit == "message_bytes_max") or "message_bytes_max" in case.limits:
        return "the limit is one of bytes"
    return no_answer(case)


def utf16(message: bytes) -> bytes:
    """The message in UTF-16, with the declaration blanked where it names an encoding."""
    text = message.decode().removeprefix("\ufeff")
    return ("\ufeff" + _ENCODING.sub(lambda m: m.group(1) + " " * len(m.group(2)), text)).encode("utf-16-le")


@pytest.mark.parametrize("file", files())
def test_utf16(file: str) -> None:
    run = Check("utf-16")
    for case in run.select(cases_of(file), reason):
        population = engines.set_of(case)
        message = utf16(case.message)
        run.answer(case, engines.ask(population, message, case.nodes, plain=case.message))
        run.answer(case, engines.deliver(population, message))
    run.finish()
