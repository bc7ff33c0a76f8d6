"""A broker with its console, in a thread of the test process, and a person who uses it with a plain HTTP client."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urljoin

import httpx2
import uvicorn
from lxml import html

from twigcast.broker.api.app import create_app
from twigcast.broker.broker import Broker, CommitListener
from twigcast.broker.config import Settings, load
from twigcast.broker.console import console_router
from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.model import (
    DeliverySettings,
    NewSubscription,
    QueuedDelivery,
    Scope,
    StoredSubscription,
    Submission,
)
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import open_store
from twigcast.broker.tokens import create_token

T = TypeVar("T")


class BrokerWithConsole:
    """A broker that listens on a port of its own.

    Args:
        folder: Where it keeps its store.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.store = open_store(str(folder))
        self.settings: Settings = load({"store": str(folder), "port": 0, "allow_private_urls": True, **settings})
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if not self._ready.wait(20) or self._failure:
            raise RuntimeError("the broker did not start") from self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.broker = Broker(self.store, HubOptions(limits=self.settings.engine_limits))
        await self.broker.start()
        policy = UrlPolicy(allow_private=True)
        app = create_app(self.broker, self.settings, policy, [console_router()])
        self.app = app
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="on", http="httptools")
        self._server = uvicorn.Server(config)
        serving = asyncio.create_task(self._server.serve())
        while not self._server.started:
            if serving.done():
                serving.result()
            await asyncio.sleep(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        self._ready.set()
        await serving
        await self.broker.stop()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """End it."""
        self._server.should_exit = True
        self._thread.join(20)
        self.store.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in its event loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    # What tests put into it -------------------------------------------------------------------------------------------

    def tenant(self, name: str) -> int:
        """Make a tenant."""

        def add(transaction: Any) -> int:
            return int(transaction.add_tenant(name, {}).id)

        return self.do(self.broker.change(add))

    def token(self, *scopes: Scope, tenant_id: int = 1, name: str = "test") -> str:
        """Make a token."""
        return create_token(self.store, tenant_id, name, frozenset(scopes or (Scope.ADMIN,)))[1]

    def publish(
        self, *bodies: bytes, tenant_id: int = 1, source: str = "desk", message_id: str | None = None
    ) -> Sequence[Any]:
        """Publish messages."""
        submissions = [Submission(tenant_id, body, source, message_id) for body in bodies]
        return self.do(self.broker.publish(submissions))

    def subscribe(self, key: str, query: str, *, tenant_id: int = 1, **more: Any) -> StoredSubscription:
        """Subscribe."""
        (added,) = self.do(self.broker.subscribe([NewSubscription(tenant_id, key, query, **more)]))
        if isinstance(added, Exception):
            raise added
        return added

    def dead_letter(self, key: str, reason: str, *, tenant_id: int = 1, attempts: int = 8) -> list[int]:
        """Give up all deliveries that a subscription has pending."""
        result = self.store.subscription(tenant_id, key)
        assert result is not None
        pending = self.store.pending(result.queue_id, limit=100, bytes_max=1 << 20)
        return self.do(self.broker.dead_letter([(delivery, attempts, reason) for delivery in pending]))

    def webhook(self, key: str, query: str, url: str, **more: Any) -> StoredSubscription:
        """Subscribe a webhook, which nobody serves here."""
        return self.subscribe(key, query, delivery=DeliverySettings("webhook", url, "s3cret"), **more)

    def redriven(self) -> list[QueuedDelivery]:
        """Collects what is revived from now on."""
        seen: list[QueuedDelivery] = []

        class Watch(CommitListener):
            def on_redriven(self, deliveries: Sequence[QueuedDelivery]) -> None:
                seen.extend(deliveries)

        self.loop.call_soon_threadsafe(self.broker.add_listener, Watch())
        return seen


@dataclass
class Page:
    """A page as it was answered."""

    response: httpx2.Response
    text: str = field(init=False)

    def __post_init__(self) -> None:
        self.text = self.response.text

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.response.status_code

    @property
    def tree(self) -> html.HtmlElement:
        """The page, parsed."""
        return html.document_fromstring(self.text)

    @property
    def words(self) -> str:
        """What a reader sees, white space folded."""
        tree = self.tree
        for hidden in tree.xpath("//script | //style"):
            hidden.getparent().remove(hidden)
        return re.sub(r"\s+", " ", tree.text_content()).strip()

    def all(self, xpath: str) -> list[Any]:
        """What an XPath finds in it."""
        result = self.tree.xpath(xpath)
        assert isinstance(result, list)
        return result

    def form(self, action: str, **fields: str) -> html.FormElement:
        """The form with an action, and with hidden fields of these values."""
        for form in self.tree.forms:
            if str(form.action) == action and all(form.fields.get(name) == value for name, value in fields.items()):
                return form
        raise AssertionError(f"no form {action} with {fields}; there are {[form.action for form in self.tree.forms]}")


class Person:
    """Somebody with a browser that runs no scripts."""

    def __init__(self, broker: BrokerWithConsole) -> None:
        self.broker = broker
        self.http = httpx2.Client(base_url=broker.url, follow_redirects=False, timeout=20)

    def get(self, address: str, *, follow: bool = True) -> Page:
        """Load a page."""
        return self._end(self.http.get(address), follow)

    def send(
        self, address: str, fields: dict[str, str], headers: dict[str, str] | None = None, *, follow: bool = True
    ) -> Page:
        """Send a form."""
        sent = {"content-type": "application/x-www-form-urlencoded", **(headers or {})}
        return self._end(self.http.post(address, content=urlencode(fields), headers=sent), follow)

    def submit(
        self, form: html.FormElement, more: dict[str, str] | None = None, *, follow: bool = True, **fields: str
    ) -> Page:
        """Fill in and send a form."""
        values = {**dict(form.form_values()), **fields, **(more or {})}
        if form.method == "GET":
            return self.get(f"{form.action}?{urlencode(values)}", follow=follow)
        return self.send(str(form.action), values, follow=follow)

    def sign_in(self, token: str, target: str = "/console/sign-in") -> Page:
        """Sign in."""
        page = self.get(target)
        return self.submit(page.form("/console/sign-in"), token=token)

    def _end(self, response: httpx2.Response, follow: bool) -> Page:
        hops = 0
        while follow and response.is_redirect:
            hops += 1
            assert hops < 5, "redirected in a circle"
            response = self.http.get(urljoin(str(response.url), response.headers["location"]))
        return Page(response)


def wait_until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Wait for something to become true."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError("it did not happen in time")
        time.sleep(0.02)
