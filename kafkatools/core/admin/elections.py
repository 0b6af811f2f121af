"""Leader elections (KafkaAdminClient.electLeaders, KIP-460)."""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.core.admin.client import AdminClient, error_in, error_of
from kafkatools.core.admin.leaders import TopicPartition
from kafkatools.core.errors import KafkaError, UnsupportedVersion
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.topic_partition import topic_fields

PREFERRED = 0
UNCLEAN = 1


def elect_leaders(
    admin: AdminClient, election_type: int, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, KafkaError | None]:
    """Elect leaders for partitions (None: all that need one); return None or the error by partition. A partition that
    needs no election has the error ElectionNotNeeded; with None it is left out. Raises KafkaError, UnsupportedVersion
    for unclean elections at old brokers."""
    topics = topic_fields(((key, key[1]) for key in partitions or ()), "topic")

    def fields(version: int) -> Fields:
        common = {"topic_partitions": None if partitions is None else topics}
        common["timeout"] = admin.config.request_timeout_ms
        if version == 0 and election_type != PREFERRED:
            raise UnsupportedVersion("The brokers are too old for unclean elections")
        return common if version == 0 else {"election_type": election_type, **common}

    response = admin.change(ApiKey.ELECT_LEADERS, fields, _refusal)
    return {
        (result.topic, part.partition_id): error_in(part)
        for result in response.replica_election_results
        for part in result.partition_result
    }


def _refusal(response: Entity) -> KafkaError | None:
    """Return the error of the whole request, with the message that a partition carries for it; None for success."""
    code = getattr(response, "error_code", 0)
    parts = (part for result in response.replica_election_results for part in result.partition_result)
    return error_of(code, next((part.error_message for part in parts if part.error_code == code), None))
