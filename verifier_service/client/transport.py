"""What both transports share: the HTTP settings, and how httpx's failures are read."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

from verifier_service.client.calls import Answer, Call, Lost
from verifier_service.client.errors import UnexpectedAnswer
from verifier_service.client.location import Location

CONNECT_S = 10.0
TROUBLE = (httpx.TransportError, httpx.DecodingError)
OURS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
UNDELIVERED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


def settings(location: Location, connections: int) -> dict[str, Any]:
    """Keyword arguments of ``httpx.Client`` and ``httpx.AsyncClient``."""
    headers = {"Accept": "application/json"}
    if location.key is not None:
        headers["Authorization"] = f"Bearer {location.key}"
    return {
        "base_url": location.url,
        "headers": headers,
        "limits": httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        "trust_env": not location.loopback,
        "verify": _tls(location),
    }


def _tls(location: Location) -> ssl.SSLContext:
    """Reading the certificates of the machine takes longer than a request: nothing is read for plain HTTP
    on this machine, where no proxy can turn it into anything else."""
    if location.loopback and location.url.startswith("http:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.create_ssl_context()


def request(call: Call[Any], timeout_s: float) -> dict[str, Any]:
    """Keyword arguments of ``request``. Waiting for a connection of our own pool has no limit: a burst
    of calls is not the server's fault."""
    return {
        "method": call.method,
        "url": call.path,
        "params": dict(call.params) or None,
        "content": call.body,
        "headers": {
            **call.headers,
            **({"Content-Type": "application/json"} if call.body is not None else {}),
        },
        "timeout": httpx.Timeout(timeout_s, connect=CONNECT_S, read=timeout_s + call.wait_s, pool=None),
    }


def answer(response: httpx.Response) -> Answer:
    """What the plans need of a response."""
    return Answer(
        status=response.status_code,
        content=response.content,
        retry_after=response.headers.get("Retry-After"),
    )


def lost(error: httpx.TransportError | httpx.DecodingError) -> Lost:
    """A failure of the connection (``TROUBLE``) as a value; a mistake of our own is raised. Raises
    ``UnexpectedAnswer`` for a body that is not in the encoding it claims."""
    if isinstance(error, OURS):
        raise error
    if isinstance(error, httpx.DecodingError):
        raise UnexpectedAnswer(f"the answer cannot be decoded: {error}") from error
    text = str(error) or type(error).__name__
    return Lost(cause=text, delivered=not isinstance(error, UNDELIVERED))
