"""Tokens from a command, an endpoint, a file, and when they are fetched anew."""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.manual_clock import ManualClock
from support.token_endpoint import TokenEndpoint

from kafkatools.core import config as tables
from kafkatools.core.config import Config
from kafkatools.core.errors import AuthenticationFailed, ConfigError
from kafkatools.core.net.security.login import TokenLogin, login_of
from kafkatools.core.net.security.tokens import Token, command_source, file_source, token_of, unsecured_source


def jwt(**claims: Any) -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "x"}, claims)
    ]
    return ".".join([*parts, "c2ln"])


def printing(text: str, status: int = 0, error: str = "") -> str:
    program = f"import sys; print({text!r}); print({error!r}, file=sys.stderr); sys.exit({status})"
    return f'{sys.executable} -c "{program}"'


@pytest.mark.parametrize(
    ("printed", "token"),
    [
        (" opaque-token ", Token("opaque-token", None)),
        (jwt(exp=1_700_000_000), Token(jwt(exp=1_700_000_000), 1_700_000_000_000)),
        ("{'access_token': 'abc', 'expires_in': 60}", Token("abc", 65_000)),
    ],
)
def test_token_of_a_command(printed: str, token: Token) -> None:
    clock = ManualClock()
    clock.set_wall_ms(5_000)
    text = printed.replace("'", '\\"') if printed.startswith("{") else printed
    assert command_source(printing(text).replace("\\\\", "\\"), None, clock)() == token


def test_json_of_a_command_that_is_nested_too_deeply_is_no_token(tmp_path: Path) -> None:
    content = tmp_path / "token"
    content.write_text('{"access_token":' + "[" * 99_999)
    with pytest.raises(AuthenticationFailed, match="the token command cat printed no token"):
        command_source(f"cat {content}", None, ManualClock())()


def test_claims_that_are_nested_too_deeply_are_those_of_an_opaque_token() -> None:
    nested = base64.urlsafe_b64encode(b"[" * 99_999).decode()
    assert token_of(f"a.{nested}.b", 5_000).expires_ms is None


@pytest.mark.parametrize(
    "number", [float("inf"), float("nan"), -float("inf"), pytest.param(10**400, id="large"), True, "60", None]
)
def test_an_expiry_that_is_no_number_of_seconds_is_unknown(number: object) -> None:
    assert token_of(jwt(exp=number), 5_000).expires_ms is None
    assert token_of("abc", 5_000, number).expires_ms is None
    assert token_of(jwt(exp=9), 5_000, number).expires_ms == 9_000


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (printing("canary token"), "printed no token"),
        (printing("canary", 3, "no credentials"), "ended with 3: no credentials"),
        ("/no/such/program --secret canary", "/no/such/program could not be run: No such file"),
        (f"{sys.executable} -c 'import time; time.sleep(60)'", "did not end within 0.2 s"),
    ],
)
def test_command_that_fails(command: str, message: str) -> None:
    with pytest.raises(AuthenticationFailed, match=message) as caught:
        command_source(command, 200 if "sleep" in command else None, ManualClock())()
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("command", ["", "'unclosed"])
def test_command_that_is_none(command: str) -> None:
    with pytest.raises(ConfigError):
        command_source(command, None, ManualClock())


def test_token_of_a_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "token"
    source = file_source(str(path), ManualClock())
    with pytest.raises(AuthenticationFailed, match="No such file"):
        source()
    for token in ("one", "two"):
        path.write_text(token + "\n")
        assert source().value == token


def test_token_is_in_no_repr() -> None:
    assert "canary" not in repr(token_of("canary", 0))


def test_unsecured_claims_of_all_kinds() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginNumberClaim_level": "3",
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginLifetimeSeconds": "60",
    }
    clock = ManualClock()
    clock.set_wall_ms(1_000_000)
    token = unsecured_source(options, clock)()
    claims = json.loads(base64.urlsafe_b64decode(token.value.split(".")[1] + "=="))
    assert claims == {"iat": 1000.0, "exp": 1060.0, "sub": "alice", "level": 3.0, "scope": ["a", "b"]}
    assert token.expires_ms == 1_060_000


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as made:
        yield made


def credentials(url: str, **more: str) -> Config:
    jaas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    return Config(
        tables.ADMIN,
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f'{jaas} clientId="me:1" clientSecret="s3cret-canary" scope="read write";',
            "sasl.oauthbearer.token.endpoint.url": url,
            **{name.replace("_", "."): value for name, value in more.items()},
        },
    )


def fetch(config: Config, clock: ManualClock) -> bytes:
    done = threading.Event()
    login = login_of(config, clock, done.set)
    assert not login.is_ready("host")
    assert done.wait(20)
    assert login.is_ready("host")
    return login.start("host").initial()


def test_token_by_client_credentials(endpoint: TokenEndpoint) -> None:
    endpoint.answers += [(503, {}), (200, {"access_token": "abc.def.ghi", "expires_in": 300})]
    assert fetch(credentials(endpoint.url), ManualClock()) == b"n,,\x01auth=Bearer abc.def.ghi\x01\x01"
    path, headers, body = endpoint.requests[1]
    assert path == "/oauth/token?tenant=1"
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"me:1:s3cret-canary").decode()
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert body == "grant_type=client_credentials&scope=read+write"


def test_header_may_be_url_encoded(endpoint: TokenEndpoint) -> None:
    endpoint.answers.append((200, {"access_token": "abc"}))
    fetch(credentials(endpoint.url, sasl_oauthbearer_header_urlencode="true"), ManualClock())
    assert base64.b64decode(endpoint.requests[0][1]["Authorization"].split()[1]) == b"me%3A1:s3cret-canary"


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (401, {"error": "invalid_client", "error_description": "who?"}, r"status 401 \(invalid_client: who\?\)"),
        (302, {}, "status 302"),
        (200, {"token": 1}, "its response has no access_token"),
        (200, {"access_token": "two words"}, "its response has no access_token"),
    ],
)
def test_endpoint_that_gives_no_token(endpoint: TokenEndpoint, status: int, answer: Any, message: str) -> None:
    endpoint.answers.append((status, answer))
    with pytest.raises(AuthenticationFailed, match=message) as caught:
        fetch(credentials(endpoint.url), ManualClock())
    assert "canary" not in str(caught.value)
    assert len(endpoint.requests) == 1


def test_endpoint_that_is_down_is_given_up() -> None:
    config = credentials("http://127.0.0.1:1/token", sasl_login_retry_backoff_max_ms="500")
    with pytest.raises(AuthenticationFailed, match="no token from http://127.0.0.1:1/token: Connection refused"):
        fetch(config, ManualClock())


def test_url_of_another_kind() -> None:
    with pytest.raises(ConfigError, match="must be http://HOST"):
        login_of(credentials("ftp://example.org/token"), ManualClock(), lambda: None)


class Refreshing:
    """A login whose fetches are counted and waited for."""

    def __init__(self, lifetime_ms: int | None) -> None:
        self.clock = ManualClock()
        self.count = 0
        self.error: AuthenticationFailed | None = None
        self.lifetime_ms = lifetime_ms
        self._done = threading.Semaphore(0)
        self.login = TokenLogin(self._fetch, {}, self.clock, self._done.release)

    def _fetch(self) -> Token:
        self.count += 1
        if self.error is not None:
            raise self.error
        end = None if self.lifetime_ms is None else self.clock.wall_ms() + self.lifetime_ms
        return Token(f"t{self.count}", end)

    def token(self) -> bytes:
        if not self.login.is_ready("host"):
            assert self._done.acquire(timeout=20)
            assert self.login.is_ready("host")
        return self.login.start("host").initial()[16:18]


def test_token_is_kept_for_the_larger_part_of_its_life() -> None:
    it = Refreshing(100_000)
    assert it.token() == b"t1"
    it.clock.advance_ms(79_000)
    assert it.token() == b"t1"
    it.clock.advance_ms(2_000)
    assert it.token() == b"t2"


def test_token_without_an_end_is_kept_a_minute() -> None:
    it = Refreshing(None)
    assert it.token() == b"t1"
    it.clock.advance_ms(59_000)
    assert it.token() == b"t1"
    it.clock.advance_ms(2_000)
    assert it.token() == b"t2"


def test_token_that_cannot_be_renewed_is_used_to_its_end() -> None:
    it = Refreshing(100_000)
    it.token()
    it.error = AuthenticationFailed("down")
    it.clock.advance_ms(85_000)
    assert it.token() == b"t1"
    it.clock.advance_ms(15_001)
    with pytest.raises(AuthenticationFailed, match="down"):
        it.token()


def test_failure_that_no_connection_was_told_of_does_not_count_later() -> None:
    it = Refreshing(100_000)
    it.error = AuthenticationFailed("down")
    assert not it.login.is_ready("host")
    assert it._done.acquire(timeout=20)
    it.error = None
    it.clock.advance_ms(31_000)
    assert it.token() == b"t2"
