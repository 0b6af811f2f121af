"""The tokens of the HTTP server of kt monitor, and the roles that they prove.

Rules: a request proves its role by a token: in an Authorization header, in the cookie that the page's address sets, or,
for the page alone, in its address. A token of the role `read` also allows what `view` allows. Without --role read there
is no token for records. Tokens are compared in constant time, and no response contains one, except the cookie that the
page's address sets.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from enum import IntEnum, unique
from typing import NamedTuple

from kafkatools.exit_status import UsageError
from kafkatools.options import Args
from kafkatools.options.secret_sources import read_secret

_TOKEN_BYTES = 24
_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,512}")


@unique
class Role(IntEnum):
    """The rights of a token: VIEW for the figures of the cluster, READ for records as well."""

    VIEW = 1
    READ = 2


ROLES = {"view": Role.VIEW, "read": Role.READ}
"""The values of --role."""


class Token(NamedTuple):
    """A token. `is_ours`: made for this run, so it is printed; those of options are not."""

    text: str
    is_ours: bool

    def query(self) -> str:
        """Return the query of the page's address."""
        return f"?token={self.text}" if self.is_ours else ""


class Access(NamedTuple):
    """The token of each role. `has_open_metrics`: /metrics needs none."""

    tokens: Mapping[Role, Token]
    has_open_metrics: bool = False

    def role_of(self, candidates: Iterable[str]) -> Role | None:
        """Return the highest role of these texts, None if none of them is a token."""
        found = None
        for text in candidates:
            for role, token in sorted(self.tokens.items()):
                if hmac.compare_digest(text.encode(), token.text.encode()) and (found is None or role > found):
                    found = role
        return found


def read_access(args: Args, environ: Mapping[str, str]) -> Access:
    """Return the tokens that the options request: random ones, or those of --view-token and --read-token. Raises
    UsageError, and CommandError for an unreadable file."""
    role = args.role if args.role is not None else "view" if args.read_token is None else "read"
    if role not in ROLES:
        raise UsageError(f"--role may be {' or '.join(ROLES)}, not '{role}'")
    if role == "view" and args.read_token is not None:
        raise UsageError("--read-token needs --role read")
    tokens = {Role.VIEW: _token(environ, "--view-token", args.view_token)}
    if role == "read":
        tokens[Role.READ] = _token(environ, "--read-token", args.read_token)
        if tokens[Role.READ].text == tokens[Role.VIEW].text:
            raise UsageError(
                "--view-token and --read-token are the same: everybody who sees figures could read records"
            )
    return Access(tokens, bool(args.open_metrics))


def _token(environ: Mapping[str, str], option: str, source: str | None) -> Token:
    if source is None:
        return Token(secrets.token_urlsafe(_TOKEN_BYTES), is_ours=True)
    text = read_secret(environ, option, source, "token").decode("utf-8", "replace")
    if _TOKEN.fullmatch(text) is None:
        raise UsageError(
            f"{option}: a token has 16 to 512 characters: ASCII letters, digits, '.', '_', '~' and '-'; "
            "openssl rand -hex 24 makes one"
        )
    return Token(text, is_ours=False)
