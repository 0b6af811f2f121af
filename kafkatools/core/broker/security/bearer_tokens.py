"""Validation of bearer tokens: signed ones against a JWKS, and for tests those without a signature.

Sources: OAuthBearerUnsecuredValidatorCallbackHandler, BrokerJwtValidator and ClaimValidationUtils of Apache Kafka 4.3.
A client learns only that its token is not valid; the reason is for the broker's log and never contains the token.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from kafkatools.core.broker.security.mechanisms import Bearer, RefusedToken
from kafkatools.core.clock import Clock
from kafkatools.core.errors import ConfigError
from kafkatools.core.json_texts import parse_json
from kafkatools.core.net.security.token_times import milliseconds

_PREFIX = "unsecuredValidator"
Claims = Mapping[str, object]


class Keys(Protocol):
    """Verifies signatures with the keys of an issuer."""

    def verify(self, header: Claims, signed: bytes, signature: bytes) -> None:
        """Check a signature with the key that the header names. Raises RefusedToken."""


def decoded(text: str) -> bytes:
    """Decode base64url without padding. Raises RefusedToken."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise RefusedToken("the token is not base64url") from None


def _members(text: str, part: str) -> Claims:
    try:
        members = parse_json(decoded(text))
    except ValueError:
        members = None
    if not isinstance(members, dict):
        raise RefusedToken(f"the token's {part} not a JSON object")
    return members


def _time_ms(claims: Claims, name: str) -> int | None:
    """A time claim in ms since 1970; None without one. Raises RefusedToken if it is not a number."""
    if claims.get(name) is None:
        return None
    time_ms = milliseconds(claims[name])
    if time_ms is None:
        raise RefusedToken(f"the claim {name} is not a number")
    return time_ms


def _name(claims: Claims, claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not name.strip():
        raise RefusedToken(f"the claim {claim}, the name of the principal, is missing")
    return name


def _check_times(claims: Claims, now_ms: int, skew_ms: int) -> int:
    """Check exp, iat and nbf; returns the expiry in ms since 1970. Raises RefusedToken."""
    expires_ms = _time_ms(claims, "exp")
    if expires_ms is None:
        raise RefusedToken("the claim exp, the end of the token, is missing")
    if now_ms - skew_ms >= expires_ms:
        raise RefusedToken("the token has expired")
    for claim in ("iat", "nbf"):
        begin_ms = _time_ms(claims, claim)
        if begin_ms is not None and begin_ms > now_ms + skew_ms:
            raise RefusedToken(f"the token is not valid yet ({claim})")
    return expires_ms


def _scope(claims: Claims, claim: str) -> set[str]:
    value = claims.get(claim)
    if isinstance(value, str):
        return set(value.split())
    return {str(item) for item in value} if isinstance(value, list) else set()


def unsecured_validator(options: Mapping[str, str], clock: Clock) -> Callable[[str], Bearer]:
    """A validator of tokens without a signature, with the options of the listener's login module. Raises
    ConfigError."""
    claim = options.get(f"{_PREFIX}PrincipalClaimName") or "sub"
    scope_claim = options.get(f"{_PREFIX}ScopeClaimName") or "scope"
    required = (options.get(f"{_PREFIX}RequiredScope") or "").split()
    skew = options.get(f"{_PREFIX}AllowableClockSkewMs") or "0"
    if not (skew.isascii() and skew.isdigit()):
        raise ConfigError(f"{_PREFIX}AllowableClockSkewMs is {skew}, not a number of milliseconds")

    def validate(token: str) -> Bearer:
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise RefusedToken("the token is not one without a signature (three parts, the last one empty)")
        if _members(parts[0], "header is").get("alg") != "none":
            raise RefusedToken("the token's algorithm is not none")
        claims = _members(parts[1], "claims are")
        name = _name(claims, claim)
        expires_ms = _check_times(claims, clock.wall_ms(), int(skew))
        if not set(required) <= _scope(claims, scope_claim):
            raise RefusedToken("the token lacks a required scope", "insufficient_scope", " ".join(required))
        return Bearer(name, expires_ms)

    return validate


class SignedTokenRules(NamedTuple):
    """The sasl.oauthbearer.* settings of a listener: accepted audiences (none: any), the issuer (None: any), the
    forgiven difference of clocks in ms, and the claim with the principal's name."""

    audiences: tuple[str, ...]
    issuer: str | None
    skew_ms: int
    sub_claim: str


def signed_validator(keys: Keys, rules: SignedTokenRules, clock: Clock) -> Callable[[str], Bearer]:
    """A validator of signed tokens (JWS) with the keys of their issuer."""

    def validate(token: str) -> Bearer:
        parts = token.split(".")
        if len(parts) != 3:
            raise RefusedToken("the token is not a signed JWT (three parts)")
        header, claims = _members(parts[0], "header is"), _members(parts[1], "claims are")
        keys.verify(header, f"{parts[0]}.{parts[1]}".encode(), decoded(parts[2]))
        expires_ms = _check_times(claims, clock.wall_ms(), rules.skew_ms)
        if claims.get("iat") is None:
            raise RefusedToken("the claim iat, the time of issue, is missing")
        if rules.issuer is not None and claims.get("iss") != rules.issuer:
            raise RefusedToken("the token's issuer is not sasl.oauthbearer.expected.issuer")
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if rules.audiences and not set(rules.audiences) & {str(item) for item in audiences}:
            raise RefusedToken("the token's audience is none of sasl.oauthbearer.expected.audience")
        return Bearer(_name(claims, rules.sub_claim), expires_ms)

    return validate
