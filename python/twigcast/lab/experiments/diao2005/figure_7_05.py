"""Figure 7.5: bytes on the wire against the complexity of messages, in six forms."""

from twigcast.lab.experiments.diao2005.wire_forms import DICTIONARY, SIZE, STREAM, TEXT, ZLIB, measure, points
from twigcast.lab.experiments.framework.claims import custom, everywhere
from twigcast.lab.experiments.framework.model import Check, Experiment, Figure, Results


def _share(less: str, more: str, lowest: float, highest: float) -> Check:
    """At every complexity one form has a share of the bytes of another within bounds."""

    def check(results: Results) -> tuple[bool, str]:
        shares = [results.value(less, x, SIZE) / results.value(more, x, SIZE) for x in results.xs(less, SIZE)]
        seen = f"{less} has {min(shares):.0%} to {max(shares):.0%} of the bytes of {more}"
        return lowest <= min(shares) and max(shares) <= highest, seen

    return check


EXPERIMENTS = (
    Experiment(
        id="D-F7.5",
        title="Wire size of messages in six forms",
        source="Diao 2005, figure 7.5 (ONYX 2004, section 5)",
        settings="NITF; messages of growing complexity: (levels, most repeats of an element)",
        dtd="news",
        sweep={"small": points("small"), "paper": points("paper")},
        measure=measure,
        shows=Figure("complexity of a message: (levels, repeats)", "bytes on the wire", metric=SIZE),
        published="The element stream is barely smaller than text, the dictionary clearly; compression shrinks all "
        "forms strongly.",
        claims=(
            custom("The element stream is barely smaller than text (80 to 100 %)", _share(STREAM, TEXT, 0.8, 1.0)),
            custom("The dictionary is clearly smaller than text (60 % at most)", _share(DICTIONARY, TEXT, 0.0, 0.6)),
            custom("Compression halves text and more", _share(TEXT + ZLIB, TEXT, 0.0, 0.5)),
            custom("Compression halves the element stream and more", _share(STREAM + ZLIB, STREAM, 0.0, 0.5)),
            everywhere("Compressed text is smaller than the plain dictionary", TEXT + ZLIB, DICTIONARY, metric=SIZE),
            everywhere("The compressed dictionary is the smallest", DICTIONARY + ZLIB, TEXT + ZLIB, metric=SIZE),
        ),
        notes="'names once' is our element stream where there is no dictionary: each name is spelled out once a "
        "message. zstd stands beside the published zlib.",
    ),
)
