"""Rewards in the formats of trainers that call a URL: no client of ours on their side.

What could not be verified is the trainer's own "no reward", never a number, and is logged with its reason.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from verifier_service.api.auth import PlainSubmitter
from verifier_service.api.bodies import described
from verifier_service.api.context import Context, InContext
from verifier_service.api.envelopes import rank_of
from verifier_service.api.paths import LadderName, RunId
from verifier_service.api.problems import documented
from verifier_service.api.shims import nemo_gym, openrlhf, slime
from verifier_service.api.shims.asked import Asked, Format, Manner, Outcome
from verifier_service.api.threads import by_size, in_thread
from verifier_service.api.trajectories import EAGER_S
from verifier_service.api.waiting import Seen, attended
from verifier_service.domain.errors import Contended, NotFound
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.runs import Key
from verifier_service.domain.wire import MAX_WAIT_S, UNTIL_COMPUTED, Until, WaitSpec
from verifier_service.services.intake import Intake, ItemResult

log = logging.getLogger(__name__)

router = APIRouter(prefix="/v1/score", tags=["scoring"])

FormatName = Literal["openrlhf", "slime", "nemo_gym"]
FORMATS: Mapping[FormatName, Format] = {
    "openrlhf": openrlhf.FORMAT,
    "slime": slime.FORMAT,
    "nemo_gym": nemo_gym.FORMAT,
}
DEFAULT_S = 60.0  # slime gives up after 120 s, OpenRLHF after 180 s
EARLY_S = 0.05
UNKNOWN_LADDER = "unknown_ladder"

Name = Annotated[str, Field(min_length=1, max_length=200)]


class Options(BaseModel):
    """How a trainer's requests are to be read, and how long it waits."""

    format: Annotated[FormatName, Field(description="Whose request this is.")]
    until: Annotated[Until, Field(description="How far to verify before answering.")] = UNTIL_COMPUTED
    seconds: Annotated[
        float, Field(ge=0, le=3_600, description="Longest wait; the server's own limit holds, too.")
    ] = DEFAULT_S
    reference: Annotated[
        Name, Field(description="The field of the reference that a label becomes which is no object.")
    ] = "answer"
    label: Annotated[Name, Field(description="nemo_gym: the field of the request with the label.")] = (
        "expected_answer"
    )
    end: Annotated[
        list[Annotated[str, Field(max_length=200)]],
        Field(
            max_length=20,
            description="Cut off completions in place of the usual end tokens; '' cuts off none.",
        ),
    ] = []
    unscored: Annotated[
        Literal["null", "mask"], Field(description="nemo_gym: 'mask' for readers that know `mask_sample`.")
    ] = "null"


def _documented() -> dict[str, Any]:
    """The request bodies of all formats."""
    bodies = [described(form.request)["requestBody"] for form in FORMATS.values()]
    schemas = [body["content"]["application/json"]["schema"] for body in bodies]
    content = {"application/json": {"schema": {"anyOf": schemas}}}
    return {"requestBody": {"required": True, "content": content}}


_REPLY = {"anyOf": [dict(form.reply_schema) for form in FORMATS.values()]}


@router.post(
    "/{run}/{ladder}",
    response_class=Response,
    responses={
        200: {
            "description": "In the format asked for",
            "content": {"application/json": {"schema": _REPLY}},
        },
        **documented(404, 409),
    },
    openapi_extra=_documented(),
)
async def score(
    run: RunId,
    ladder: LadderName,
    request: Request,
    caller: PlainSubmitter,
    context: InContext,
    options: Annotated[Options, Query()],
) -> Response:
    """Score what a trainer sends, as it sends it. Scope: `submit`.

    The key may come as the password of HTTP Basic: `http://:KEY@host/...`. A request that comes again is
    the same trajectory. Without a reward: `rewards: null` (openrlhf), `null` (slime), `reward: null` with
    `mask_sample` and `failure_reason` (nemo_gym).
    """
    raw = await request.body()
    settings = context.service.settings
    manner = Manner(
        run=run,
        ladder=ladder,
        salt=await _salt(context, caller.project),
        reference=options.reference,
        label=options.label,
        end=tuple(options.end),
        unscored=options.unscored,
        max_batch=settings.max_batch,
    )
    form = FORMATS[options.format]
    asked = await by_size(len(raw), form.read, raw, manner)
    wait = WaitSpec(until=options.until, seconds=min(options.seconds, MAX_WAIT_S, settings.max_wait_s))
    outcomes = await _outcomes(request, context, caller, run, asked, wait)
    content = await by_size(len(raw), _dumped, form, asked, outcomes, manner)
    return Response(content, media_type="application/json")


async def _outcomes(
    request: Request, context: Context, caller: Key, run: str, asked: Asked, wait: WaitSpec
) -> list[Outcome]:
    if not asked.items:
        return []
    await context.admission.batch(caller, run, asked.items)
    taken = await context.gatherer.submit(
        caller.project, run, asked.items, eager=wait.seconds >= EAGER_S, submitter=caller.owner
    )
    _require_ladder(taken)
    pks = {result.pk: result.id for result in taken.results if result.pk is not None and result.id}
    began = time.monotonic()
    watching = context.hub.rewards(
        caller.project,
        run,
        pks,
        rank=rank_of(wait),
        seconds=wait.seconds,
        caller=caller.id,
        issued=taken.issued,
    )
    seen = await attended(request, watching)
    outcomes = [_outcome(result, seen) for result in taken.results]
    if not seen.met and time.monotonic() - began < wait.seconds - EARLY_S:
        # The server stops and ended the wait. Trainers try again, and then wait on.
        raise Contended("stopping", "the server stops; ask again in a moment")
    _tell(run, outcomes)
    return outcomes


def _require_ladder(taken: Intake) -> None:
    """Raise ``NotFound`` where nothing can ever be scored, so that the trainer stops."""
    for result in taken.results:
        if result.error is not None and result.error.code == UNKNOWN_LADDER:
            raise NotFound(UNKNOWN_LADDER, result.error.message, field="ladder")


def _outcome(result: ItemResult, seen: Seen) -> Outcome:
    if result.error is not None:
        message = f"{result.error.code}: {result.error.message}"
        return Outcome(result.id, None, result.status, message)
    record = seen.records.get(result.id) if result.id is not None else None
    return Outcome(result.id, record, *_reason(record))


def _reason(record: RewardRecord | None) -> tuple[str | None, str]:
    if record is None:
        return "pending", "there was no record when the wait was over"
    if record.reward is not None:
        return None, ""
    if record.reason is None:
        return "pending", f"the record is {record.status}"
    message = ": ".join(part for part in (record.reason.detail, record.reason.message) if part)
    return str(record.reason.code), message


def _tell(run: str, outcomes: Sequence[Outcome]) -> None:
    """One line a reason, however many items a request has."""
    counts = Counter(one.code for one in outcomes if one.code is not None)
    firsts = {one.code: one for one in reversed(outcomes)}
    for code, count in counts.items():
        first, of = firsts[code], len(outcomes)
        log.warning(
            "run %s: no reward for %d of %d: %s; first %s: %s",
            run,
            count,
            of,
            code,
            first.id,
            first.message,
        )


def _dumped(form: Format, asked: Asked, outcomes: Sequence[Outcome], manner: Manner) -> bytes:
    """NaN is written where a format's reply holds it: the trainers' readers take it."""
    return json.dumps(form.reply(asked, outcomes, manner)).encode()


async def _salt(context: Context, project: str) -> str:
    found = context.salts.get(project)
    if found is None:
        found = context.salts[project] = await in_thread(_secret, context, project)
    return found


def _secret(context: Context, project: str) -> str:
    with context.service.store.read() as tx:
        return tx.projects.secret(project)
