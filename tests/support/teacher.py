"""A teacher for tests: a real HTTP server over a tiny model whose log-probabilities it computes.

The model is a bigram: the probability of a token given the one before it, from a table of logits. It
answers ``/v1/completions`` in both dialects, and misbehaves on request.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

VOCABULARY = ("<s>", "a", "b", "ab", " ", "!", "é", "hint")


def segmented(text: str, vocabulary: Sequence[str] = VOCABULARY) -> list[int]:
    """Token ids of a text: the longest piece first."""
    ids: list[int] = []
    while text:
        piece = max((p for p in vocabulary if text.startswith(p)), key=len)
        ids.append(vocabulary.index(piece))
        text = text.removeprefix(piece)
    return ids


@dataclass(kw_only=True)
class Bigram:
    """p(next | previous) = softmax of a row of ``logits`` (V, V)."""

    logits: NDArray[np.float64]
    vocabulary: tuple[str, ...] = VOCABULARY

    @classmethod
    def random(cls, seed: int, vocabulary: tuple[str, ...] = VOCABULARY) -> Bigram:
        """A model of its own for each seed."""
        size = len(vocabulary)
        return cls(logits=np.random.default_rng(seed).normal(size=(size, size)), vocabulary=vocabulary)

    def table(self) -> NDArray[np.float64]:
        """(V, V) log-probabilities in nats."""
        highest = self.logits.max(axis=1, keepdims=True)
        shifted = self.logits - highest
        table: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return table

    def logprobs(self, ids: Sequence[int]) -> list[float | None]:
        """Of each token given the one before it; null for the first."""
        table = self.table()
        return [None, *(float(table[a, b]) for a, b in pairwise(ids))]


@dataclass(kw_only=True)
class Served:
    """A running endpoint. ``trouble``: what it does instead, for so many requests (``times``)."""

    url: str
    model: Bigram
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    trouble: str | None = None
    times: int = 10**9
    delay_s: float = 0.0
    busiest: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def troubled(self) -> str | None:
        """The trouble of this request, if any is left."""
        with self._lock:
            if self.trouble is None or self.times <= 0:
                return None
            self.times -= 1
            return self.trouble

    def enter(self, by: int) -> None:
        """Count who is inside."""
        with self._lock:
            self._now += by
            self.busiest = max(self.busiest, self._now)


@contextmanager
def serving(model: Bigram, **settings: Any) -> Iterator[Served]:
    """An endpoint for one block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.requests.append(body)
            served.keys.append(self.headers.get("Authorization"))
            served.enter(1)
            try:
                time.sleep(served.delay_s)
                self._answer(body, served.troubled())
            finally:
                served.enter(-1)

        def _answer(self, body: dict[str, Any], trouble: str | None) -> None:
            if self.path != "/v1/completions":
                return self._send(404, b"{}")
            if trouble is not None and trouble.isdigit():
                return self._send(int(trouble), b'{"error": {"message": "by hand"}}')
            if trouble == "hang":
                time.sleep(1.5)
            if trouble == "drop":
                self.close_connection = True
                return None
            answer = spoiled(completion(model, body), trouble)
            return self._send(200, answer)

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Clients that time out close their connection."""

    server = Quiet(("127.0.0.1", 0), Handler)
    served = Served(url=f"http://127.0.0.1:{server.server_address[1]}/v1", model=model, **settings)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def completion(model: Bigram, body: dict[str, Any]) -> dict[str, Any]:
    """The body of an answer, in the dialect that was asked for."""
    prompt = body["prompt"]
    ids = segmented(prompt, model.vocabulary) if isinstance(prompt, str) else list(prompt)
    added = [1] * body.get("max_tokens", 16)
    choice: dict[str, Any] = {"index": 0, "text": "", "finish_reason": "length"}
    if body.get("echo"):
        whole = [*ids, *added]
        named = body.get("return_tokens_as_token_ids", False)
        choice["logprobs"] = {
            "tokens": [f"token_id:{one}" if named else model.vocabulary[one] for one in whole],
            "token_logprobs": model.logprobs(whole),
            "top_logprobs": None,
        }
    if body.get("prompt_logprobs") is not None:
        choice["prompt_logprobs"] = [
            None
            if value is None
            else {str(one): {"logprob": value, "rank": 1, "decoded_token": model.vocabulary[one]}}
            for one, value in zip(ids, model.logprobs(ids), strict=True)
        ]
    usage = {
        "prompt_tokens": len(ids),
        "completion_tokens": len(added),
        "total_tokens": len(ids) + len(added),
    }
    return {"object": "text_completion", "model": "bigram", "choices": [choice], "usage": usage}


def spoiled(answer: dict[str, Any], trouble: str | None) -> bytes:
    """The answer with something wrong with it, as JSON that Python's writer lets through."""
    if trouble in BODIES:
        return BODIES[trouble]
    choice = answer["choices"][0]
    if trouble in VALUES:
        _replace(choice, VALUES[trouble])
    elif trouble in CHANGES:
        CHANGES[trouble](choice)
    return json.dumps(answer).encode()


BODIES = {"not_json": b"<html>gateway</html>", "list": b"[]"}
VALUES = {
    "nan": float("nan"),
    "-inf": float("-inf"),
    "positive": 0.5,
    "null": None,
    "text": "-1",
    "true": True,
    "enormous": -(10**400),
}


def _replace(choice: dict[str, Any], value: object) -> None:
    if choice.get("logprobs"):
        choice["logprobs"]["token_logprobs"][-1] = value
    if choice.get("prompt_logprobs"):
        next(iter(choice["prompt_logprobs"][-1].values()))["logprob"] = value


def _shorten(choice: dict[str, Any]) -> None:
    for column in (choice.get("logprobs") or {}).values():
        if column:
            del column[-1]
    del choice.get("prompt_logprobs", [None])[-1]


def _lengthen(choice: dict[str, Any]) -> None:
    for column in (choice.get("logprobs") or {}).values():
        if column:
            column.append(column[-1])
    if choice.get("prompt_logprobs"):
        choice["prompt_logprobs"].append(choice["prompt_logprobs"][-1])


def _silence(choice: dict[str, Any]) -> None:
    choice.pop("logprobs", None)
    choice.pop("prompt_logprobs", None)


def _blank(choice: dict[str, Any]) -> None:
    choice["prompt_logprobs"][-1] = None


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "short": _shorten,
    "long": _lengthen,
    "nothing": _silence,
    "null_entry": _blank,
    "uneven": lambda choice: choice["logprobs"]["token_logprobs"].pop(),
    "huge": lambda choice: choice.update(padding="x" * 300_000),
}
