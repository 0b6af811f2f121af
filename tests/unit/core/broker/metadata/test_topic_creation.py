"""Automatic creation of a topic by the controller: odd responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.broker.metadata.topic_creation import TopicCreation
from kafkatools.core.broker.server.controller_link import ControllerLink
from kafkatools.core.errors import UnknownServerError
from kafkatools.core.protocol import messages
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import encode_response_header

VERSION = ApiKey.CREATE_TOPICS.last_version


class OddController:
    """A controller whose CreateTopics responses have these topics."""

    def __init__(self, topics: list[dict[str, object]]) -> None:
        body = messages.build(messages.response_type(ApiKey.CREATE_TOPICS, VERSION), {"topics": topics})
        header = encode_response_header(ApiKey.CREATE_TOPICS, VERSION, 0)
        data = header + messages.encode(body)
        self.response = messages.build(messages.response_type(ApiKey.ENVELOPE, 0), {"response_data": data})

    def send_once(self, key: ApiKey, fields: object, on_response: Callable[[Any], None], **options: object) -> None:
        on_response(self.response)


def test_a_response_without_the_topic_is_an_error_once() -> None:
    for topics in ([], [{"name": "other"}]):
        creation = TopicCreation(1, MetadataImage(), cast(ControllerLink, OddController(topics)), 1000)
        assert creation.create(NewTopic("t")) is None
        error = creation.create(NewTopic("t"))
        assert isinstance(error, UnknownServerError)
        assert str(error) == "The controller's response has no result for topic t"
        assert creation.create(NewTopic("t")) is None
