"""Validation by XML Schema, with schemas that would take the time or the memory of a process."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest
from lxml import etree

from twigcast.schema import xsd
from twigcast.schema.dtd import SchemaError
from twigcast.schema.xsd import XsdValidator

HEAD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
ALERT = f"""{HEAD}<xs:element name="alert"><xs:complexType><xs:sequence>
<xs:element name="level" type="xs:int"/><xs:element name="area" type="xs:string" maxOccurs="unbounded"/>
</xs:sequence><xs:attribute name="id" type="xs:NCName" use="required"/></xs:complexType></xs:element></xs:schema>"""
BACKTRACKING = f"""{HEAD}<xs:element name="a"><xs:simpleType><xs:restriction base="xs:string">
<xs:pattern value="((a|aa)+)+b"/></xs:restriction></xs:simpleType></xs:element></xs:schema>"""

DOCUMENTS = (
    "<alert id='a'><level>1</level><area>x</area></alert>",
    "<alert id='a'>\n<level>x</level><area>x</area></alert>",
    "<alert><level>1</level><area>x</area></alert>",
    "<alert id='a'><area>x</area></alert>",
    "<alert id='a'><level>1</level><area>x</area><area/></alert>",
    "<other/>",
)


def test_a_message_is_valid_where_lxml_says_so_and_faults_have_lines() -> None:
    validator = XsdValidator(ALERT.encode())
    oracle = etree.XMLSchema(etree.fromstring(ALERT.encode()))
    for document in DOCUMENTS:
        fault = validator.fault(document.encode())
        assert (fault is None) == oracle.validate(etree.fromstring(document)), document
    fault = validator.fault(DOCUMENTS[1].encode())
    assert fault is not None
    assert fault[0] == 2
    assert fault[1].startswith("the schema does not allow it: Element 'level'")
    validator.close()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<a", "no schema"),
        ("<a/>", "no schema: its root is 'a'"),
        (f"{HEAD}<xs:element name='a' type='b'/></xs:schema>", "line 1: "),
        (f"{HEAD}<xs:include schemaLocation='/etc/passwd'/></xs:schema>", "refers to '/etc/passwd'"),
        (f"{HEAD}<xs:redefine schemaLocation='a.xsd'/></xs:schema>", "refers to 'a.xsd'"),
        (
            f"{HEAD}<xs:import namespace='urn:a' schemaLocation='http://127.0.0.1:1/a'/></xs:schema>",
            "refers to 'http://127.0.0.1:1/a'",
        ),
        (f"<!DOCTYPE a [<!ENTITY e SYSTEM '/etc/passwd'>]>{HEAD}</xs:schema>", "DOCTYPE"),
    ],
)
def test_what_is_no_schema_or_refers_to_others_is_refused(text: str, told: str) -> None:
    with pytest.raises(SchemaError) as refused:
        XsdValidator(text.encode())
    assert told in str(refused.value)


def test_the_attributes_of_xml_are_there() -> None:
    text = f"""{HEAD}<xs:import namespace="http://www.w3.org/XML/1998/namespace" schemaLocation="http://x/xml.xsd"/>
    <xs:element name="a"><xs:complexType><xs:attribute ref="xml:lang"/></xs:complexType></xs:element></xs:schema>"""
    validator = XsdValidator(text.encode())
    assert validator.fault(b"<a xml:lang='en'/>") is None
    assert validator.fault(b"<a lang='en'/>") is not None
    validator.close()


def test_a_document_that_takes_too_long_is_not_valid_and_its_schema_is_set_aside() -> None:
    validator = XsdValidator(BACKTRACKING.encode(), seconds_max=0.3)
    assert validator.fault(b"<a>aab</a>") is None
    begun = time.monotonic()
    for _ in range(xsd.OVERRUNS_MAX):
        fault = validator.fault(b"<a>" + b"a" * 60 + b"</a>")
        assert fault is not None
        assert "it cannot be validated by the schema: it takes" in fault[1]
    fault = validator.fault(b"<a>aab</a>")
    assert fault is not None
    assert "is tried again within a minute" in fault[1]
    assert time.monotonic() - begun < 30
    validator.close()


def test_a_schema_that_explodes_ends_its_own_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xsd, "COMPILE_SECONDS_MAX", 2.0)
    good = XsdValidator(ALERT.encode())
    inner = "<xs:element name='e0'/>"
    for depth in range(7):
        group = f"<xs:sequence minOccurs='2' maxOccurs='900'>{inner}</xs:sequence>"
        inner = f"<xs:choice minOccurs='2' maxOccurs='900'>{group}<xs:element name='f{depth}'/></xs:choice>"
    text = f"{HEAD}<xs:element name='a'><xs:complexType>{inner}</xs:complexType></xs:element></xs:schema>"
    with suppress(SchemaError):  # whether it can be compiled in that time depends on the machine
        XsdValidator(text.encode()).close()
    assert good.fault(DOCUMENTS[0].encode()) is None
    good.close()


def test_threads_take_turns_and_there_are_so_many_processes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xsd, "PROCESSES_MAX", 2)
    validators = [XsdValidator(ALERT.replace("alert", f"alert{n}").encode()) for n in range(4)]
    wrong: list[object] = []

    def check(number: int) -> None:
        validator = validators[number]
        for _ in range(5):
            for document in DOCUMENTS[:2]:
                fault = validator.fault(document.replace("alert", f"alert{number}").encode())
                if (fault is None) != (document is DOCUMENTS[0]):
                    wrong.append(fault)

    threads = [threading.Thread(target=check, args=(n % 4,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for validator in validators:
        validator.close()
