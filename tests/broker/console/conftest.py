"""One broker for all tests of the console; each test has a tenant of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.broker.console.running import BrokerWithConsole, Person
from twigcast.broker.model import Scope

_numbers = itertools.count(1)


@dataclass
class Party:
    """A tenant of its own, and somebody who is signed in as its administrator."""

    broker: BrokerWithConsole
    tenant_id: int
    name: str
    person: Person

    def publish(self, *bodies: bytes, source: str = "desk", message_id: str | None = None) -> list[int]:
        """Publish messages; their numbers (of the rejected ones, those of theirs)."""
        done = self.broker.publish(*bodies, tenant_id=self.tenant_id, source=source, message_id=message_id)
        return [getattr(one, "seq", None) or one.id for one in done]


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerWithConsole]:
    """A broker with its console."""
    broker = BrokerWithConsole(tmp_path_factory.mktemp("console") / "store")
    yield broker
    broker.stop()


@pytest.fixture
def new_party(running: BrokerWithConsole) -> Iterator[Callable[..., Party]]:
    """Makes tenants with somebody signed in."""
    people: list[Person] = []

    def make(*scopes: Scope) -> Party:
        name = f"tenant {next(_numbers)}"
        tenant_id = running.tenant(name)
        person = Person(running)
        people.append(person)
        person.sign_in(running.token(*scopes, tenant_id=tenant_id))
        return Party(running, tenant_id, name, person)

    yield make
    for person in people:
        person.http.close()


@pytest.fixture
def party(new_party: Callable[..., Party]) -> Party:
    """A tenant with an administrator who is signed in."""
    return new_party()


@pytest.fixture
def operator(running: BrokerWithConsole) -> Iterator[Person]:
    """An administrator of the broker who is signed in."""
    person = Person(running)
    person.sign_in(running.token(name="operator"))
    yield person
    person.http.close()
