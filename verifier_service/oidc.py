"""OpenID Connect: authorization code with PKCE, state and nonce, at one provider (extra ``oidc``).

Sources: OpenID Connect Core 1.0, section 3.1; RFC 7636 (PKCE); RFC 9207 (issuer in the answer). Tokens are
read by joserfc and judged by authlib.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx

from verifier_service.domain.accounts import RoleName
from verifier_service.domain.errors import Forbidden, InvalidInput, SignInRefused, Unavailable
from verifier_service.settings import Settings

if TYPE_CHECKING:
    from joserfc.jwk import KeySetSerialization
    from joserfc.jwt import Token

TIMEOUT_S = 10.0
KEPT_S = 3_600.0
LEEWAY_S = 60
SCOPES = "openid profile email"
# Signatures that only the provider can make: never ``none``, never a shared secret.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a browser keeps between going to the provider and coming back."""

    state: str
    nonce: str
    verifier: str
    next: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody whom the provider vouches for."""

    issuer: str
    subject: str
    login: str
    name: str
    role: RoleName


class OidcProvider:
    """The provider of the settings. Thread-safe; what it publishes is read again every hour."""

    def __init__(self, settings: Settings) -> None:
        self._issuer = settings.oidc_issuer or ""
        self._client_id = settings.oidc_client_id or ""
        self._secret = settings.oidc_client_secret
        self._claim = settings.oidc_role_claim
        self._roles = settings.oidc_roles
        self._published: tuple[float, dict[str, Any], KeySetSerialization] | None = None

    @classmethod
    def of(cls, settings: Settings) -> OidcProvider | None:
        """The provider, if one is set. Raises ``InvalidInput`` for what is missing to use it."""
        if settings.oidc_issuer is None:
            return None
        if find_spec("authlib") is None or find_spec("joserfc") is None:
            message = "single sign-on needs more libraries: pip install 'verifier-service[oidc]'"
            raise InvalidInput("missing_extra", message, field="VERIFIER_OIDC_ISSUER")
        if not settings.oidc_client_id:
            message = "the provider knows this service by a client id: set it"
            raise InvalidInput("missing_setting", message, field="VERIFIER_OIDC_CLIENT_ID")
        if not settings.oidc_roles:
            message = "say which groups have which role, as in 'chemists=reviewer,ops=operator'"
            raise InvalidInput("missing_setting", message, field="VERIFIER_OIDC_ROLES")
        return cls(settings)

    def begin(self, back: str, next: str) -> tuple[str, Attempt]:
        """Where to send the browser, and what it must bring back. Raises ``Unavailable``."""
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        metadata, _ = self._provider()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        attempt = Attempt(state, nonce, verifier, next)
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": back,
            "scope": SCOPES,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": create_s256_code_challenge(attempt.verifier),
            "code_challenge_method": "S256",
        }
        endpoint = str(metadata["authorization_endpoint"])
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", attempt

    def finish(self, answer: Mapping[str, str], attempt: Attempt, back: str) -> Identity:
        """Who it is. Raises ``SignInRefused`` for an answer that is not to this attempt or a token that is
        not good, ``Forbidden`` for somebody without a role here, ``Unavailable``."""
        if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise _refused("the answer belongs to another attempt: sign in again")
        if answer.get("iss", self._issuer) != self._issuer:
            raise _refused("the answer came from another provider")
        if "code" not in answer:
            raise _refused(f"the provider said: {answer.get('error', 'nothing')[:100]}")
        metadata, _ = self._provider()
        tokens = self._exchange(str(metadata["token_endpoint"]), answer["code"], attempt, back)
        return self._identity(self._claims(tokens, attempt.nonce))

    def _exchange(self, endpoint: str, code: str, attempt: Attempt, back: str) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "client_id": self._client_id,
            "code_verifier": attempt.verifier,
        }
        auth = httpx.BasicAuth(self._client_id, self._secret) if self._secret else None
        try:
            response = httpx.post(endpoint, data=form, auth=auth, timeout=TIMEOUT_S)
            tokens = response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise _away() from error
        if response.status_code != httpx.codes.OK or not isinstance(tokens, dict):
            raise _refused("the provider did not take the code: sign in again")
        return tokens

    def _claims(self, tokens: Mapping[str, Any], nonce: str) -> Mapping[str, Any]:
        from authlib.oidc.core import CodeIDToken
        from joserfc.errors import JoseError

        try:
            read = self._read(str(tokens.get("id_token", "")))
            options = {
                "iss": {"essential": True, "value": self._issuer},
                "aud": {"essential": True, "value": self._client_id},
                "nonce": {"essential": True, "value": nonce},
            }
            known = {
                "nonce": nonce,
                "client_id": self._client_id,
                "access_token": tokens.get("access_token"),
            }
            claims = CodeIDToken(read.claims, read.header, options, known)
            claims.validate(leeway=LEEWAY_S)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise _refused("the provider's token is not good: sign in again") from error
        return dict(claims)

    def _read(self, token: str) -> Token:
        """A token with a good signature. A key we do not know may be new: ask the provider again, once."""
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError
        from joserfc.jwk import KeySet

        try:
            return jwt.decode(token, KeySet.import_key_set(self._provider()[1]), list(ALGORITHMS))
        except InvalidKeyIdError:
            self._published = None
            return jwt.decode(token, KeySet.import_key_set(self._provider()[1]), list(ALGORITHMS))

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        held = _at(claims, self._claim)
        listed = held if isinstance(held, list) else [held]
        values = {one for one in listed if isinstance(one, str)}
        role = next((role for value, role in self._roles.items() if value in values), None)
        if role is None:
            raise Forbidden("no_role", "you have no role here: ask an admin which group opens this service")
        subject = str(claims["sub"])
        wished = str(claims.get("preferred_username") or claims.get("email") or subject)
        login = re.sub(r"[^a-z0-9._@+-]+", "-", wished.lower()).strip("._@+-")[:48] or "user"
        name = "".join(char for char in str(claims.get("name") or wished) if char.isprintable())[:100]
        return Identity(self._issuer, subject, login, name or login, role)

    def _provider(self) -> tuple[dict[str, Any], KeySetSerialization]:
        """What the provider publishes about itself, and its keys."""
        if self._published is not None and self._published[0] > time.monotonic():
            return self._published[1:]
        try:
            where = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
            metadata = httpx.get(where, timeout=TIMEOUT_S).raise_for_status().json()
            keys = httpx.get(metadata["jwks_uri"], timeout=TIMEOUT_S).raise_for_status().json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            raise _away() from error
        if metadata.get("issuer") != self._issuer:
            raise _refused("the provider names another issuer than VERIFIER_OIDC_ISSUER")
        self._published = (time.monotonic() + KEPT_S, metadata, keys)
        return metadata, keys


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, or by a path such as ``realm_access.roles``."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for part in path.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _refused(message: str) -> SignInRefused:
    return SignInRefused("oidc_refused", message)


def _away() -> Unavailable:
    return Unavailable("oidc_unavailable", "the sign-on provider does not answer; try again")
