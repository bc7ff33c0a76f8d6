"""``/dead-letters``: deliveries that were given up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from twigcast.broker.api.access import Principal
from twigcast.broker.api.context import ApiContext, QueryName, Shared, Subscriber
from twigcast.broker.api.models.common import CountOut
from twigcast.broker.api.models.deliveries import DeadLetterOut, DeadLettersIn, DeadLettersOut
from twigcast.broker.api.openapi import problem_responses
from twigcast.broker.api.paging import page
from twigcast.broker.errors import NotFound
from twigcast.broker.model import DeadLetter

router = APIRouter(prefix="/dead-letters", tags=["dead letters"], responses=problem_responses(401, 403))

Number = Annotated[int | None, Query(ge=0, le=1 << 62)]


@router.get("")
async def list_dead_letters(
    principal: Subscriber,
    shared: Shared,
    before: Number = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    key: Annotated[QueryName | None, Query(description="Only those of this subscription.")] = None,
) -> DeadLettersOut:
    """Returns dead letters, newest first."""

    def read(last: DeadLetter | None, count: int) -> list[DeadLetter]:
        end = before if last is None else last.id
        return shared.broker.store.dead_letters(principal.tenant_id, before_id=end, limit=count, key=key)

    results, more = await asyncio.to_thread(page, limit, read, lambda letter: len(letter.body))
    return DeadLettersOut(
        dead_letters=[DeadLetterOut.of(letter) for letter in results], next=results[-1].id if more else None
    )


@router.post("/retry", responses=problem_responses(404, 422, 503, 507))
async def retry(body: DeadLettersIn, principal: Subscriber, shared: Shared) -> CountOut:
    """Redrives dead letters, and returns how many. One that arrives is no longer a dead letter."""
    letters = await _own(shared, principal, body.dead_letters)
    return CountOut(count=len(await shared.broker.redrive([letter.id for letter in letters])))


@router.post("/delete", responses=problem_responses(404, 422, 503, 507))
async def delete(body: DeadLettersIn, principal: Subscriber, shared: Shared) -> CountOut:
    """Removes dead letters for good."""
    letters = await _own(shared, principal, body.dead_letters)
    ids = [letter.id for letter in letters]
    return CountOut(count=await shared.broker.change(lambda transaction: transaction.remove_dead_letters(ids)))


async def _own(shared: ApiContext, principal: Principal, numbers: Sequence[int]) -> list[DeadLetter]:
    """Returns dead letters by their numbers.

    Raises:
        NotFound: One of them does not exist, or belongs to another tenant.
    """

    def find() -> list[DeadLetter]:
        letters = []
        for number in dict.fromkeys(numbers):
            result = shared.broker.store.dead_letters(principal.tenant_id, before_id=number + 1, limit=1)
            if not result or result[0].id != number:
                raise NotFound(f"there is no dead letter with the number {number}")
            letters.append(result[0])
        return letters

    return await asyncio.to_thread(find)
