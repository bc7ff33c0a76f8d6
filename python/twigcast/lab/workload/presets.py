"""The DTDs that come with Twigcast, and the documents that the publications made from DTDs of the same shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from twigcast.lab.workload.documents import documents
from twigcast.lab.workload.errors import WorkloadError
from twigcast.lab.workload.values import ValueDomains, draw_domains
from twigcast.schema import Schema, read_dtd

DTD_NAMES = ("news", "auction", "papers", "library", "manual", "protein", "customers")
"""``news`` has the shape of NITF 2.5, ``auction`` of XMark's, ``papers`` of DBLP's, ``library`` and ``manual`` of the
Bib and Book of the XQuery use cases, ``protein`` of a sequence database's, ``customers`` of a customer data standard's.
"""


@cache
def bundled_dtd(name: str) -> Schema:
    """Returns one of the DTDs that come with Twigcast.

    Raises:
        WorkloadError: there is none of this name.
    """
    if name not in DTD_NAMES:
        raise WorkloadError(f"no DTD {name!r} comes with Twigcast; there are {', '.join(DTD_NAMES)}")
    with resources.as_file(resources.files("twigcast.lab.workload") / "dtds" / f"{name}.dtd") as path:
        return read_dtd(path)


@dataclass(frozen=True, slots=True)
class DocumentPreset:
    """Parameters of documents (Diao 2005, sections 4.4.2 and 6.7.1)."""

    levels: int
    max_repeats: int = 3
    repeats: Mapping[str, int] = field(default_factory=dict)
    max_value: int = 20
    draw_sizes: bool = True

    def domains(self, schema: Schema, seed: int = 1) -> ValueDomains:
        """Returns the value domains to use for documents and queries alike."""
        return draw_domains(schema, seed, max_value=self.max_value, draw_sizes=self.draw_sizes)

    def make(self, schema: Schema, count: int, seed: int = 1) -> Iterator[bytes]:
        """Makes documents with these parameters."""
        return documents(
            schema,
            count,
            seed,
            levels=self.levels,
            max_repeats=self.max_repeats,
            repeats=self.repeats,
            domains=self.domains(schema, seed),
        )


PRESETS: Mapping[str, DocumentPreset] = {
    "news": DocumentPreset(levels=6),
    "auction": DocumentPreset(levels=8, max_repeats=2),
    "papers": DocumentPreset(levels=8, max_repeats=5),
    "library": DocumentPreset(
        levels=4, repeats={"volume": 20, "writer": 5, "compiler": 5}, max_value=10, draw_sizes=False
    ),
    "manual": DocumentPreset(levels=5, max_repeats=4, repeats={"chapter": 12}, max_value=10, draw_sizes=False),
    "protein": DocumentPreset(levels=7),
    "customers": DocumentPreset(levels=8),
}
"""By the name of the DTD."""
