"""Which bearer tokens a broker refuses, and with which reason: without signatures, and signed ones."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.broker.security.bearer_tokens import SignedTokenRules, signed_validator, unsecured_validator
from kafkatools.core.broker.security.mechanisms import Bearer, RefusedToken
from kafkatools.core.errors import ConfigError
from kafkatools.core.net.security.tokens import token_of

NOW_S = 1_000
CLAIMS = {"sub": "alice", "exp": NOW_S + 10, "iat": NOW_S - 10, "scope": ["read", "write"]}


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock()
    clock.set_wall_ms(NOW_S * 1000)
    return clock


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def part(members: object) -> str:
    return encoded(json.dumps(members).encode())


def unsecured(**changed: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changed}.items() if value is not None}
    return f"{part({'alg': 'none'})}.{part(claims)}."


NESTED = encoded(b"[" * 100_000)
INVALID_TOKENS = [
    ("", "the token is not one without a signature"),
    (f"{unsecured()}c2ln", "the token is not one without a signature"),
    (f"{part({'alg': 'HS256'})}.{part(CLAIMS)}.", "the token's algorithm is not none"),
    (f"{part([])}.{part(CLAIMS)}.", "the token's header is not a JSON object"),
    (f"{part({'alg': 'none'})}.{part(7)}.", "the token's claims are not a JSON object"),
    (f"{part({'alg': 'none'})}.{NESTED}.", "the token's claims are not a JSON object"),
    (f"{NESTED}.{part(CLAIMS)}.", "the token's header is not a JSON object"),
    (f"{part({'alg': 'none'})}.{encoded(b'{')}.", "the token's claims are not a JSON object"),
    (f"{part({'alg': 'none'})}.*.", "the token is not base64url"),
    (f"{part({'alg': 'none'})}.\u00e4.", "the token is not base64url"),
    (unsecured(exp=None), "the claim exp, the end of the token, is missing"),
    (unsecured(exp="2000"), "the claim exp is not a number"),
    (unsecured(exp=True), "the claim exp is not a number"),
    (unsecured(exp=float("inf")), "the claim exp is not a number"),
    (unsecured(exp=1 << 53), "the claim exp is not a number"),
    (unsecured(exp=NOW_S), "the token has expired"),
    (unsecured(iat=NOW_S + 1), r"the token is not valid yet \(iat\)"),
    (unsecured(nbf=NOW_S + 1), r"the token is not valid yet \(nbf\)"),
    (unsecured(sub=None), "the claim sub, the name of the principal, is missing"),
    (unsecured(sub=" "), "the claim sub, the name of the principal, is missing"),
    (unsecured(scope=["read"]), "the token lacks a required scope"),
    (unsecured(scope=None), "the token lacks a required scope"),
]


@pytest.mark.parametrize(("token", "reason"), INVALID_TOKENS, ids=map(str, range(len(INVALID_TOKENS))))
def test_an_invalid_token_is_refused_with_its_reason(clock: ManualClock, token: str, reason: str) -> None:
    validate = unsecured_validator({"unsecuredValidatorRequiredScope": "read write"}, clock)
    assert validate(unsecured()) == Bearer("alice", (NOW_S + 10) * 1000)
    with pytest.raises(RefusedToken, match=f"^{reason}"):
        validate(token)


def test_the_latest_expiry_is_that_of_a_client(clock: ManualClock) -> None:
    latest_s = (1 << 53) - 1
    expires_ms = unsecured_validator({}, clock)(unsecured(exp=latest_s)).expires_ms
    assert expires_ms == latest_s * 1000 == token_of(unsecured(exp=latest_s), 0).expires_ms
    assert token_of(unsecured(exp=latest_s + 1), 0).expires_ms is None


def test_clocks_may_differ_by_the_allowed_skew(clock: ManualClock) -> None:
    validate = unsecured_validator({"unsecuredValidatorAllowableClockSkewMs": "5000"}, clock)
    for name, first_refused in (("exp", NOW_S - 5), ("iat", NOW_S + 6), ("nbf", NOW_S + 6)):
        step = 1 if name == "exp" else -1
        assert validate(unsecured(**{name: first_refused + step})).name == "alice"
        with pytest.raises(RefusedToken):
            validate(unsecured(**{name: first_refused}))
    with pytest.raises(ConfigError, match="AllowableClockSkewMs is -1, not a number of milliseconds"):
        unsecured_validator({"unsecuredValidatorAllowableClockSkewMs": "-1"}, clock)


class _AnyKey:
    """Takes every signature."""

    def verify(self, header: object, signed: bytes, signature: bytes) -> None:
        pass


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"iat": None}, "the claim iat, the time of issue, is missing"),
        ({"iss": "other"}, "the token's issuer is not sasl.oauthbearer.expected.issuer"),
        ({"iss": None}, "the token's issuer is not sasl.oauthbearer.expected.issuer"),
        ({"aud": "other"}, "the token's audience is none of sasl.oauthbearer.expected.audience"),
        ({"aud": None}, "the token's audience is none of sasl.oauthbearer.expected.audience"),
        ({"user": 7}, "the claim user, the name of the principal, is missing"),
        ({"exp": NOW_S}, "the token has expired"),
    ],
)
def test_a_signed_token_of_another_issuer_or_audience_is_refused(
    clock: ManualClock, changed: dict[str, Any], reason: str
) -> None:
    validate = signed_validator(_AnyKey(), SignedTokenRules(("kafka", "mine"), "issuer", 0, "user"), clock)
    claims = {"user": "bob", "exp": NOW_S + 10, "iat": NOW_S, "iss": "issuer", "aud": ["x", "mine"]}
    assert validate(f"{part({'alg': 'x'})}.{part(claims)}.c2ln") == Bearer("bob", (NOW_S + 10) * 1000)
    kept = {name: value for name, value in {**claims, **changed}.items() if value is not None}
    with pytest.raises(RefusedToken, match=f"^{reason}"):
        validate(f"{part({'alg': 'x'})}.{part(kept)}.c2ln")
    with pytest.raises(RefusedToken, match="the token is not a signed JWT"):
        validate("a.b")
