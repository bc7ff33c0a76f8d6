"""``/messages`` and ``/rejected``: publishing, and stored messages."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from string import digits
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

import orjson
from fastapi import APIRouter, Query
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as ConnectionScope

from twigcast.broker.api import problems
from twigcast.broker.api.access import Principal
from twigcast.broker.api.bodies import ContentType, LoopBreaks, header, lines, page, read, unsupported
from twigcast.broker.api.context import (
    NAME_LENGTH_MAX,
    ApiContext,
    Publisher,
    QueryName,
    Shared,
    Subscriber,
    certificate_of,
    check_name,
    context_of,
)
from twigcast.broker.api.guard import check_line
from twigcast.broker.api.models import (
    AcceptedOut,
    BatchOut,
    CountOut,
    LifecycleOut,
    MessageOut,
    MessagesOut,
    RejectedListOut,
    RejectedOut,
)
from twigcast.broker.api.openapi import NOT_MODIFIED, PUBLISH_PARAMETERS, problem_responses, publish_description
from twigcast.broker.api.parameters import refuse_unknown
from twigcast.broker.api.preconditions import Conditions, answer_if_changed, link_to_next
from twigcast.broker.config import Settings
from twigcast.broker.errors import IdReused, Invalid, TooLarge, UnknownObject
from twigcast.broker.hub.evaluation import profile_reader
from twigcast.broker.model import Accepted, PublishOutcome, RejectedRecord, Scope, StoredMessage, Submission
from twigcast.broker.tracing import tracing
from twigcast.broker.urgency import PRIORITY_MAX, deadline_of
from twigcast.errors import RejectedMessage, TwigcastError
from twigcast.reading.conversion import recoded
from twigcast.reading.options import ReadOptions
from twigcast.reading.records import cut_records
from twigcast.reading.text import as_bytes

router = APIRouter(tags=["messages"], responses=problem_responses(401, 403))

_SEQ_MAX: Final = 1 << 62
_LINE_BYTES_MAX: Final = 4 << 20
"""Bytes of a message in a batch, with what is around it."""
_JSON: Final = "application/json"


_CONTENT_TYPE = (b"content-type", b"application/json")


class JsonAnswer(Response):
    """A response of finished JSON, without what makes other responses general; further headers are in lower case."""

    def __init__(self, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [_CONTENT_TYPE, (b"content-length", b"%d" % len(body)), *more]

    async def __call__(self, scope: ConnectionScope, receive: Receive, send: Send) -> None:
        """Sends it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})


Seq = Annotated[int, Query(ge=0, le=_SEQ_MAX)]


@router.post(
    "/messages",
    status_code=201,
    response_model=AcceptedOut | BatchOut,
    responses=problem_responses(409, 413, 415, 422, 429, 503, 507) | {200: {"model": AcceptedOut | BatchOut}},
    openapi_extra=publish_description(),
)
async def publish(request: Request) -> Response:
    """Publishes one message, or a batch. The response comes when they are durably stored.

    One message is sent as it is, with `Content-Type: application/xml` (a `charset` there overrides what the document
    declares). The response is 201; 200 if it was published before under this id; or 422 with the place of the error
    if it is malformed or over a limit: then it is stored as rejected, see `/rejected`; or 409 `id-reused` if another
    body was published under this id: then nothing is stored.

    A batch is sent as `Content-Type: application/x-ndjson`: one JSON object a line, with `xml` (text) or `xml_base64`
    (bytes in any encoding), and optionally `id`, `source`, `priority` and `deadline`. The response is 200 and reports
    on each message. A line that cannot be read refuses the whole batch.

    With `items=true`, a document such as a feed is published item by item, as the profile of its source says; the
    response is that of a batch. With `id`, items have this id with `#1`, `#2` and so on.

    Both may be packed with `Content-Encoding: gzip`.
    """
    # The path with the most load: parameters and headers are read, and responses written, by hand.
    shared = context_of(request)
    principal = await shared.authenticator.admit(header(request, b"authorization"), certificate_of(request))
    principal.require_some(Scope.PUBLISH)
    parameters = _parameters(request)
    source = _name("source", parameters.get("source")) or "default"
    message_id = _name("id", parameters.get("id"))
    urgency = _urgency(parameters)
    kind = ContentType.of(request)
    if kind.is_lines:
        if message_id is not None:
            raise Invalid("id: in a batch each message has its own")
        submissions = await read_batch(request, shared.settings, principal.tenant_id, source, urgency)
        _check_sources(request, shared, principal, {submission.source for submission in submissions})
        shared.rates.take(principal, len(submissions))
        outcomes = await _publish(shared, submissions)
        return JsonAnswer(200, await _batch(outcomes))
    if not kind.is_xml:
        raise unsupported(kind.media, "application/xml", "application/x-ndjson")
    body = await read(request, shared.settings.body_bytes_max)
    _check_sources(request, shared, principal, {source})
    submission = Submission(
        *(principal.tenant_id, body, source, message_id, kind.charset), priority=urgency[0], deadline=urgency[1]
    )
    if _truth("items", parameters.get("items")):
        items = await _items(shared, submission)
        shared.rates.take(principal, len(items))
        return JsonAnswer(200, await _batch(await _publish(shared, items)))
    shared.rates.take(principal)
    (outcome,) = await _publish(shared, [submission])
    if isinstance(outcome, IdReused):
        raise outcome
    if isinstance(outcome, RejectedRecord):
        return problems.response(422, outcome.code, outcome.reason, _position(outcome))
    status = 200 if outcome.duplicate else 201
    return JsonAnswer(status, orjson.dumps(_accepted(outcome)), (b"location", b"/messages/%d" % outcome.seq))


async def _items(shared: ApiContext, submission: Submission) -> list[Submission]:
    """Returns a submission for each item of a document, or for all of it if it cannot be read; raises Invalid."""
    text, most = shared.broker.profile_of(submission.tenant_id, submission.source), shared.settings.batch_messages_max
    profile = None if text is None else profile_reader(text, shared.broker.options.limits).profile
    if profile is None or not profile.item:
        raise Invalid(f"items: the source {submission.source!r} has no profile that says what an item is")
    items = await asyncio.to_thread(items_of, submission, profile.read_options(), shared.settings)
    if len(items) > most:
        raise TooLarge(
            f"the document holds {len(items):,} items, more than batch_messages_max = {most:,}; publish them in parts, "
            "as `twigcast publish --record` does"
        )
    if not items:
        raise Invalid(f"items: there is no {profile.item} in the document; nothing was stored")
    return items


def items_of(submission: Submission, options: ReadOptions, settings: Settings) -> list[Submission]:
    """Returns a submission for each item of a document, or the document if it cannot be read. Blocks."""
    name = submission.message_id
    try:
        body = recoded(submission.body, submission.charset, settings.body_bytes_max)
        records = list(cut_records(io.BytesIO(body), options, bytes_max=settings.engine_limits.message_bytes_max))
        for record in records:
            if record.error is not None:
                raise record.error
    except RejectedMessage:
        # It is rejected as a whole, with the place of the error.
        return [submission]
    return [
        replace(submission, body=record.xml, message_id=None if name is None else f"{name}#{number}", charset=None)
        for number, record in enumerate(records, start=1)
    ]


def _parameters(request: Request) -> dict[str, str]:
    """Returns the parameters of a publication; raises Problem for an unknown one."""
    query_string: bytes = request.scope["query_string"]
    if not query_string:
        return {}
    results = dict(parse_qsl(query_string.decode("latin-1"), keep_blank_values=True))
    refuse_unknown(results, PUBLISH_PARAMETERS)
    return results


def _truth(name: str, value: str | None) -> bool:
    """Returns the truth value of a parameter; false where nothing is said."""
    if value not in (None, "true", "false"):
        raise Invalid(f"{name} is true or false, not {value!r}")
    return value == "true"


_Urgency = tuple[int | None, float | None]
"""The priority and the deadline of a publication."""


def _urgency(given: Mapping[str, object]) -> _Urgency:
    """Returns what parameters or members say of the urgency of a message; raises Invalid."""
    priority, deadline = given.get("priority"), given.get("deadline")
    if isinstance(priority, str) and len(priority) == 1 and priority in digits:
        priority = int(priority)
    if priority is not None and (type(priority) is not int or not 0 <= priority <= PRIORITY_MAX):
        raise Invalid(f"priority: it must be a whole number from 0 to {PRIORITY_MAX}")
    if deadline is None:
        return priority, None
    if not isinstance(deadline, str):
        raise Invalid("deadline: it must be a text, such as '5 min' or 2026-01-31T12:00:00Z")
    try:
        return priority, deadline_of(deadline, time.time())
    except ValueError as error:
        raise Invalid(f"deadline: {error}") from None


async def answer_to(request: Request) -> Response:
    """Returns the response of :func:`publish`, errors included, to a request that has not passed the router."""
    try:
        return await publish(request)
    except (TwigcastError, problems.Problem, ClientDisconnect) as error:
        return problems.answer_to_error(error)


def _check_sources(request: Request, shared: ApiContext, principal: Principal, sources: set[str]) -> None:
    """Checks that the token permits the sources, and in an overlay, that these are not registered by others."""
    principal.require_sources(sources)
    if shared.overlay is not None:
        key = header(request, b"twigcast-source-key") or None
        catalogue = shared.overlay.registering.catalogue
        catalogue.check(principal.tenant.name, sources, key, f"token {principal.token.name}")


def _name(parameter: str, value: object) -> str | None:
    """Returns the name that a parameter or member holds, if it is present."""
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= NAME_LENGTH_MAX:
        raise Invalid(f"{parameter} must be a string of 1 to {NAME_LENGTH_MAX} characters")
    try:
        return check_name(value)
    except ValueError as error:
        raise Invalid(f"{parameter}: {error}") from None


async def _publish(shared: ApiContext, submissions: Sequence[Submission]) -> list[PublishOutcome]:
    if not tracing.is_on:
        return await shared.broker.publish(submissions)
    with tracing.publishing(submissions) as record:
        outcomes = await shared.broker.publish(submissions)
        record(outcomes)
    return outcomes


def _accepted(outcome: Accepted) -> dict[str, Any]:
    result = {
        "status": "duplicate" if outcome.duplicate else "accepted",
        "seq": outcome.seq,
        "id": outcome.message_id,
        "matches": outcome.matches,
    }
    if outcome.invalid is not None:
        result["invalid"] = outcome.invalid
    if outcome.effect is not None:
        result["effect"] = outcome.effect.value
    if outcome.trouble is not None:
        result["trouble"] = outcome.trouble
    return result


def _position(outcome: RejectedRecord) -> dict[str, Any]:
    return {
        "rejected": outcome.id,
        "id": outcome.message_id,
        "reason": outcome.reason,
        "line": outcome.line,
        "column": outcome.column,
    }


def _not_accepted(outcome: RejectedRecord | IdReused) -> dict[str, Any]:
    if isinstance(outcome, IdReused):
        about = {"id": outcome.message_id, "reason": outcome.reason, "seq": outcome.seq}
        return {"status": "refused", "code": outcome.code, **about}
    return {"status": "rejected", "code": outcome.code, **_position(outcome)}


async def _batch(outcomes: Sequence[PublishOutcome]) -> bytes:
    counts = dict.fromkeys(("accepted", "duplicate", "rejected", "refused"), 0)
    written: list[bytes] = []
    breaks = LoopBreaks()
    for outcome in outcomes:
        result = _accepted(outcome) if isinstance(outcome, Accepted) else _not_accepted(outcome)
        counts[result["status"]] += 1
        written.append(orjson.dumps(result))
        await breaks.if_due()
    return b'{"accepted":%d,"duplicates":%d,"rejected":%d,"refused":%d,"results":[%b]}' % (
        counts["accepted"],
        counts["duplicate"],
        counts["rejected"],
        counts["refused"],
        b",".join(written),
    )


_MEMBERS: Final = frozenset({"xml", "xml_base64", "id", "source", "priority", "deadline"})
_QUOTED_MEMBERS: Final = tuple(f'"{name}"'.encode() for name in sorted(_MEMBERS))


async def read_batch(
    request: Request, settings: Settings, tenant_id: int, source: str, urgency: _Urgency
) -> list[Submission]:
    """Returns the messages of a batch: JSON, one object a line. An error names the line, and what is wrong with it."""
    most = settings.batch_messages_max
    submissions: list[Submission] = []
    breaks = LoopBreaks()
    async for number, line in lines(request, settings.body_bytes_max, min(settings.body_bytes_max, _LINE_BYTES_MAX)):
        if len(submissions) == most:
            raise TooLarge(f"the batch has more than batch_messages_max = {most:,} messages")
        try:
            values = _line_values(line)
            await breaks.if_due()
            submissions.append(_submission(values, tenant_id, source, urgency))
            await breaks.if_due()
        except (Invalid, ValueError, RejectedMessage) as error:
            raise Invalid(f"line {number:,}: {error}; nothing of the batch was stored") from None
    if not submissions:
        raise Invalid("there are no messages in the batch")
    return submissions


def _line_values(line: bytes) -> dict[str, Any]:
    """Returns the members of a line; raises Invalid or ValueError if these are not those of a message."""
    check_line(line, _QUOTED_MEMBERS)
    try:
        results = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(results, dict):
        raise ValueError("it is no JSON object")
    if unknown := results.keys() - _MEMBERS:
        raise ValueError(f"there is no member {min(unknown)!r}; use {', '.join(sorted(_MEMBERS))}")
    return results


def _submission(results: dict[str, Any], tenant_id: int, source: str, urgency: _Urgency) -> Submission:
    named = _name("source", results.get("source"))
    priority, deadline = _urgency(results)
    return Submission(
        *(tenant_id, _body(results), named or source, _name("id", results.get("id"))),
        priority=urgency[0] if priority is None else priority,
        deadline=urgency[1] if deadline is None else deadline,
    )


def _body(result: dict[str, Any]) -> bytes:
    text, encoded = result.get("xml"), result.get("xml_base64")
    if isinstance(text, str) and encoded is None:
        # A JSON string has no encoding any more, whatever the document declares.
        return as_bytes(text)
    if isinstance(encoded, str) and text is None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("xml_base64 is no base64") from None
    raise ValueError("give either xml or xml_base64, as a string")


@router.get("/messages")
async def list_messages(
    request: Request,
    response: Response,
    principal: Subscriber,
    shared: Shared,
    after: Seq = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    newest: Annotated[bool, Query(description="Newest first, before `before`, instead of oldest first.")] = False,
    before: Annotated[int | None, Query(ge=0, le=_SEQ_MAX)] = None,
    source: QueryName | None = None,
    message_id: Annotated[QueryName | None, Query(alias="id", description="Only the message of this id.")] = None,
    xml: Annotated[bool, Query(description="Whether to include the messages themselves.")] = False,
) -> MessagesOut:
    """Returns messages in the order in which they were accepted."""
    store = shared.broker.store

    def read(last: StoredMessage | None, count: int) -> list[StoredMessage]:
        begin, end = after, None if before is None else max(before - 1, 0)
        if last is not None:
            begin, end = (begin, last.seq - 1) if newest else (last.seq, end)
        return store.messages(
            principal.tenant_id, after=begin, up_to=end, limit=count, newest_first=newest, source=source
        )

    def find() -> MessagesOut:
        # Before the messages are read: a message that comes meanwhile is in the list, or after the cursor.
        reached = store.last_seq()
        if message_id is not None:
            one = store.message_by_id(principal.tenant_id, message_id, source)
            results, more = [one] if one else [], False
        else:
            results, more = page(limit, read, lambda message: len(message.xml))
        reached = results[-1].seq if more and not newest else max([reached, *(message.seq for message in results)])
        return MessagesOut(
            messages=[MessageOut.of(message, whole=xml) for message in results], cursor=max(reached, after), more=more
        )

    found = await asyncio.to_thread(find)
    if found.more and found.messages:
        last = found.messages[-1].seq
        link_to_next(request, response, [("before" if newest else "after", last)])
    return found


@router.get("/messages/{seq}", response_model=MessageOut, responses=problem_responses(400, 404, 412) | NOT_MODIFIED)
async def get_message(
    seq: int, principal: Subscriber, shared: Shared, conditions: Conditions, response: Response
) -> Any:
    """Returns a message. It never changes."""
    message = await find_message(shared, principal.tenant_id, seq)
    return answer_if_changed(conditions, f'"{seq}"', response, lambda: MessageOut.of(message, whole=True))


@router.get(
    "/messages/{seq}/xml",
    response_class=Response,
    responses=problem_responses(400, 404, 412) | NOT_MODIFIED | {200: {"content": {"application/xml": {}}}},
)
async def get_message_xml(seq: int, principal: Subscriber, shared: Shared, conditions: Conditions) -> Response:
    """Returns a message as it is, without anything around it. It never changes."""
    message = await find_message(shared, principal.tenant_id, seq)
    answer = Response(message.xml, media_type="application/xml", headers={"ETag": f'"{seq}"'})
    result: Response = answer_if_changed(conditions, f'"{seq}"', answer, lambda: answer)
    return result


@router.get("/messages/{seq}/lifecycle", responses=problem_responses(404))
async def get_lifecycle(
    seq: int,
    principal: Subscriber,
    shared: Shared,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Deliveries that are listed at most.")] = 1_000,
) -> LifecycleOut:
    """Returns what is known of the matter of a message, by the profile of its source as it is now.

    It lists the messages that update and cancel each other, and who got which of them, as what.
    """
    message = await find_message(shared, principal.tenant_id, seq)
    return await asyncio.to_thread(read_lifecycle, shared, message, limit)


def read_lifecycle(shared: ApiContext, message: StoredMessage, limit: int) -> LifecycleOut:
    """Returns the life cycle of a message; raises UnknownObject if nothing is known of it. Blocks."""
    store, tenant_id = shared.broker.store, message.tenant_id
    source = store.source(tenant_id, message.source)
    if source is None or source.profile is None:
        raise UnknownObject(f"the source {message.source!r} of message {message.seq} has no profile")
    reader = profile_reader(source.profile, shared.broker.options.limits)
    facts = reader.read(message.with_ids)
    names = [] if facts.identity is None else [facts.identity]
    chains = store.chains(tenant_id, reader.profile.name, names) if facts.takes_part else []
    if not chains:
        raise UnknownObject(f"message {message.seq} has no life cycle, or it was forgotten")
    chain = chains[0].chain
    relations = store.relations(tenant_id, [int(member.handle) for member in chain.members], limit)
    return LifecycleOut.of_chain(reader.profile.name, chain, relations)


async def find_message(shared: ApiContext, tenant_id: int, seq: int) -> StoredMessage:
    """Returns a message of a tenant; raises UnknownObject if there is none."""
    result = await asyncio.to_thread(shared.broker.store.message, tenant_id, seq) if 0 <= seq <= _SEQ_MAX else None
    if result is None:
        raise UnknownObject(f"there is no message with the sequence number {seq}")
    return result


# --- rejected ---------------------------------------------------------------------------------------------------------


@router.get("/rejected")
async def list_rejected(
    request: Request,
    response: Response,
    principal: Publisher,
    shared: Shared,
    before: Annotated[int | None, Query(ge=0, le=_SEQ_MAX)] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> RejectedListOut:
    """Returns the rejected messages, newest first."""

    def read(last: RejectedRecord | None, count: int) -> list[RejectedRecord]:
        end = before if last is None else last.id
        return shared.broker.store.rejected(principal.tenant_id, before_id=end, limit=count)

    results, more = await asyncio.to_thread(page, limit, read, lambda message: len(message.body))
    if more:
        link_to_next(request, response, [("before", results[-1].id)])
    return RejectedListOut(
        rejected=[RejectedOut.of(message) for message in results], next=results[-1].id if more else None
    )


@router.get("/rejected/{rejected}", responses=problem_responses(404))
async def get_rejected(rejected: int, principal: Publisher, shared: Shared) -> RejectedOut:
    """Returns a rejected message."""
    return RejectedOut.of(await find_rejected(shared, principal.tenant_id, rejected))


@router.get(
    "/rejected/{rejected}/body",
    response_class=Response,
    responses=problem_responses(404) | {200: {"content": {"application/octet-stream": {}}}},
)
async def get_rejected_body(rejected: int, principal: Publisher, shared: Shared) -> Response:
    """Returns the bytes of a rejected message, as they were sent."""
    message = await find_rejected(shared, principal.tenant_id, rejected)
    return Response(message.body, media_type="application/octet-stream")


@router.delete("/rejected/{rejected}", responses=problem_responses(404))
async def delete_rejected(rejected: int, principal: Publisher, shared: Shared) -> CountOut:
    """Removes a rejected message for good."""
    message = await find_rejected(shared, principal.tenant_id, rejected)
    count = await shared.broker.change(lambda transaction: transaction.remove_rejected([message.id]))
    return CountOut(count=count)


async def find_rejected(shared: ApiContext, tenant_id: int, rejected: int) -> RejectedRecord:
    """Returns a rejected message of a tenant; raises UnknownObject if there is none."""
    result = None
    if 0 <= rejected <= _SEQ_MAX:
        result = await asyncio.to_thread(shared.broker.store.rejected_message, tenant_id, rejected)
    if result is None:
        raise UnknownObject(f"there is no rejected message with the number {rejected}")
    return result
