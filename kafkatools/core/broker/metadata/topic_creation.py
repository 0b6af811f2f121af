"""Automatic topic creation through the controller, for internal topics and client requests (Kafka's
AutoTopicCreationManager).

Rules: one CreateTopics request for a topic at a time; its error is returned once, to the next caller.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.image import MetadataImage, TopicState
from kafkatools.core.broker.server.controller_link import ControllerLink, Fate
from kafkatools.core.errors import KafkaError, TopicAlreadyExists, UnknownServerError, error_from_code
from kafkatools.core.protocol import messages
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.frames import decode_response_header, encode_request

_KEY, _VERSION = ApiKey.CREATE_TOPICS, ApiKey.CREATE_TOPICS.last_version
LOOPBACK = b"\x7f\0\0\1"


@dataclass(eq=False, repr=False)
class TopicCreation:
    """Creates missing topics of this broker by sending CreateTopics in an Envelope to the controller."""

    node_id: int
    image: MetadataImage
    link: ControllerLink
    timeout_ms: int
    _pending: set[str] = field(default_factory=set, init=False)
    _refused: dict[str, KafkaError] = field(default_factory=dict, init=False)

    def create(self, topic: NewTopic) -> TopicState | KafkaError | None:
        """Return the topic if it exists, or else the controller's error for its last creation, once. Otherwise send
        CreateTopics, unless it is under way, and return None. A lost or failed request as such is no error: the next
        call repeats it."""
        existing = self.image.topics.get(topic.name)
        if existing is not None:
            self._refused.pop(topic.name, None)
            return existing
        refusal = self._refused.pop(topic.name, None)
        if refusal is not None:
            return refusal
        if topic.name not in self._pending:
            self._request(topic)
        return None

    def _request(self, topic: NewTopic) -> None:
        topic_fields = {
            "name": topic.name,
            "num_partitions": topic.num_partitions,
            "replication_factor": topic.replication_factor,
            "assignments": [],
            "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
        }
        fields = {"topics": [topic_fields], "timeout": self.timeout_ms, "validate_only": False}
        entity = messages.build(messages.request_type(_KEY, _VERSION), fields)
        frame = b"".join(encode_request(_KEY, _VERSION, 0, f"broker-{self.node_id}", entity))
        envelope = {
            "request_data": frame[4:],
            "request_principal": None,  # this node itself
            "client_host_address": LOOPBACK,
        }
        self._pending.add(topic.name)
        self.link.send_once(
            ApiKey.ENVELOPE,
            envelope,
            lambda response: self._handle_response(topic.name, response),
            is_needed=lambda: True,
        )

    def _handle_response(self, name: str, response: Entity) -> None:
        self._pending.discard(name)
        if isinstance(response, Fate) or int(response.error_code) or response.response_data is None:
            return  # the next request for the topic retries
        data = memoryview(bytes(response.response_data))
        _, offset = decode_response_header(_KEY, _VERSION, data)
        topics = messages.decode(messages.response_type(_KEY, _VERSION), data, offset)[0].topics
        created = next((topic for topic in topics if topic.name == name), None)
        if created is None:
            self._refused[name] = UnknownServerError(f"The controller's response has no result for topic {name}")
            return
        error = error_from_code(int(created.error_code), created.error_message)
        if error is not None and not isinstance(error, TopicAlreadyExists):
            self._refused[name] = error
