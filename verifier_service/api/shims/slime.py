"""slime's ``--rm-type remote_rm --rm-url`` (slime/rollout/rm_hub/__init__.py, ``remote_rm``).

One sample a request, and the JSON of the reply is its reward: a number, or ``null`` where there is none.
slime has no arithmetic for a missing reward: a group that has one must be dropped by a dynamic sampling
filter, else the run stops where rewards become a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

from verifier_service.api.shims.asked import (
    Asked,
    Format,
    Manner,
    Outcome,
    TrainerRequest,
    decoded,
    made,
    reference_of,
)
from verifier_service.domain.completions import without_end
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.records import JsonObject, JsonValue


class SlimeRequest(TrainerRequest):
    """``prompt``: text, or chat messages where slime does not apply the template."""

    prompt: str | list[JsonObject] = ""
    response: str
    label: JsonValue = None


def read(raw: bytes, manner: Manner) -> Asked:
    """The one item of a request. Raises ``InvalidInput`` when there is no response."""
    body = decoded(raw)
    response = body.get("response")
    if response is None:
        raise InvalidInput("missing_field", "the body needs the field 'response'", field="response")
    parts = {
        "prompt": body.get("prompt") or "",
        "reference": reference_of(body.get("label"), manner.reference),
        "answer": without_end(response, manner.end) if isinstance(response, str) else response,
    }
    return Asked((made(manner, parts),), body)


def reply(_asked: Asked, outcomes: Sequence[Outcome], _manner: Manner) -> float | None:
    """The reward."""
    return outcomes[0].reward


FORMAT = Format(request=SlimeRequest, reply_schema={"type": ["number", "null"]}, read=read, reply=reply)
