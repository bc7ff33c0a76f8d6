"""Figure 7.6: work of sender and receiver against the complexity of messages, in six forms."""

from twigcast.lab.experiments.diao2005.wire_forms import DELAY, DICTIONARY, STREAM, TEXT, ZLIB, measure, points
from twigcast.lab.experiments.framework.claims import custom, everywhere
from twigcast.lab.experiments.framework.model import Check, Experiment, Figure, Results

_PLAIN = (TEXT, STREAM, DICTIONARY)


def _compression_costs_most() -> Check:
    """At every complexity each compressed form takes longer than each plain one."""

    def check(results: Results) -> tuple[bool, str]:
        margins = [
            min(results.value(form + ZLIB, x, DELAY) for form in _PLAIN)
            / max(results.value(form, x, DELAY) for form in _PLAIN)
            for x in results.xs(TEXT, DELAY)
        ]
        return min(margins) > 1, f"the fastest compressed form takes {min(margins):.2g} times the slowest plain one"

    return check


EXPERIMENTS = (
    Experiment(
        id="D-F7.6",
        title="Processing delay of messages in six forms",
        source="Diao 2005, figure 7.6 (ONYX 2004, section 5)",
        settings="NITF; messages of growing complexity: (levels, most repeats of an element); write, compress, "
        "decompress, read",
        dtd="news",
        sweep={"small": points("small"), "paper": points("paper")},
        measure=measure,
        shows=Figure("complexity of a message: (levels, repeats)", "ms a message, both ends", metric=DELAY),
        published="Text pays for parsing, compressed forms for compression, most of all; the plain element stream and "
        "dictionary are fastest.",
        claims=(
            custom("Compression costs more than anything else", _compression_costs_most()),
            everywhere("The plain element stream is faster than text", STREAM, TEXT, metric=DELAY),
            everywhere("The plain dictionary is faster than text", DICTIONARY, TEXT, metric=DELAY),
        ),
        notes="Published with a parser in Java, next to which reading an element stream cost little. Our scanner reads "
        "a message in the time that an element stream with all its names takes.",
    ),
)
