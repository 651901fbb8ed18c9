"""NeMo Gym's own agent and client against our resources server, over a service in trouble."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Coroutine, Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest
import uvicorn
from aiohttp import ClientResponseError
from fastapi import FastAPI
from nemo_gym import server_utils
from nemo_gym.base_resources_server import BaseVerifyResponse
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.server_utils import GlobalAIOHTTPAsyncClientConfig, ServerClient
from omegaconf import OmegaConf
from pydantic import ValidationError
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig, SimpleAgentRunRequest

from tests.support.server import fresh
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble
from verifier_service.trainers import nemo_gym as adapter
from verifier_service.trainers.nemo_gym import VerifierConfig, VerifierResourcesServer

OUTAGE_S = 20.0
HOST = "127.0.0.1"


def configured(**options: Any) -> VerifierConfig:
    """The server's part of a Gym's YAML."""
    return VerifierConfig(
        **{
            "host": HOST,
            "port": 1,
            "entrypoint": "app.py",
            "name": "verifier",
            "run": "r",
            "ladder": "spoken",
            **options,
        }
    )


class Serving:
    """An application on a free port, in a thread."""

    def __init__(self, app: FastAPI) -> None:
        self._socket = socket.create_server((HOST, 0))
        self.port: int = self._socket.getsockname()[1]
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()


class Gym:
    """A simple agent whose policy says what it is told to, and a resources server of ours for one run."""

    def __init__(self, trouble: Trouble, run: str, **options: Any) -> None:
        self.says: list[str] = []
        config = configured(run=run, url=trouble.url, key=trouble.key, **options)
        server = VerifierResourcesServer(config=config, server_client=MagicMock(spec=ServerClient))
        self._policy = Serving(self._speaking())
        self._resources = Serving(server.setup_webserver())
        servers = {
            "agent": {"responses_api_agents": {"simple_agent": self._at(self._policy)}},
            "verifier": {"resources_servers": {"verifier": self._at(self._resources)}},
        }
        head = {"host": HOST, "port": 1}
        client = ServerClient(head_server_config=head, global_config_dict=OmegaConf.create(servers))
        names = {
            "resources_server": {"type": "resources_servers", "name": "verifier"},
            "model_server": {"type": "responses_api_models", "name": "model"},
        }
        agent = SimpleAgentConfig(host=HOST, port=1, entrypoint="app.py", name="agent", **names)
        self._agent = SimpleAgent(config=agent, server_client=client)

    def rollouts(self, *says: str, **task: Any) -> list[Any]:
        """Each rollout's verified result, or the error that it ended with."""
        self.says = list(says)
        return asyncio.run(self._all(len(says), task))

    def close(self) -> None:
        self._policy.close()
        self._resources.close()

    async def _all(self, count: int, task: dict[str, Any]) -> list[Any]:
        server_utils._GLOBAL_AIOHTTP_CLIENT = None
        client = server_utils.set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())
        rows = [
            SimpleAgentRunRequest.model_validate(
                {"responses_create_params": {"input": [{"role": "user", "content": "Which?"}]}, **task}
            )
            for _ in range(count)
        ]
        request = MagicMock(cookies={})
        try:
            return list(
                await asyncio.gather(
                    *(self._agent.run(request, row) for row in rows), return_exceptions=True
                )
            )
        finally:
            await client.close()
            server_utils._GLOBAL_AIOHTTP_CLIENT = None

    def _speaking(self) -> FastAPI:
        app = FastAPI()

        @app.post("/v1/responses")
        async def responses() -> dict[str, Any]:
            return response(self.says.pop(0))

        return app

    @staticmethod
    def _at(serving: Serving) -> dict[str, Any]:
        return {"host": HOST, "port": serving.port, "entrypoint": "app.py"}


def response(text: str) -> dict[str, Any]:
    """A model's answer as NeMo Gym's models describe it."""
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {
        "id": fresh("msg"),
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    whole = {
        "id": fresh("resp"),
        "created_at": 0.0,
        "model": "m",
        "object": "response",
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    found: dict[str, Any] = NeMoGymResponse.model_validate(whole).model_dump(mode="json")
    return found


@pytest.fixture
def gym(trouble: Trouble) -> Iterator[Gym]:
    made = Gym(trouble, fresh())
    yield made
    made.close()


@pytest.fixture(autouse=True)
def calm(trouble: Trouble) -> Iterator[None]:
    yield
    trouble.duplicate(False)


def unmeasured(result: Any) -> bool:
    """No result at all, so that no trainer has a number for it."""
    return isinstance(result, ClientResponseError) and result.status == 503


def test_rollouts_are_verified(trouble: Trouble) -> None:
    run = fresh()
    gym = Gym(trouble, run)
    results = gym.rollouts(OK, WRONG, expected_answer='{"smiles": "CCO"}', mine=7)
    gym.close()
    assert sorted(one.reward for one in results) == [0.0, 1.0]
    for one in results:
        assert isinstance(one, BaseVerifyResponse)
        assert one.model_extra["mine"] == 7
        assert one.response.output[0].content[0].text in (OK, WRONG)
    with trouble.client() as client:
        cases = [client.trajectory(run, one.trajectory) for one in client.rewards(run, wait_s=5).records]
    assert {one.answer for one in cases} == {OK, WRONG}
    assert cases[0].reference == {"smiles": "CCO"}


@pytest.mark.parametrize("said", [FAILS, HANGS])
@pytest.mark.parametrize("masks", [False, True])
def test_what_was_not_verified_is_an_error_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, gym: Gym, said: str, masks: bool
) -> None:
    """Also under a Gym that knows masks: they are for who asks for them."""
    monkeypatch.setattr(adapter, "MASKS", masks)
    [bad] = gym.rollouts(said)
    assert unmeasured(bad)
    assert "unverifiable" in bad.response_content.decode()
    [good] = gym.rollouts(OK)
    assert good.reward == 1.0


def test_a_budget_that_runs_out_is_no_number(trouble: Trouble) -> None:
    gym = Gym(trouble, trouble.broke(fresh()))
    results = gym.rollouts(*[json.dumps({"do": "ok", "n": fresh()}) for _ in range(2)])
    gym.close()
    assert all(map(unmeasured, results))


def test_an_outage_is_waited_for(trouble: Trouble, gym: Gym) -> None:
    outage = trouble.stop_for(OUTAGE_S)
    results = gym.rollouts(OK, OK)
    outage.join()
    assert [one.reward for one in results] == [1.0, 1.0]


def test_requests_that_come_twice_count_once_and_equal_answers_twice(trouble: Trouble) -> None:
    run = fresh()
    gym = Gym(trouble, run)
    trouble.duplicate()
    results = gym.rollouts(OK, OK)
    gym.close()
    assert [one.reward for one in results] == [1.0, 1.0]
    with trouble.client() as client:
        assert client.run(run).trajectories == 2


def test_a_hanging_item_is_answered_in_time(trouble: Trouble) -> None:
    gym = Gym(trouble, fresh(), seconds=1.0)
    [stuck] = gym.rollouts(HANGS)
    gym.close()
    assert unmeasured(stuck)


def test_a_mask_is_for_who_asks_for_it(monkeypatch: pytest.MonkeyPatch, trouble: Trouble) -> None:
    monkeypatch.setattr(adapter, "MASKS", True)
    gym = Gym(trouble, fresh(), unscored="mask")
    [bad] = gym.rollouts(FAILS)
    [good] = gym.rollouts(OK)
    gym.close()
    assert (bad.reward, bad.model_extra["mask_sample"]) == (0.0, True)
    assert bad.model_extra["failure_kind"] == "verifier-service:unverifiable"
    assert bad.model_extra["failure_reason"]
    assert (good.reward, good.model_extra["mask_sample"]) == (1.0, False)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"unscored": "zero"}, "unscored"),
        ({"seconds": float("nan")}, "seconds"),
        ({"retry_s": -1}, "retry_s"),
        ({"until": "soon"}, "until"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        configured(**options)


def test_a_mask_is_refused_where_gym_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "MASKS", False)
    with pytest.raises(ValidationError, match="does not declare mask_sample"):
        configured(unscored="mask")
    monkeypatch.setattr(adapter, "MASKS", True)
    assert configured(unscored="mask").unscored == "mask"


def test_the_key_is_not_shown_with_the_configuration() -> None:
    assert "secret" not in repr(configured(key="secret"))


def test_gyms_own_client_reaches_the_route(trouble: Trouble) -> None:
    """Gym's request function, with the key in the URL, for servers of a user's own."""
    host = trouble.url.removeprefix("http://")
    url = f"http://:{trouble.key}@{host}/v1/score/{fresh()}/spoken?format=nemo_gym"
    body = {"responses_create_params": {"input": "Which?"}, "response": response(OK)}

    async def ask() -> Any:
        server_utils._GLOBAL_AIOHTTP_CLIENT = None
        client = server_utils.set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())
        try:
            answer = await server_utils.request("POST", url, json=body)
            await server_utils.raise_for_status(answer)
            return await server_utils.get_response_json(answer)
        finally:
            await client.close()
            server_utils._GLOBAL_AIOHTTP_CLIENT = None

    asking: Coroutine[Any, Any, Any] = ask()
    found = asyncio.run(asking)
    assert BaseVerifyResponse.model_validate(found).reward == 1.0
