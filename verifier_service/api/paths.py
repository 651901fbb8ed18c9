"""Ids in paths. Ids may hold ``/``; in a path it is written ``%2F`` and never separates segments."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

from fastapi import Path
from pydantic import BeforeValidator, StringConstraints
from starlette.types import ASGIApp, Receive, Scope, Send

from verifier_service.domain.reviews import QueueName
from verifier_service.domain.trajectories import ID_PATTERN

SLASH = "%2F"


class EncodedSlashes:
    """Let routes see ``%2F`` as it was sent.

    Servers hand applications the decoded path, in which an id with a slash would be two segments. Ids
    hold no percent sign, so an encoded slash that is left in a segment is not ambiguous.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Rewrite the path of requests that hold an encoded slash."""
        raw = scope.get("raw_path") if scope["type"] == "http" else None
        if raw is not None and b"%2f" in raw.lower():
            text = raw.decode("ascii", "replace")
            path = "/".join(unquote(part).replace("/", SLASH) for part in text.split("/"))
            scope = {**scope, "path": path}
        await self._app(scope, receive, send)


def _decoded(value: object) -> object:
    return value.replace(SLASH, "/") if isinstance(value, str) else value


PathId = Annotated[str, StringConstraints(pattern=ID_PATTERN), BeforeValidator(_decoded)]
RunId = Annotated[PathId, Path(description="The run's id; a slash in it is written %2F.")]
TrajectoryId = Annotated[PathId, Path(description="The trajectory's id; a slash in it is written %2F.")]
GroupId = Annotated[PathId, Path(description="The group's id; a slash in it is written %2F.")]
LadderName = Annotated[PathId, Path(description="The ladder's name; a slash in it is written %2F.")]
ReviewId = Annotated[PathId, Path(description="The review's id.")]
QueuePath = Annotated[QueueName, Path(description="The queue's name.")]
GoldId = Annotated[PathId, Path(description="The gold item's id; a slash in it is written %2F.")]
AlarmId = Annotated[PathId, Path(description="The alarm's id.")]
ImportId = Annotated[PathId, Path(description="The import's id; a slash in it is written %2F.")]
CheckKey = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{1,64}$"),
    Path(description="The check's key, as a case shows it."),
]
RetractionId = Annotated[PathId, Path(description="The retraction's id; a slash in it is written %2F.")]
LoginName = Annotated[PathId, Path(description="The user's login.")]
KeyId = Annotated[PathId, Path(description="The key's id, the part of a token before the dot.")]
