"""The polls of all sources, and one poll of one source.

The state of polling is stored with the source, so that a restart changes nothing: ``etag`` and
``last_modified`` (of the feed or listing, with ``asked``, a digest of the settings under which they hold), ``seen``
(digests of the ids of published entries with their versions, newest last), ``repeated`` (digests of ids that the feed
uses several times), ``links`` (failed attempts, by digest of the address), ``broken`` (digest of a malformed feed that
was recorded), ``warnings`` (of the feed as it was read last), ``reports`` (of the last polls, newest first),
``last_poll``, ``last_success``, ``last_error``, ``failures``. Between publishing and remembering, the broker's own rule
holds: one message for one id and source.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import random
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from twigcast.broker.broker import Broker
from twigcast.broker.delivery.http_client import HttpClient, HttpResponse, RequestFailed, gunzip, parse_retry_after
from twigcast.broker.errors import IdReused, StoreUnavailable, TooMany, UrlRefused
from twigcast.broker.model import RejectedRecord, Source, Submission
from twigcast.broker.sources.documents import charset_of, not_a_feed
from twigcast.broker.sources.entries import (
    EntryLink,
    Feed,
    FeedEntry,
    content_digest,
    digest_id,
    find_links,
    name_in_folder,
    read_feed,
    short_id,
)
from twigcast.broker.sources.links import LinkPolicy, document_id, link_to_follow
from twigcast.broker.sources.memory import EntryMemory, EntryVersion, identified, mark_of, update_id
from twigcast.broker.sources.reports import PollReport, with_report
from twigcast.errors import MalformedMessage, RejectedMessage

_BATCH_MESSAGES: Final = 100
_BATCH_BYTES: Final = 8 << 20
_FILES_PER_POLL: Final = 200
_LINK_ATTEMPTS_MAX: Final = 5
_GIVEN_UP: Final = 1_000_000_000
"""Stands for the attempts at a document that is not asked for any more."""
_PASSING: Final = (408, 423, 425, 429)
"""Statuses from 400 to 499 that may be others soon."""
_GZIP: Final = b"\x1f\x8b"

_ACCEPT: Final = "application/atom+xml, application/rss+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5"
_ENCODINGS: Final = ("", "identity", "gzip", "x-gzip", "deflate")


@dataclass(frozen=True, slots=True)
class PollLimits:
    """The bounds of one poll: bytes of a feed or listing, unpacked, and of one entry or file; links and their time."""

    feed_bytes_max: int = 64 << 20
    message_bytes_max: int = 32 << 20
    links_max: int = 200
    """Links that one poll follows; the next poll goes on at once."""
    links_seconds_max: float = 120.0


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of a poll."""

    published: int
    state: dict[str, Any]
    """State to store; ``last_error`` says whether it failed."""

    report: PollReport

    retry_after: float | None = None
    """Seconds that the server asked to wait."""

    has_more: bool = False
    """Whether there is more than one poll takes; then the next follows at once."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A message that is about to be published, and what is remembered of it."""

    submission: Submission
    records: tuple[tuple[str, EntryVersion], ...]
    entry: FeedEntry | None = None
    """The entry whose message it is: places of errors are those in the feed."""
    is_update: bool = False


class _DocumentMissing(RequestFailed):
    """A document that the server does not have, or does not give."""


@dataclass(slots=True)
class _LinkState:
    """The links of one poll: which may be followed, for how long, and failed attempts."""

    policy: LinkPolicy = field(default_factory=lambda: LinkPolicy(()))
    end: float = 0.0
    """Time at which no more are followed."""
    attempts: dict[str, int] = field(default_factory=dict)
    """Failed attempts, also of earlier polls, by digest of the address."""
    visited: set[str] = field(default_factory=set)
    count: int = 0
    has_come: bool = False
    """Whether at least one document was fetched."""
    has_more: bool = False
    has_failed: bool = False
    """Whether documents are missing that a later poll may get."""


class Poll:
    """A poll of one source."""

    def __init__(self, source: Source, broker: Broker, http_client: HttpClient, limits: PollLimits) -> None:
        self._source = source
        self._url = source.url or ""
        self._broker = broker
        self._http_client = http_client
        self._limits = limits
        self._state: dict[str, Any] = dict(source.state)
        self._memory = EntryMemory(self._state)
        self._report = PollReport(time.time())
        self._drafts: list[_Draft] = []
        self._links = _LinkState()
        self._has_more = False
        self._problem: str | None = None
        self._retry_after: float | None = None

    async def run(self) -> PollResult:
        """Polls, publishes new messages, and returns the new state. Failures are part of the result."""
        report = self._report
        self._state["last_poll"] = report.at
        try:
            if self._source.kind == "http-folder":
                await self._poll_folder()
            else:
                await self._poll_feed()
        except UrlRefused as error:
            self._problem = error.reason
        except RequestFailed as error:
            self._problem, self._retry_after = error.reason, error.retry_after
        except (StoreUnavailable, TooMany) as error:
            self._problem = f"what it brought could not be stored: {error.reason}"
        self._memory.save(self._state)
        self._state["last_error"] = report.error = self._problem
        report.seconds = round(time.time() - report.at, 3)
        if self._problem is None:
            self._state["last_success"] = self._state["last_poll"]
            self._state["failures"] = 0
        else:
            self._state["failures"] = int(self._state.get("failures") or 0) + 1
        return PollResult(report.took + report.updated, self._state, report, self._retry_after, self._has_more)

    # Feeds ----------------------------------------------------------------------------------------------------------

    async def _poll_feed(self) -> None:
        answer = await self._fetch_if_changed()
        if answer is None:
            return
        feed = await asyncio.to_thread(self._read, answer)
        self._state["warnings"] = []
        if not feed.document.is_feed:
            self._problem = not_a_feed(feed.document, answer.url)
        else:
            await self._take_feed(feed, answer.url)
            moved = [f"it has moved for good to {answer.moved_to}: register that address"] if answer.moved_to else []
            self._report.warn(feed.warnings + moved)
            self._state["warnings"] = self._report.warnings
        if feed.error is not None:
            self._problem = self._problem or str(feed.error)
            if isinstance(feed.error, MalformedMessage):
                self._add_broken(answer.body)
        await self._publish()
        if self._problem is None and not self._has_more:
            self._memory.is_complete = True
            # While documents are missing, the feed is fetched again although it did not change.
            if not self._links.has_failed:
                self._remember(answer)

    def _read(self, answer: HttpResponse) -> Feed:
        media_type = answer.headers.get("content-type")
        return read_feed(answer.body, media_type=media_type, entry_bytes_max=self._limits.message_bytes_max)

    async def _take_feed(self, feed: Feed, url: str) -> None:
        """Publishes what is new in a feed."""
        whole = [entry for entry in feed.entries if entry.error is None]
        named, copies = identified(whole, self._memory)
        self._skip("repeated", copies)
        names = {id(entry): name for name, entry in named}
        self._links = _LinkState(
            LinkPolicy((self._url, url), self._source.follow_hosts),
            time.monotonic() + self._limits.links_seconds_max,
            dict(self._state.get("links") or {}),
        )
        deferred: list[tuple[FeedEntry, EntryLink]] = []
        # Feeds have the newest first; subscribers get the oldest first.
        for entry in reversed(feed.entries):
            if entry.error is not None:
                await self._refuse(entry, entry.error)
            elif id(entry) in names:
                link = link_to_follow(entry, self._source.follow)
                if link is None:
                    await self._take_entry(names[id(entry)], entry)
                elif mark_of(link.resolved(url) or "") in self._links.attempts:
                    # What failed before must not keep the time and number of links from the others.
                    deferred.append((entry, link))
                else:
                    await self._take_link(entry, link, url)
        for entry, link in deferred:
            await self._take_link(entry, link, url)
        await self._publish()
        self._has_more = self._links.has_more
        shown = {mark_of(visited) for visited in self._links.visited}
        self._state["links"] = {mark: count for mark, count in self._links.attempts.items() if mark in shown}

    async def _take_entry(self, name: str, entry: FeedEntry) -> None:
        """Publishes an entry if it is new, or is an update."""
        before = self._memory.version(name)
        if before is None:
            await self._add(_Draft(self._submission(name, entry.xml), ((name, EntryVersion.of(entry)),), entry))
            return
        now = EntryVersion.of(entry, before.updates + 1)
        if before.is_update(now, self._source.updates):
            submission = self._submission(update_id(name, now), entry.xml)
            await self._add(_Draft(submission, ((name, now),), entry, is_update=True))
            return
        self._skip("known" if before.content in ("", now.content) else "changed")
        if self._source.updates == "ignore" or not before.content:
            # A change that was not published is not published later, either.
            self._memory.record(name, EntryVersion.of(entry, before.updates))

    async def _refuse(self, entry: FeedEntry, error: RejectedMessage) -> None:
        """Stores a part of a feed that is not well-formed as rejected, once; what is too large is only reported."""
        name = digest_id(entry.xml)
        if not isinstance(error, MalformedMessage):
            self._report.refuse(entry.id or name, error)
        elif self._memory.version(name) is not None:
            self._skip("known")
        else:
            await self._add(_Draft(self._submission(name, entry.xml), ((name, EntryVersion()),), entry))

    def _add_broken(self, feed: bytes) -> None:
        """Publishes a feed that is not well-formed, to be stored as rejected: once, until it changes."""
        name = digest_id(feed)
        mark = mark_of(name)
        if self._state.get("broken") == mark:
            return
        self._state["broken"] = mark
        self._drafts.append(_Draft(self._submission(name, feed), ((name, EntryVersion()),)))

    def _skip(self, reason: str, count: int = 1) -> None:
        if count:
            self._report.skipped[reason] += count

    # Links ----------------------------------------------------------------------------------------------------------

    async def _take_link(self, entry: FeedEntry, link: EntryLink, feed_url: str) -> None:
        """Publishes the document that an entry links to, if it is new, or is an update."""
        url = link.resolved(feed_url)
        if url is None:
            self._report.refuse(entry.id, f"its link is no address: {link.href[:200]!r}")
            return
        links, name = self._links, f"link {url}"
        before = self._memory.version(name)
        if url in links.visited:
            self._skip("repeated")
            return
        links.visited.add(url)
        if before is not None:
            shown = EntryVersion(before.variant, entry.content, before.updates, EntryVersion.of(entry).updated)
            known = before._replace(content=before.variant)
            if not known.is_update(shown, self._source.updates):
                self._skip("known" if before.variant == entry.content else "changed")
                return
        if links.attempts.get(mark_of(url), 0) >= _GIVEN_UP:
            self._skip("given up")
            return
        if links.count >= self._limits.links_max or time.monotonic() >= links.end:
            # If none came, the next poll waits: at once it would not come further either.
            links.has_more, links.has_failed = links.has_come, True
            return
        links.count += 1
        try:
            answer = await self._fetch_document(url, links.policy)
        except UrlRefused as error:
            links.count -= 1
            self._report.refuse(url, error.reason)
        except RequestFailed as error:
            attempts = links.attempts.get(mark_of(url), 0) + 1
            # A server that is away or busy comes back. A document that it does not have is requested a few times only.
            is_over = isinstance(error, _DocumentMissing) and attempts >= _LINK_ATTEMPTS_MAX
            links.attempts[mark_of(url)] = _GIVEN_UP if is_over else attempts
            links.has_failed |= not is_over
            self._report.refuse(url, f"{error.reason} (attempt {attempts}{', given up' if is_over else ''})")
        else:
            links.has_come = True
            links.attempts.pop(mark_of(url), None)
            await self._take_document(name, url, entry, answer)

    async def _take_document(self, name: str, url: str, entry: FeedEntry, answer: HttpResponse) -> None:
        """Publishes a linked document that was fetched."""
        before = self._memory.version(name)
        content = content_digest(answer.body)
        version = EntryVersion(entry.content, content, 0, EntryVersion.of(entry).updated)
        if before is not None:
            version = version._replace(updates=before.updates + 1)
            if before.content == content:
                self._memory.record(name, version._replace(updates=before.updates))
                self._skip("known")
                return
        message_id = await asyncio.to_thread(document_id, answer.body, url)
        if self._memory.version(message_id) is not None:
            if before is None:
                # Another address of the same alert.
                self._memory.record(name, version)
                self._skip("repeated")
                return
            message_id = update_id(message_id, version)
        charset = charset_of(answer.headers.get("content-type"))
        submission = replace(self._submission(message_id, answer.body), charset=charset)
        records = ((name, version), (message_id, EntryVersion()))
        await self._add(_Draft(submission, records, is_update=before is not None))

    # Folders --------------------------------------------------------------------------------------------------------

    async def _poll_folder(self) -> None:
        answer = await self._fetch_if_changed()
        if answer is None:
            return
        links = find_links(answer.body, answer.url, answer.headers.get("content-type", ""))
        names = {name_in_folder(link, answer.url): link for link in links}
        new = [name for name in names if self._memory.version(short_id(name)) is None]
        self._skip("known", len(names) - len(new))
        self._memory.is_complete = True
        missed = 0
        for name in new[:_FILES_PER_POLL]:
            missed += not await self._take_file(name, names[name])
        self._has_more = len(new) > _FILES_PER_POLL
        if not missed and not self._has_more:
            self._remember(answer)

    async def _take_file(self, name: str, link: str) -> bool:
        """Publishes one file. One that cannot be fetched now is left for a later poll."""
        try:
            answer = await self._fetch_document(link)
        except (RequestFailed, UrlRefused) as error:
            self._problem = f"{name}: {error.reason}"
            self._report.refuse(name, error.reason)
            return False
        charset = charset_of(answer.headers.get("content-type"))
        submission = replace(self._submission(short_id(name), answer.body), charset=charset)
        await self._add(_Draft(submission, ((short_id(name), EntryVersion()),)))
        await self._publish()
        return True

    # Both -----------------------------------------------------------------------------------------------------------

    async def _fetch_if_changed(self) -> HttpResponse | None:
        """Returns the feed or listing, if it has changed."""
        headers = {"Accept": _ACCEPT, "Accept-Encoding": "gzip"}
        # Validators of another address say nothing, and under other settings there may be more to take.
        if self._state.get("asked", self._asked()) == self._asked():
            if self._state.get("etag"):
                headers["If-None-Match"] = str(self._state["etag"])
            if self._state.get("last_modified"):
                headers["If-Modified-Since"] = str(self._state["last_modified"])
        bytes_max = self._limits.feed_bytes_max
        answer = await self._http_client.request(
            "GET", self._url, headers=headers, answer_bytes_max=bytes_max, redirects=True
        )
        self._report.status = answer.status
        if answer.status == 304:
            return None
        answer = self._unpacked(answer, bytes_max)
        if not answer.is_success:
            raise self._failure(answer)
        return answer

    async def _fetch_document(self, url: str, policy: LinkPolicy | None = None) -> HttpResponse:
        """Returns a file or linked document."""
        bytes_max = self._limits.message_bytes_max
        judge = None if policy is None else policy.check
        answer = await self._http_client.request("GET", url, answer_bytes_max=bytes_max, redirects=True, judge=judge)
        if not answer.is_success:
            reason = f"the server answered with status {answer.status}"
            is_missing = 400 <= answer.status < 500 and answer.status not in _PASSING
            raise _DocumentMissing(reason) if is_missing else RequestFailed(reason)
        return self._unpacked(answer, bytes_max)

    def _unpacked(self, answer: HttpResponse, bytes_max: int) -> HttpResponse:
        encoding = answer.headers.get("content-encoding", "").strip().lower()
        if encoding not in _ENCODINGS and answer.is_success:
            raise RequestFailed(f"the answer is packed with {encoding[:50]!r}, although gzip was asked for")
        if answer.body.startswith(_GZIP):
            answer = replace(answer, body=gunzip(answer.body, bytes_max))
        self._report.bytes += len(answer.body)
        return answer

    def _failure(self, answer: HttpResponse) -> RequestFailed:
        reason = f"the server answered with status {answer.status}"
        if answer.status == 410:
            return RequestFailed(f"{reason}: the feed is gone for good", _LONGEST)
        return RequestFailed(reason, parse_retry_after(answer.headers.get("retry-after")))

    def _asked(self) -> str:
        """Returns a digest of what a poll asks for."""
        s = self._source
        return mark_of(repr((s.kind, s.url, s.updates, tuple(s.follow), tuple(s.follow_hosts))))

    def _remember(self, answer: HttpResponse) -> None:
        """Stores the validators of a response that was completely processed, for the next request."""
        self._state["etag"] = answer.headers.get("etag")
        self._state["last_modified"] = answer.headers.get("last-modified")
        self._state["asked"] = self._asked()

    def _submission(self, message_id: str, xml: bytes) -> Submission:
        return Submission(self._source.tenant_id, xml, self._source.name, message_id)

    async def _add(self, draft: _Draft) -> None:
        """Publishes a message together with the next ones."""
        size = sum(len(item.submission.body) for item in self._drafts)
        if self._drafts and (len(self._drafts) >= _BATCH_MESSAGES or size + len(draft.submission.body) > _BATCH_BYTES):
            await self._publish()
        self._drafts.append(draft)

    async def _publish(self) -> None:
        """Publishes what was added."""
        drafts, self._drafts = self._drafts, []
        if not drafts:
            return
        results = await self._broker.publish([draft.submission for draft in drafts])
        for draft, result in zip(drafts, results, strict=True):
            if isinstance(result, RejectedRecord):
                self._report.refuse(draft.submission.message_id or "", _reason(draft, result))
            elif isinstance(result, IdReused) or result.duplicate:
                # An entry that has changed since, where updates are not published, or were not remembered yet.
                self._skip("known")
            else:
                self._report.updated += draft.is_update
                self._report.took += not draft.is_update
                if result.invalid is not None:
                    self._report.warn([f"{draft.submission.message_id}: {result.invalid}"])
            # Rejected ones too: they are stored, with the reason, and would be rejected again.
            for name, version in draft.records:
                self._memory.record(name, version)


def _reason(draft: _Draft, rejected: RejectedRecord) -> str | RejectedMessage:
    """Returns why a message was rejected, with the place in the feed if it is an entry."""
    entry = draft.entry
    if entry is not None and entry.error is not None:
        return entry.error
    if rejected.line is None or rejected.column is None:
        return rejected.reason
    error = MalformedMessage(rejected.line, rejected.column, rejected.reason)
    return error if entry is None else entry.in_feed(error)


_log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 30.0
"""Time after which the list of sources is read again, if no change is reported."""
_LONGEST: Final = 86_400.0
_DOUBLINGS_MAX: Final = 12
_JITTER: Final = 0.1
_STORE_WAIT: Final = 5.0


@dataclass(frozen=True, slots=True)
class PollSettings:
    """The settings of polling; ``interval_min`` are the least seconds between polls of a source."""

    concurrency: int = 8
    interval_min: float = 10.0
    limits: PollLimits = field(default_factory=PollLimits)
    random: random.Random = field(default_factory=random.SystemRandom)


@dataclass(slots=True)
class PollCounts:
    """The counters of polling since the start."""

    polls: int = 0
    failed: int = 0
    published: int = 0
    updated: int = 0
    skipped: int = 0
    refused: int = 0

    def count(self, report: PollReport) -> None:
        """Adds what a poll did."""
        self.updated += report.updated
        self.skipped += sum(report.skipped.values())
        self.refused += report.refused_count


def _finish(source: Source, result: PollResult, wait: float) -> None:
    """Completes the report of a poll, puts it into the state, and logs it."""
    report = result.report
    report.next_poll = time.time() + wait
    result.state["reports"] = with_report(list(source.state.get("reports") or ()), report)
    level = logging.WARNING if report.error else logging.INFO if report.is_eventful else logging.DEBUG
    more = f", failed: {report.error}" if report.error else ""
    warned = f", {report.warnings[0]}" if report.warnings else ""
    _log.log(level, "poll of the source %r: %s%s%s", source.name, report.summary(), warned, more)


def _schedule(source: Source) -> tuple[object, ...]:
    """Returns the settings of a source after whose change it is polled at once."""
    s = source
    return (s.url, s.kind, s.interval, s.updates, tuple(s.follow), tuple(s.follow_hosts))


class Poller:
    """A poller of all sources, for one event loop: one task, and a bounded number of polls at one time.

    Each interval is drawn from around the configured one, so that sources that were registered together drift apart. A
    source that fails is polled less and less often, down to once a day; one whose server asks to wait is not polled for
    that time.
    """

    def __init__(self, broker: Broker, http_client: HttpClient, settings: PollSettings | None = None) -> None:
        self.counts = PollCounts()
        self._broker = broker
        self._http_client = http_client
        self._settings = settings or PollSettings()
        self._sources: dict[int, Source] = {}
        self._due: list[tuple[float, int]] = []  # a heap; of a source only the entry in _due_at counts
        self._due_at: dict[int, float] = {}
        self._running: dict[int, asyncio.Task[float]] = {}
        self._begun: dict[int, float] = {}  # time of the last poll of each
        self._again: dict[int, float] = {}  # earliest time of a poll that was requested while one was running
        self._changed = asyncio.Event()
        self._next_check = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the task."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stops at once; what was not remembered is polled again, and not published twice."""
        tasks = [*self._running.values(), *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def sources_changed(self) -> None:
        """Reads the list of sources again, since one was registered, changed or deleted."""
        self._next_check = 0.0
        self._changed.set()

    def poll_now(self, *, url: str | None = None, source_id: int | None = None) -> int:
        """Polls one source, or those with an announced URL (not within ``interval_min``), at once; returns how many."""
        chosen = [
            source.id for source in self._sources.values() if source_id == source.id or (url and url == source.url)
        ]
        for result in chosen:
            earliest = 0.0 if url is None else self._begun.get(result, 0.0) + self._settings.interval_min
            if result in self._running:
                self._again[result] = earliest
            else:
                self._set_due(result, min(max(earliest, time.monotonic()), self._due_at.get(result, math.inf)))
        self._changed.set()
        return len(chosen)

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            now = time.monotonic()
            if now >= self._next_check:
                await self._check_sources()
            self._start_due()
            waits = [self._next_check - now]
            if self._due and len(self._running) < self._settings.concurrency:
                waits.append(self._due[0][0] - now)
            # Not wait_for: before Python 3.12 it may lose a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(waits))):
                    await self._changed.wait()

    async def _check_sources(self) -> None:
        """Reads the list of sources."""
        self._next_check = time.monotonic() + _CHECK_SECONDS
        try:
            stored = await asyncio.to_thread(self._broker.store.sources)
        except StoreUnavailable as error:
            _log.warning("the sources cannot be read: %s", error.reason)
            self._next_check = time.monotonic() + _STORE_WAIT
            return
        self._take(source for source in stored if source.kind != "push" and source.url and not source.paused)

    def _take(self, sources: Iterable[Source]) -> None:
        before, self._sources = self._sources, {source.id: source for source in sources}
        for gone in before.keys() - self._sources.keys():
            self._due_at.pop(gone, None)
            self._begun.pop(gone, None)
        for source in self._sources.values():
            existing = before.get(source.id)
            if existing is None:
                self._set_due(source.id, time.monotonic() + self._first_wait(source))
            elif _schedule(existing) != _schedule(source):
                self.poll_now(source_id=source.id)

    def _first_wait(self, source: Source) -> float:
        """Returns the seconds until the first poll: the rest of the interval when the broker stopped."""
        last = float(source.state.get("last_poll") or 0.0)
        return min(max(0.0, last + source.interval - time.time()), source.interval)

    def _set_due(self, source_id: int, at: float) -> None:
        self._due_at[source_id] = at
        heapq.heappush(self._due, (at, source_id))

    def _start_due(self) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now and len(self._running) < self._settings.concurrency:
            at, source_id = heapq.heappop(self._due)
            source = self._sources.get(source_id)
            if source is None or self._due_at.get(source_id) != at or source_id in self._running:
                continue
            del self._due_at[source_id]
            self._begun[source_id] = now
            task = asyncio.get_running_loop().create_task(self._poll(source))
            self._running[source_id] = task
            task.add_done_callback(partial(self._ended, source_id))

    def _ended(self, source_id: int, task: asyncio.Task[float]) -> None:
        self._running.pop(source_id, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("polling a source failed inside the broker", exc_info=error)
        due = time.monotonic() + (task.result() if error is None else _CHECK_SECONDS)
        # Only now: a poll that becomes due during a poll is not begun.
        self._set_due(source_id, min(due, self._again.pop(source_id, math.inf)))
        self._changed.set()

    async def _poll(self, source: Source) -> float:
        """Polls a source; returns the seconds until its next poll."""
        store = self._broker.store
        stored = await asyncio.to_thread(store.source, source.tenant_id, source.name)
        if stored is None or stored.id != source.id or stored.paused or stored.kind == "push":
            return source.interval  # in case it comes back
        result = await Poll(stored, self._broker, self._http_client, self._settings.limits).run()
        self.counts.polls += 1
        self.counts.published += result.published
        self.counts.failed += result.state["last_error"] is not None
        self.counts.count(result.report)
        wait = self._wait(stored, result)
        _finish(stored, result, wait)
        if result.state != stored.state:
            try:
                await self._broker.change(lambda transaction: transaction.set_source_state(stored.id, result.state))
            except StoreUnavailable as error:
                _log.warning("the state of the source %r was not stored: %s", stored.name, error.reason)
        return wait

    def _wait(self, source: Source, result: PollResult) -> float:
        """Returns the seconds until the next poll of a source."""
        if result.has_more:
            return 0.0
        interval = max(source.interval, self._settings.interval_min)
        failures = int(result.state.get("failures") or 0)
        if failures:
            interval = max(interval, min(_LONGEST, interval * 2.0 ** min(failures - 1, _DOUBLINGS_MAX)))
        drawn = interval * self._settings.random.uniform(1.0 - _JITTER, 1.0 + _JITTER)
        return max(drawn, min(result.retry_after or 0.0, _LONGEST))
