"""A small OpenID Connect provider over HTTP, for tests: it signs what the test says it should."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "verifier", "of the client"


@dataclass
class Provider:
    """What it was asked and what it answers. ``claims`` go over those of a good token."""

    url: str = ""
    key: RSAKey = field(default_factory=lambda: _new_key("first"))
    claims: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "RS256"
    issuer: str | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def authorize(self, where: str) -> dict[str, str]:
        """What a browser brings back that was sent to ``where`` and signed in there."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(where).query).items()}
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        return {"code": code, "state": asked["state"]}

    def renew_key(self) -> None:
        """Sign with another key from now on."""
        self.key = _new_key(secrets.token_hex(4))

    def document(self, path: str) -> dict[str, Any] | None:
        """What it publishes."""
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.issuer or self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
            }
        return {"keys": [self.key.as_dict(private=False)]} if path == "/keys" else None

    def tokens(self, form: dict[str, str], auth: str) -> dict[str, Any] | None:
        """The answer to a code, used once, with its verifier and the client's secret."""
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or auth != "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode():
            return None
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (challenge, form["redirect_uri"]) != (asked["code_challenge"], asked["redirect_uri"]):
            return None
        now = int(time.time())
        good = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims = {name: value for name, value in {**good, **self.claims}.items() if value is not None}
        return {"access_token": "x", "token_type": "Bearer", "id_token": self._sign(claims)}

    def _sign(self, claims: dict[str, Any]) -> str:
        header = {"alg": self.algorithm, "kid": self.key.kid}
        if self.algorithm == "RS256":
            return jwt.encode(header, claims, self.key)
        # What libraries would not sign: nothing at all, or the public key as a shared secret.
        message = b".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
        public = self.key.as_pem(private=False)
        signature = b"" if self.algorithm == "none" else hmac.digest(public, message, "sha256")
        return (message + b"." + _encoded(signature)).decode()


@contextmanager
def running() -> Iterator[Provider]:
    """A provider that listens."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(provider.document(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._send(provider.tokens(form, self.headers.get("Authorization", "")))

        def _send(self, document: dict[str, Any] | None) -> None:
            self.send_response(400 if document is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(document or {"error": "invalid_grant"}).encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _encoded(value: bytes) -> bytes:
    return base64.urlsafe_b64encode(value).rstrip(b"=")


def _new_key(name: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": name, "use": "sig"})
