"""The profiles of known formats, as a user would write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CAP: Final[Mapping[str, object]] = {
    "identity": ["/*:alert/*:sender/normalize-space(.)", "/*:alert/*:identifier/normalize-space(.)"],
    # What `references` say of the time is left out: many write it otherwise than the alert does (Z, +00:00, -00:00).
    "refers": (
        "tokenize(normalize-space(/*:alert/*:references), ' ') "
        "! concat(substring-before(., ','), ',', substring-before(substring-after(., ','), ','))"
    ),
    "version": "/*:alert/*:sent",
    # Where a block says nothing of its end, that of the others is not the end of the alert.
    "expires": "/*:alert[not(*:info[not(*:expires)])]/*:info/*:expires",
    "cancel": "/*:alert[normalize-space(*:msgType) = 'Cancel']",
    "update": "/*:alert[normalize-space(*:msgType) = 'Update']",
    "apart": "/*:alert[normalize-space(*:msgType) = ('Ack', 'Error')]",
    "follow": True,
}

_ATOM: Final[Mapping[str, object]] = {
    "identity": "/*:entry/*:id | /*:deleted-entry/@ref",
    "version": "/*:entry/*:updated | /*:deleted-entry/@when",
    "cancel": "/*:deleted-entry",
    "item": "entry|deleted-entry",
}

_RSS: Final[Mapping[str, object]] = {
    # Items of RSS 1.0 are in a namespace, and say what they are in RDF.
    "identity": "/*:item/guid | /*:item[not(guid)]/link | /*:item[not(guid | link)]/@*:about",
    "version": "/*:item/pubDate | /*:item[not(pubDate)]/*:date",
    "item": "item",
}

_NEWSML_G2: Final[Mapping[str, object]] = {
    "identity": "/*/@guid",
    "version": "/*/@version",
    "cancel": "/*/*:itemMeta/*:pubStatus[substring-after(@qcode, ':') = ('canceled', 'withheld')]",
    "item": "newsItem|packageItem|conceptItem|knowledgeItem|planningItem",
    "follow": True,
}

_NITF: Final[Mapping[str, object]] = {
    "identity": "/nitf/head/docdata/du-key/@key | /nitf/head/docdata[not(du-key/@key)]/doc-id/@id-string",
    "also": "/nitf/head/docdata/doc-id/@id-string",
    "refers": "/nitf/head/docdata/@management-doc-idref",
    "version": ("/nitf/head/docdata/du-key/@version | /nitf/head/docdata[not(du-key/@version)]/date.issue/@norm"),
    "expires": "/nitf/head/docdata/date.expire/@norm",
    "cancel": "/nitf/head/docdata[@management-status = ('canceled', 'withheld')]",
    "item": "nitf",
    "follow": True,
}

# A document of several situations is none of them: it has to be cut first.
_SITUATION: Final = "/descendant-or-self::*:PtSituationElement[count(//*:PtSituationElement) = 1]"

_SIRI_SX: Final[Mapping[str, object]] = {
    "identity": f"{_SITUATION}/*:SituationNumber/concat(../*:ParticipantRef, ',', .)",
    "version": f"{_SITUATION}/*:Version",
    "expires": f"{_SITUATION}[not(*:ValidityPeriod[not(*:EndTime)])]/*:ValidityPeriod/*:EndTime",
    "end": f"{_SITUATION}[*:Progress = 'closed']",
    "item": "PtSituationElement",
    "follow": True,
}

BUILTIN: Final[Mapping[str, Mapping[str, object]]] = {
    "atom": _ATOM,
    "cap": _CAP,
    "newsml-g2": _NEWSML_G2,
    "nitf": _NITF,
    "rss": _RSS,
    "siri-sx": _SIRI_SX,
}
"""The profiles by name."""
