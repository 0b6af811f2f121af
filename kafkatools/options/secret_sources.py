"""Options whose value names the place of a secret, since other users see the command line of a process."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.exit_status import CommandError, UsageError


def read_secret(environ: Mapping[str, str], option: str, source: str, what: str) -> bytes:
    """Return the secret of `file:PATH` (without line ends at its end) or `env:NAME`. `what` names the secret in the
    error. Raises UsageError, and CommandError for an unreadable file."""
    kind, _, place = source.partition(":")
    if kind == "env" and place:
        secret = environ.get(place, "").encode("utf-8", "surrogateescape")
        if not secret:
            raise UsageError(f"{option}: the environment variable {place} is not set")
        return secret
    if kind in ("file", "env") and not place:
        raise UsageError(f"{option}: '{source}' names no {'file' if kind == 'file' else 'variable'}")
    if kind != "file":
        raise UsageError(
            f"{option} takes file:PATH or env:NAME; a {what} on the command line would be visible to other users"
        )
    try:
        with open(place, "rb") as file:
            secret = file.read().rstrip(b"\r\n")
    except OSError as error:
        raise CommandError(f"{option}: {place} cannot be read: {error.strerror}") from None
    if not secret:
        raise UsageError(f"{option}: {place} is empty")
    return secret
