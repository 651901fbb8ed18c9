"""What an agent did, as a trainer submits it, and the limits at the door."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from verifier_service.domain.records import JsonObject, JsonValue, Request

MAX_TURNS = 20_000
MAX_CALLS_PER_TURN = 256
MAX_ANSWER_CHARS = 1_000_000
_NO_DOT, _ANY = r"[A-Za-z0-9_:@/+\-]", r"[A-Za-z0-9._:@/+\-]"
# All but ``.`` and ``..``, which name another place in a path. Without look-ahead: not every reader of our
# description knows it.
ID_PATTERN = rf"^({_NO_DOT}{_ANY}{{0,199}}|\.{_NO_DOT}{_ANY}{{0,198}}|\.\.{_ANY}{{1,198}})$"
ID_PREFIX_PATTERN = rf"^{_ANY}{{1,200}}$"

Identifier = Annotated[str, Field(pattern=ID_PATTERN)]


class ToolCall(Request):
    """A tool call as the model wrote it; ``arguments`` stays raw text when it is not an object."""

    id: str | None = None
    name: str | None = None
    arguments: str | JsonObject | None = None


class Observation(Request):
    """What came back. ``call`` is the id of the call it answers."""

    call: str | None = None
    text: str | None = None
    is_error: bool = False
    data: JsonValue = None


class Turn(Request):
    """One assistant turn with its calls and their observations."""

    message: str | None = None
    calls: Annotated[tuple[ToolCall, ...], Field(strict=False, max_length=MAX_CALLS_PER_TURN)] = ()
    observations: Annotated[
        tuple[Observation, ...], Field(strict=False, max_length=MAX_CALLS_PER_TURN)
    ] = ()


class Problem(Request):
    """The task. ``reference`` (gold, tests, targets) is write-only: shown only with scope ``gold``."""

    prompt: str | list[JsonObject] = ""
    inputs: JsonObject = {}
    reference: JsonObject = {}


class TrajectorySubmission(Request):
    """One exploration. Without ``id`` it is named by its content and repeats raise multiplicity."""

    id: Identifier | None = None
    group: Identifier | None = None
    group_size: Annotated[int, Field(ge=1, le=100_000)] | None = None
    policy_version: Annotated[str, Field(max_length=200)] | None = None
    ladder: Identifier
    problem: Problem = Problem()
    turns: Annotated[tuple[Turn, ...], Field(strict=False, max_length=MAX_TURNS)] = ()
    answer: str | JsonObject | None = None
    finished: bool = True
    metadata: JsonObject = {}
