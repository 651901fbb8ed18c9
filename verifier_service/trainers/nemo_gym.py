"""NeMo Gym: a resources server whose ``/verify`` is the service's.

Gym calls its own servers only, at paths of its own, so this is one of them, to be started by Gym. Its
``resources_servers/verifier_service/app.py``::

    from verifier_service.trainers.nemo_gym import VerifierResourcesServer

    if __name__ == "__main__":
        VerifierResourcesServer.run_webserver()

What was not verified is an error 503 with the reason, so that the rollout has no result. Only for a trainer
that leaves masked samples out of its loss and out of its groups' statistics, and under a Gym that declares
``mask_sample``, there is ``unscored: mask``: that mask with the reason, over a reward of 0.0. NeMo RL is no
such trainer yet (its issue 4061). Needs nemo-gym on Python 3.12 (tested with 0.4.0:
nemo_gym/base_resources_server.py, nemo_gym/server_utils.py).
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Literal

import httpx
from nemo_gym.base_resources_server import (  # type: ignore[import-not-found,unused-ignore]
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from pydantic import ConfigDict, Field, PrivateAttr, model_validator
from starlette.exceptions import HTTPException

from verifier_service.client import transport
from verifier_service.client.calls import path
from verifier_service.client.location import locate
from verifier_service.domain.wire import UNTIL_COMPUTED, Until

BUSY = frozenset({429, 500, 502, 503, 504})
PAUSE_S = 0.5
SPARE_S = 30.0  # on top of the wait that was asked for
CONNECTIONS = 1_024
NO_RESULT = 503
MASKS = "mask_sample" in BaseVerifyResponse.model_fields

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class VerifierConfig(BaseResourcesServerConfig):  # type: ignore[misc]
    """The server's part of Gym's YAML.

    ``unscored``: what a rollout without a reward is, an ``error`` 503 or a ``mask`` over 0.0; see the
    module. ``url`` and ``key`` default to ``$VERIFIER_URL`` and ``$VERIFIER_API_KEY``; a silent or busy
    service is tried again for ``retry_s`` seconds. Raises ``ValidationError`` where a mask is asked of a
    Gym that has none.
    """

    run: str
    ladder: str
    until: Until = UNTIL_COMPUTED
    seconds: Seconds = 60.0
    unscored: Literal["error", "mask"] = "error"
    label: str = "expected_answer"
    reference: str = "answer"
    url: str | None = None
    key: str | None = Field(default=None, repr=False)
    retry_s: Seconds = 120.0

    @model_validator(mode="after")
    def _require_masks(self) -> VerifierConfig:
        if self.unscored == "mask" and not MASKS:
            raise ValueError("unscored: this Gym does not declare mask_sample, and would train on the 0.0")
        return self


class VerifierRequest(BaseVerifyRequest):  # type: ignore[misc]
    """With the task's fields, the label among them."""

    model_config = ConfigDict(extra="allow")


class VerifierResponse(BaseVerifyResponse):  # type: ignore[misc]
    """With the task's fields, and ``failure_kind`` and ``failure_reason``."""

    model_config = ConfigDict(extra="allow")


class VerifierResourcesServer(SimpleResourcesServer):  # type: ignore[misc]
    """See the module."""

    config: VerifierConfig
    _http: httpx.AsyncClient | None = PrivateAttr(default=None)

    async def verify(self, body: VerifierRequest) -> VerifierResponse:
        """The request with its reward. Raises ``HTTPException`` where there is none, unless that is to be
        masked."""
        answer = await self._asked(body.model_dump(mode="json"))
        if answer["mask_sample"] and self.config.unscored != "mask":
            detail = f"no reward: {answer['failure_kind']}: {answer['failure_reason']}"
            raise HTTPException(NO_RESULT, detail)
        response: VerifierResponse = VerifierResponse.model_validate(answer)
        return response

    async def _asked(self, body: dict[str, Any]) -> dict[str, Any]:
        """The service's answer. What was sent twice is one trajectory there, so it may be sent again."""
        until = time.monotonic() + self.config.retry_s
        while True:
            last = "no answer"
            try:
                answer = await self._client().post(self._path, params=self._options, json=body)
                if answer.status_code not in BUSY:
                    return _read(answer)
                last = answer.text[:500]
            except httpx.TransportError as error:
                last = f"{type(error).__name__}: {error}"
            if time.monotonic() > until:
                raise HTTPException(NO_RESULT, f"the verification service is away: {last}")
            await asyncio.sleep(PAUSE_S)

    @property
    def _path(self) -> str:
        return path("score", self.config.run, self.config.ladder)

    @property
    def _options(self) -> dict[str, str | float]:
        config = self.config
        return {
            "format": "nemo_gym",
            "until": config.until,
            "seconds": config.seconds,
            "label": config.label,
            "reference": config.reference,
            "unscored": "mask" if self.config.unscored == "mask" else "null",
        }

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            location = locate(self.config.url, self.config.key)
            settings = transport.settings(location, CONNECTIONS)
            self._http = httpx.AsyncClient(
                **settings | {"timeout": httpx.Timeout(self.config.seconds + SPARE_S, pool=None)}
            )
        return self._http


def _read(answer: httpx.Response) -> dict[str, Any]:
    if answer.is_error:
        raise HTTPException(answer.status_code, f"the verification service refuses: {answer.text[:500]}")
    found: dict[str, Any] = answer.json()
    return found
