"""A stand-in for the controller that refuses every change: no controller accepted the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from kafkatools.core.broker.metadata.broker_settings import BrokerSettings
from kafkatools.core.broker.metadata.controller import acls, topics
from kafkatools.core.broker.metadata.image import MetadataImage, TopicState
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaError


class RefusedChanges:
    """Refuses every change with one error, each in the form of its API."""

    def __init__(self, image: MetadataImage, settings: BrokerSettings, error: KafkaError) -> None:
        self.image, self.settings = image, settings
        self._error = error

    @property
    def effective_config(self) -> Config:
        """The broker's settings."""
        return self.settings.effective()

    def create_topics(
        self, wanted: Sequence[topics.NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicState | KafkaError]:
        """The error for each topic."""
        return {topic.name: self._error for topic in wanted}

    def create_acls(self, wanted: Sequence[acls.Acl]) -> list[KafkaError | None]:
        """The error for each ACL."""
        return [self._error for _ in wanted]

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise self._error

    create_partitions = delete_topic = elect_leaders = alter_reassignments = list_reassignments = _refuse
    unregister_broker = alter_configs = replace_configs = delete_acls = _refuse
    alter_client_quotas = alter_scram_credentials = update_features = _refuse
