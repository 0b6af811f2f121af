"""The image as records: replayed into an empty image they give the same image again."""

from collections.abc import Callable
from typing import Any

from support.raw_client import RawClient

from kafkatools.core.broker.metadata.image import BROKER_RESOURCE, MetadataImage
from kafkatools.core.broker.metadata.image_records import image_records
from kafkatools.core.broker.metadata.metadata_follower import become
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.schemas.metadata import ConfigRecord, decode_record, encode_record

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
ACL = {
    "resource_type": 2,
    "resource_name": "team-",
    "resource_pattern_type": 4,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "a"}, {"entity_type": "client-id", "entity_name": None}],
    "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
}
CREDENTIAL = {"name": "a", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"}


def fill(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        client.create_topic("t", 3, retention_ms="1000")
        client.create_topic("u")
        client.call(ApiKey.CREATE_ACLS, 3, {"creations": [ACL]})
        client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [QUOTA], "validate_only": False})
        client.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [CREDENTIAL]})


def state(image: MetadataImage) -> dict[str, Any]:
    return {
        "features": image.features,
        "brokers": image.brokers,
        "controllers": image.controllers,
        "topics": image.topics,
        "configs": image.configs,
        "quotas": image.client_quotas.by_entity,
        "acls": image.acls.by_id,
        "scram": image.scram.by_user,
        "producer ids": image.next_producer_id,
    }


def test_the_records_of_an_image_make_the_same_image(run_node: Callable[..., Any]) -> None:
    running = run_node(SETTINGS)
    fill(running.node.bootstrap)
    image = running.node.controller.image
    again = MetadataImage()
    for record in image_records(image):
        again.replay(decode_record(encode_record(record)))
    assert state(again) == state(image)
    assert not again.skipped
    assert all(state(image)[part] for part in ("acls", "scram", "quotas", "topics", "configs"))


def test_acls_quotas_and_credentials_outlive_a_restart(run_node: Callable[..., Any]) -> None:
    running = run_node(SETTINGS)
    fill(running.node.bootstrap)
    before = state(running.node.controller.image)
    running.stop()
    after = state(run_node(SETTINGS).node.controller.image)
    for part in ("acls", "scram", "quotas", "configs", "features"):
        assert after[part] == before[part]


def test_broker_settings_of_a_snapshot_count_as_changed() -> None:
    """By this number listeners know that they have to read their key stores again."""
    image, snapshot = MetadataImage(), MetadataImage()
    for replayed, value in ((image, "old"), (snapshot, "new")):
        name = "listener.name.ssl.ssl.keystore.location"
        replayed.replay(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="1", name=name, value=value))
    before = image.broker_config_changes
    become(image, snapshot)
    assert image.configs[BROKER_RESOURCE, "1"] == {name: "new"}
    assert image.broker_config_changes != before
