"""Sources of OAUTHBEARER tokens: a command, a file, or an unsecured token made in this process.

A source is a blocking callable that runs on a separate thread (`login.py`). Its errors contain neither the token, nor
the client secret, nor a command's stdout.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.errors import AuthenticationFailed, ConfigError
from kafkatools.core.json_texts import parse_json
from kafkatools.core.net.security.token_times import milliseconds
from kafkatools.core.secrets import redacted, remember

# The characters that Kafka's OAuthBearerClientInitialResponse accepts.
_TOKEN = re.compile(r"[-_.~+/=a-zA-Z0-9]+")
_COMMAND_TIMEOUT_MS = 30_000
_STRING, _NUMBER, _LIST = (f"unsecuredLogin{kind}Claim_" for kind in ("String", "Number", "List"))


class Token(NamedTuple):
    """A bearer token and its expiry in milliseconds since 1970; None if the expiry is unknown."""

    value: str
    expires_ms: int | None

    def __repr__(self) -> str:
        return f"Token([hidden], expires_ms={self.expires_ms})"


TokenSource = Callable[[], Token]


def token_of(value: object, now_ms: int, lifetime_s: object = None) -> Token:
    """Make a Token from its text; the expiry is `lifetime_s` from now, else the token's own `exp` claim. Raises
    AuthenticationFailed when the text is not a token."""
    checked = checked_token(Token(value if isinstance(value, str) else "", None))
    lifetime_ms = milliseconds(lifetime_s)
    return checked._replace(expires_ms=_expiry_ms(checked.value) if lifetime_ms is None else now_ms + lifetime_ms)


def checked_token(token: Token) -> Token:
    """Return a token whose text can be one, which messages hide from then on. Raises AuthenticationFailed."""
    remember(token.value)
    if not _TOKEN.fullmatch(token.value):
        raise AuthenticationFailed(
            "an OAuth bearer token has at least one character, and only letters, digits and -_.~+/="
        )
    return token


def _expiry_ms(token: str) -> int | None:
    """The `exp` claim of a JSON Web Token in milliseconds; None without one or for any other token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = parse_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    return milliseconds(claims.get("exp")) if isinstance(claims, dict) else None


def command_source(command: str, timeout_ms: int | None, clock: Clock) -> TokenSource:
    """A token source that runs a command. Its stdout is the token or a JSON object with it. Members of the object:
    access_token, token or id_token, and expires_in in seconds. The command runs without a shell. Raises ConfigError for
    an invalid command; the source raises AuthenticationFailed."""
    try:
        arguments = shlex.split(command)
    except ValueError as problem:
        raise ConfigError(f"sasl.oauthbearer.token.command cannot be read: {problem}") from None
    if not arguments:
        raise ConfigError("sasl.oauthbearer.token.command is empty")
    limit_s = (timeout_ms or _COMMAND_TIMEOUT_MS) / 1000

    def fetch() -> Token:
        try:
            process = subprocess.run(
                arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise AuthenticationFailed(f"the token command {arguments[0]} did not end within {limit_s:g} s") from None
        except OSError as problem:
            raise AuthenticationFailed(
                f"the token command {arguments[0]} could not be run: {problem.strerror or problem}"
            ) from None
        if process.returncode:
            stderr_lines = process.stderr.decode(errors="replace").strip().splitlines()
            reason = f": {redacted(stderr_lines[-1])[:200]}" if stderr_lines else ""
            raise AuthenticationFailed(f"the token command {arguments[0]} ended with {process.returncode}{reason}")
        try:
            return _token_in(process.stdout.decode(errors="replace").strip(), clock.wall_ms())
        except AuthenticationFailed:
            raise AuthenticationFailed(f"the token command {arguments[0]} printed no token") from None

    return fetch


def _token_in(text: str, now_ms: int) -> Token:
    if not text.startswith("{"):
        return token_of(text, now_ms)
    try:
        content = parse_json(text)
    except ValueError:
        raise AuthenticationFailed("not JSON") from None
    names = ("access_token", "token", "id_token")
    return token_of(
        next((content[name] for name in names if content.get(name)), None), now_ms, content.get("expires_in")
    )


def file_source(path: str, clock: Clock) -> TokenSource:
    """A token source that reads a file again for each token (FileJwtRetriever). The source raises
    AuthenticationFailed."""

    def fetch() -> Token:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read().strip()
        except OSError as problem:
            raise AuthenticationFailed(f"the token file {path}: {problem.strerror or problem}") from None
        try:
            return token_of(text, clock.wall_ms())
        except AuthenticationFailed:
            raise AuthenticationFailed(f"the token file {path} holds no token") from None

    return fetch


def unsecured_source(options: Mapping[str, str], clock: Clock) -> TokenSource:
    """A source of tokens without a signature, for tests (OAuthBearerUnsecuredLoginCallbackHandler). Raises
    ConfigError."""
    claims: dict[str, object] = {}
    for name, value in options.items():
        if name.startswith(_STRING):
            claims[name.removeprefix(_STRING)] = value
        elif name.startswith(_NUMBER):
            claims[name.removeprefix(_NUMBER)] = _number(name, value)
        elif name.startswith(_LIST):
            claims[name.removeprefix(_LIST)] = value[1:].split(value[0]) if value else []
    lifetime_s = _number("unsecuredLoginLifetimeSeconds", options.get("unsecuredLoginLifetimeSeconds", "3600"))
    principal = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if not claims.get(principal):
        raise ConfigError(
            f"An unsecured token needs its subject: unsecuredLoginStringClaim_{principal} in sasl.jaas.config"
        )

    def fetch() -> Token:
        issued_s = clock.wall_ms() / 1000
        content = {"iat": issued_s, "exp": issued_s + lifetime_s, **claims}
        text = ".".join((_encoded({"alg": "none"}), _encoded(content), ""))
        return Token(text, int((issued_s + lifetime_s) * 1000))

    return fetch


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ConfigError(f"{name} in sasl.jaas.config is not a number") from None


def _encoded(value: Mapping[str, object]) -> str:
    text = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")
