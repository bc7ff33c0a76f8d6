"""One poll of one source.

The state of polling is stored with the source, so that a restart changes nothing: ``etag`` and
``last_modified`` (of the feed or listing), ``seen`` (digests of the ids of published entries, newest last),
``broken`` (digest of a malformed feed that was recorded), ``last_poll``, ``last_success``, ``last_error``,
``failures``. More ids are remembered than the feed shows now, so that an entry that vanishes and returns is not
published again. Between publishing and remembering, the broker's own rule holds: one message for one id and source.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from twigcast.broker.broker import Broker
from twigcast.broker.delivery.backoff import parse_retry_after
from twigcast.broker.delivery.http_client import HttpClient, HttpResponse, RequestFailed, gunzip
from twigcast.broker.errors import StoreUnavailable, UrlRefused
from twigcast.broker.model import Source, Submission
from twigcast.broker.sources.entries import ID_CHARACTERS_MAX, charset_of, cut_entries, digest_id, is_feed
from twigcast.broker.sources.listing import find_links, name_in_folder
from twigcast.errors import MalformedMessage

_SEEN_BEYOND: Final = 1_000
"""Number of ids that are remembered beyond those that the feed shows."""

_BATCH_MESSAGES: Final = 100
_BATCH_BYTES: Final = 8 << 20
_FILES_PER_POLL: Final = 200
_GZIP: Final = b"\x1f\x8b"

_ACCEPT: Final = "application/atom+xml, application/rss+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5"


@dataclass(frozen=True, slots=True)
class PollLimits:
    """The bounds of one poll.

    Args:
        feed_bytes_max: Bytes of a feed or listing, unpacked.
        message_bytes_max: Bytes of one entry or file.
    """

    feed_bytes_max: int = 64 << 20
    message_bytes_max: int = 32 << 20


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of a poll."""

    published: int
    state: dict[str, Any]
    """State to store; ``last_error`` says whether it failed."""

    retry_after: float | None = None
    """Seconds that the server asked to wait."""

    has_more: bool = False
    """Whether there is more than one poll takes; then the next follows at once."""


class _Failed(Exception):
    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class _Memory:
    """The ids that were published."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._before: dict[str, None] = dict.fromkeys(state.get("seen") or ())
        self._now: dict[str, None] = {}
        self.is_complete = False
        """Whether everything that the feed shows now has been published."""

    def take(self, message_id: str) -> bool:
        """Returns whether an id that the feed shows is new."""
        mark = _mark(message_id)
        is_new = mark not in self._before and mark not in self._now
        if not is_new:
            self._now[mark] = None
        return is_new

    def add(self, message_ids: Iterable[str]) -> None:
        """Records published ids."""
        self._now.update(dict.fromkeys(map(_mark, message_ids)))

    def as_list(self) -> list[str]:
        """Returns the ids to store: all that the feed shows, and some of those it showed before."""
        gone = [mark for mark in self._before if mark not in self._now]
        return (gone[-_SEEN_BEYOND:] if self.is_complete else gone) + list(self._now)


class Poll:
    """A poll of one source."""

    def __init__(self, source: Source, broker: Broker, http_client: HttpClient, limits: PollLimits) -> None:
        self._source = source
        self._url = source.url or ""
        self._broker = broker
        self._http_client = http_client
        self._limits = limits
        self._state: dict[str, Any] = dict(source.state)
        self._memory = _Memory(self._state)
        self._published = 0
        self._has_more = False
        self._problem: str | None = None

    async def run(self) -> PollResult:
        """Polls, publishes new messages, and returns the new state. Failures are part of the result."""
        retry_after = None
        self._state["last_poll"] = time.time()
        try:
            if self._source.kind == "http-folder":
                await self._poll_folder()
            else:
                await self._poll_feed()
        except UrlRefused as error:
            self._problem = error.reason
        except RequestFailed as error:
            self._problem = error.reason
        except _Failed as error:
            self._problem, retry_after = error.reason, error.retry_after
        except StoreUnavailable as error:
            self._problem = f"what it brought could not be stored: {error.reason}"
        self._state["seen"] = self._memory.as_list()
        self._state["last_error"] = self._problem
        if self._problem is None:
            self._state["last_success"] = self._state["last_poll"]
            self._state["failures"] = 0
        else:
            self._state["failures"] = int(self._state.get("failures") or 0) + 1
        return PollResult(self._published, self._state, retry_after, self._has_more)

    # Feeds ----------------------------------------------------------------------------------------------------------

    async def _poll_feed(self) -> None:
        answer = await self._fetch_if_changed()
        if answer is None:
            return
        new: list[Submission] = []
        media_type = answer.headers.get("content-type")
        if not is_feed(answer.body):
            self._problem = "it is no RSS or Atom feed"
        for entry in cut_entries(answer.body, media_type=media_type, entry_bytes_max=self._limits.message_bytes_max):
            if entry.error is not None:
                self._problem = str(entry.error)
                if isinstance(entry.error, MalformedMessage):
                    new += self._broken(answer.body)
            elif self._memory.take(entry.id):
                new.append(self._submission(entry.id, entry.xml))
        # Feeds have the newest first; subscribers get the oldest first.
        await self._publish(new[::-1])
        if self._problem is None:
            self._memory.is_complete = True
            self._remember(answer)

    def _broken(self, feed: bytes) -> list[Submission]:
        """Publishes a feed that is not well-formed, to be stored as rejected: once, until it changes."""
        mark = _mark(digest_id(feed))
        if self._state.get("broken") == mark:
            return []
        self._state["broken"] = mark
        return [self._submission(digest_id(feed), feed)]

    # Folders --------------------------------------------------------------------------------------------------------

    async def _poll_folder(self) -> None:
        answer = await self._fetch_if_changed()
        if answer is None:
            return
        links = find_links(answer.body, answer.url, answer.headers.get("content-type", ""))
        names = {name_in_folder(link, answer.url): link for link in links}
        new = [name for name in names if self._memory.take(_short(name))]
        self._memory.is_complete = True
        missed = 0
        for name in new[:_FILES_PER_POLL]:
            missed += not await self._take_file(name, names[name])
        self._has_more = len(new) > _FILES_PER_POLL
        if not missed and not self._has_more:
            self._remember(answer)

    async def _take_file(self, name: str, link: str) -> bool:
        """Publishes one file. One that cannot be fetched now is left for a later poll."""
        bytes_max = self._limits.message_bytes_max
        try:
            answer = await self._http_client.request("GET", link, answer_bytes_max=bytes_max, redirects=True)
            if answer.body.startswith(_GZIP):
                answer = replace(answer, body=gunzip(answer.body, bytes_max))
        except (RequestFailed, UrlRefused) as error:
            self._problem = f"{name}: {error.reason}"
            return False
        if not answer.is_success:
            self._problem = f"{name}: the server answered with status {answer.status}"
            return False
        charset = charset_of(answer.headers.get("content-type"))
        await self._publish([replace(self._submission(_short(name), answer.body), charset=charset)])
        return True

    # Both -----------------------------------------------------------------------------------------------------------

    async def _fetch_if_changed(self) -> HttpResponse | None:
        """Returns the feed or listing, if it has changed."""
        headers = {"Accept": _ACCEPT, "Accept-Encoding": "gzip"}
        if self._state.get("etag"):
            headers["If-None-Match"] = str(self._state["etag"])
        if self._state.get("last_modified"):
            headers["If-Modified-Since"] = str(self._state["last_modified"])
        answer = await self._http_client.request(
            "GET", self._url, headers=headers, answer_bytes_max=self._limits.feed_bytes_max, redirects=True
        )
        if answer.status == 304:
            return None
        if not answer.is_success:
            retry_after = parse_retry_after(answer.headers.get("retry-after"))
            raise _Failed(f"the server answered with status {answer.status}", retry_after)
        return answer

    def _remember(self, answer: HttpResponse) -> None:
        """Stores the validators of a response that was completely processed, for the next request."""
        self._state["etag"] = answer.headers.get("etag")
        self._state["last_modified"] = answer.headers.get("last-modified")

    def _submission(self, message_id: str, xml: bytes) -> Submission:
        return Submission(self._source.tenant_id, xml, self._source.name, message_id)

    async def _publish(self, submissions: list[Submission]) -> None:
        batch: list[Submission] = []
        size = 0
        for submission in submissions:
            if batch and (len(batch) == _BATCH_MESSAGES or size + len(submission.body) > _BATCH_BYTES):
                await self._publish_batch(batch)
                batch, size = [], 0
            batch.append(submission)
            size += len(submission.body)
        if batch:
            await self._publish_batch(batch)

    async def _publish_batch(self, batch: list[Submission]) -> None:
        await self._broker.publish(batch)
        self._published += len(batch)
        # Rejected ones too: they are stored, with the reason, and would be rejected again.
        self._memory.add(submission.message_id or "" for submission in batch)


def _mark(message_id: str) -> str:
    return hashlib.sha256(message_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _short(name: str) -> str:
    return name if len(name) <= ID_CHARACTERS_MAX else digest_id(name.encode())
