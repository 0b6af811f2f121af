"""The changes of the metadata that clients ask for: what a controller offers, and a stand-in that refuses all of them
when no controller accepted a request."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

from kafkatools.core.broker.metadata.broker_settings import BrokerSettings
from kafkatools.core.broker.metadata.image import MetadataImage, PartitionState, TopicState
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.controller import acls, client_quotas, configs, features, scram, topics

Resource = tuple[int, str]


class MetadataChanges(Protocol):
    """The controller, for handlers; the methods are explained there. All raise a KafkaError."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def effective_config(self) -> Config: ...

    def create_topics(
        self, wanted: Sequence[topics.NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicState | KafkaError]: ...

    def create_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool
    ) -> None: ...

    def delete_topic(self, name: str | None, topic_id: uuid.UUID | None) -> TopicState: ...

    def elect_leaders(
        self, election_type: int, wanted: Sequence[tuple[str, Sequence[int]]] | None
    ) -> list[tuple[str, list[tuple[int, KafkaError | None]]]]: ...

    def alter_reassignments(
        self, wanted: Sequence[tuple[str, int, Sequence[int] | None]], *, may_change_factor: bool = True
    ) -> list[KafkaError | None]: ...

    def list_reassignments(
        self, wanted: Sequence[tuple[str, Sequence[int]]] | None
    ) -> list[tuple[str, list[PartitionState]]]: ...

    def unregister_broker(self, broker_id: int) -> None: ...

    def alter_configs(
        self, resource: Resource, changes: Sequence[configs.ConfigChange], *, validate_only: bool
    ) -> None: ...

    def replace_configs(
        self, resource: Resource, values: Sequence[tuple[str, str | None]], *, validate_only: bool
    ) -> None: ...

    def create_acls(self, wanted: Sequence[acls.Acl]) -> list[KafkaError | None]: ...

    def delete_acls(self, filters: Sequence[acls.AclFilter]) -> list[list[acls.Acl]]: ...

    def alter_client_quotas(
        self, alterations: Sequence[client_quotas.Alteration], *, validate_only: bool
    ) -> dict[client_quotas.Entity, KafkaError | None]: ...

    def alter_scram_credentials(
        self, deletions: Sequence[tuple[str, int]], upsertions: Sequence[scram.Upsertion]
    ) -> scram.Outcomes: ...

    def update_features(self, updates: Sequence[features.FeatureUpdate], *, validate_only: bool) -> None: ...


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
