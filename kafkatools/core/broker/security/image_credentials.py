"""The credentials of clients in a metadata image, for SASL."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

from kafkatools.core.broker.metadata.controller.delegation_tokens import token_hmac
from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.broker.security.mechanisms import HASHES, MIN_ITERATIONS, Credential, TokenCredential
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config, Password

_MOST_KEPT = 1000


class ImageCredentials:
    """The SCRAM credentials and delegation tokens of a metadata image as mechanisms use them (`Credentials`)."""

    def __init__(self, image: MetadataImage, clock: Clock, config: Config) -> None:
        self._image, self._clock, self._config = image, clock, config
        self._kept: dict[tuple[str, str], Credential] = {}

    def scram(self, mechanism: str, user: str) -> Credential | None:
        """A user's credential of a SCRAM mechanism; None without one."""
        record = self._image.scram.by_user.get(user, {}).get(HASHES[mechanism][0])
        if record is None:
            return None
        return Credential(bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations)

    def token(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """A delegation token that has not expired; None for any other id, and without delegation.token.secret.key."""
        record, key = self._image.delegation_tokens.get(token_id), self._config["delegation.token.secret.key"]
        if record is None or not isinstance(key, Password) or record.expiration_timestamp <= self._clock.wall_ms():
            return None
        credential = self._kept.get((mechanism, token_id))
        if credential is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            password = base64.b64encode(token_hmac(key.value.encode(), token_id))
            credential = self._kept[mechanism, token_id] = _credential(HASHES[mechanism][1], password)
        return TokenCredential(str(record.owner).partition(":")[2], credential, record.expiration_timestamp)


def _credential(digest: str, password: bytes) -> Credential:
    """The SCRAM credential of a password with a random salt (RFC 5802)."""
    salt = os.urandom(20)
    salted = hashlib.pbkdf2_hmac(digest, password, salt, MIN_ITERATIONS)
    stored_key = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    return Credential(salt, stored_key, hmac.digest(salted, b"Server Key", digest), MIN_ITERATIONS)
