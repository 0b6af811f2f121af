"""CreateTopics (key 19), versions 2-7.

Manual assignments, defaults (-1), settings, validate only; the settings of the new topic from version 5 on.
Not done: CreateTopicPolicy, controller mutation quotas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.configs import TOPIC_CONFIG, describe_topic, error_fields
from kafkatools.core.broker.controller.metadata_image import TopicState
from kafkatools.core.broker.controller.topics import NewTopic
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.config import Config, to_text
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (2, 7)


def handle(node: Node, request: Request) -> Response:
    """Create, and say of each topic how it went."""
    entity = request.decode()
    wanted = [_new_topic(topic) for topic in entity.topics]
    results = node.controller.create_topics(wanted, validate_only=entity.validate_only)
    configs = {topic.name: topic.configs for topic in wanted}
    return request.respond({"topics": [_result(node, name, result, configs[name]) for name, result in results.items()]})


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
        {config.name: config.value for config in topic.configs},
    )


def _result(node: Node, name: str, result: TopicState | KafkaError, overrides: Any) -> dict[str, Any]:
    if isinstance(result, KafkaError):
        return {"name": name, **error_fields(result), "configs": None, "num_partitions": -1, "replication_factor": -1}
    return {
        "name": name,
        "topic_id": result.topic_id,
        "error_code": 0,
        "error_message": None,
        "num_partitions": len(result.partitions),
        "replication_factor": len(result.partitions[0].replicas),
        "configs": _configs(node, name, overrides),
    }


def _configs(node: Node, name: str, overrides: Any) -> list[dict[str, Any]]:
    """The new topic's settings; of a topic that was only validated what they would be."""
    controller = node.controller
    if name in controller.image.topics:
        entries = describe_topic(controller.image, controller.settings, name, None)
    else:
        from kafkatools.core.config.topic import topic_config

        config: Config = topic_config(controller.effective_config, overrides)
        entries = [
            {
                "name": setting.name,
                "value": to_text(config[setting.name]),
                "read_only": False,
                "config_source": TOPIC_CONFIG if setting.name in overrides else 5,
                "is_sensitive": False,
            }
            for setting in config.table
            if not setting.internal
        ]
    return entries
