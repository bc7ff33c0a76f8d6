"""A broker that really runs, behind a real server, in a thread of the tests' process."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import httpx2
import uvloop

from twigcast.broker.config import Settings
from twigcast.broker.model import Scope
from twigcast.broker.serving import BrokerServer, Service, listening_socket
from twigcast.broker.store.store import Store
from twigcast.broker.tokens import create_token, first_start

_numbers = itertools.count(1)


class Party:
    """A tenant with a token of each scope."""

    def __init__(self, url: str, store: Store, tenant_id: int, name: str) -> None:
        self.url = url
        self.id = tenant_id
        self.name = name
        self.tokens = {scope: create_token(store, tenant_id, scope.value, frozenset({scope}))[1] for scope in Scope}
        self.http = self.client(Scope.ADMIN)

    def headers(self, scope: Scope = Scope.ADMIN) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[scope]}"}

    def client(self, scope: Scope) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, headers=self.headers(scope), timeout=20)

    def subscribe(self, key: str, query: str, **more: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.ok("POST", "/subscriptions", 201, json={"key": key, "query": query, **more})
        return result

    def publish(self, xml: bytes | str, **query: str) -> dict[str, Any]:
        response = self.http.post("/messages", content=xml, params=query, headers={"Content-Type": "application/xml"})
        assert response.status_code in (200, 201), response.text
        result: dict[str, Any] = response.json()
        return result

    def pull(self, subscriber: str, **query: Any) -> list[dict[str, Any]]:
        result = self.ok("GET", "/deliveries", params={"subscriber": subscriber, "wait": 5, **query})
        deliveries: list[dict[str, Any]] = result["deliveries"]
        return deliveries

    def ok(self, method: str, path: str, status: int = 200, **more: Any) -> Any:
        response = self.http.request(method, path, **more)
        assert response.status_code == status, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def problem(self, method: str, path: str, status: int, code: str, **more: Any) -> dict[str, Any]:
        response = self.http.request(method, path, **more)
        return check_problem(response, status, code)


def check_problem(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document of a response, which is to be one."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    result: dict[str, Any] = response.json()
    assert result["code"] == code, result
    assert result["type"] == f"urn:twigcast:problem:{code}"
    assert result["status"] == status
    assert result["detail"]
    assert result["title"]
    return result


def until(condition: Any, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.02)


class RunningBroker:
    """A broker that runs until it is stopped."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self._parties: list[Party] = []
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="tests-broker")
        self._thread.start()
        self._ready.result(timeout=30)
        secret = first_start(store)
        self.operator_token = secret or create_token(store, 1, "operator", frozenset({Scope.ADMIN}))[1]
        self.operator = httpx2.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.operator_token}"}, timeout=20
        )

    def _run(self) -> None:
        with listening_socket(self.settings) as listener:
            self.url = "http://{}:{}".format(*listener.getsockname()[:2])
            uvloop.run(self._serve(listener))

    async def _serve(self, listener: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.service = Service(self.settings, self.store)
        try:
            await self.service.start()
        except BaseException as error:
            self._ready.set_exception(error)
            raise
        self.server = BrokerServer(self.settings, self.service, self._set_ready)
        try:
            await self.server.serve(sockets=[listener])
        finally:
            await self.service.stop()

    def _set_ready(self) -> None:
        self._ready.set_result(None)

    def call(self, work: Callable[[], Any]) -> Any:
        """Run a coroutine function in the broker's loop."""
        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(timeout=30)

    def party(self, **limits: int) -> Party:
        """A new tenant."""
        name = f"tenant {next(_numbers)}"
        self.operator.post("/tenants", json={"name": name, "limits": limits}).raise_for_status()
        tenant = next(tenant for tenant in self.store.tenants() if tenant.name == name)
        self._parties.append(Party(self.url, self.store, tenant.id, name))
        return self._parties[-1]

    def stop(self) -> None:
        """Stop it gracefully."""
        self.server.should_exit = True
        self._thread.join(timeout=30)
        assert not self._thread.is_alive(), "the broker stops"
        self.operator.close()
        for party in self._parties:
            party.http.close()
