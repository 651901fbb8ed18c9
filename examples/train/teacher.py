"""A teacher behind an OpenAI-compatible endpoint: a policy of ours that says how likely it finds a text.

``POST /v1/completions`` with a prompt of token ids, ``echo`` and ``logprobs``; nothing is generated.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

from examples.train.policy import Policy, padded

MAX_BODY = 1_000_000
MAX_PROMPT = 64
MODEL = "teacher"


@contextmanager
def serving(policy: Policy) -> Iterator[str]:
    """Serve ``policy`` on a free port of this machine; yields the address that ends in ``/v1``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(policy))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def completion(policy: Policy, request: Any) -> dict[str, Any]:
    """The answer to one request. Raises ``ValueError`` naming what is wrong with it."""
    if not isinstance(request, dict):
        raise ValueError("the body must be an object")
    prompt = request.get("prompt")
    if not isinstance(prompt, list) or not 2 <= len(prompt) <= MAX_PROMPT:
        raise ValueError(f"prompt must be 2 to {MAX_PROMPT} token ids")
    first, words = 1, policy.vocabulary.first_hint
    if not all(type(token) is int and 1 <= token < words for token in prompt) or prompt[0] != first:
        raise ValueError(f"prompt must begin with token {first}, and hold tokens below {words}")
    if not request.get("echo") or request.get("max_tokens") != 0:
        raise ValueError("only echo with max_tokens 0 is served")
    tokens, _ = padded([prompt[1:]])
    with torch.no_grad():
        found = policy.logprobs(tokens)[0].tolist()
    logprobs = {"tokens": [f"token_id:{token}" for token in prompt], "token_logprobs": [None, *found]}
    usage = {"prompt_tokens": len(prompt), "completion_tokens": 0, "total_tokens": len(prompt)}
    choice = {"index": 0, "text": "", "finish_reason": "length", "logprobs": logprobs}
    return {"object": "text_completion", "model": MODEL, "choices": [choice], "usage": usage}


def _handler(policy: Policy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            try:
                size = int(self.headers.get("Content-Length", ""))
                if not 0 <= size <= MAX_BODY:
                    raise ValueError(f"Content-Length must be at most {MAX_BODY}")
            except ValueError as error:
                self.close_connection = True
                return self._answer(413, {"error": {"message": str(error)}})
            body = self.rfile.read(size)
            if self.path != "/v1/completions":
                return self._answer(404, {"error": {"message": "POST /v1/completions"}})
            try:
                self._answer(200, completion(policy, json.loads(body)))
            except (ValueError, RecursionError) as error:
                self._answer(400, {"error": {"message": str(error)}})

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """No line a request."""

    return Handler
