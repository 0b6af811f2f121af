"""kafka-python's admin client: topics, settings, features, quorum, directories, credentials, ACLs. Prints ok."""

import sys
import time
from collections.abc import Callable

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    KafkaAdminClient,
    NewTopic,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

BOOTSTRAP, TOPIC = sys.argv[1:]


def eventually(check: Callable[[], None]) -> None:
    """A broker hears of a change a moment after the controller has answered."""
    deadline = time.monotonic() + 240
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def describe(admin: KafkaAdminClient) -> None:
    features = admin.describe_features()
    assert features["metadata.version"]["finalized"] == (30, 30), features
    (quorum,) = admin.describe_metadata_quorum()["topics"]
    assert (quorum["topic_name"], quorum["partitions"][0]["leader_id"]) == ("__cluster_metadata", 1)
    (broker,) = admin.describe_log_dirs()
    assert TOPIC in [topic["name"] for topic in broker["log_dirs"][0]["topics"]]
    described = admin.describe_topic_partitions([TOPIC])["topics"][0]
    assert len(described["partitions"]) == 2
    assert "ALTER" in admin.describe_cluster()["authorized_operations"]
    assert TOPIC in admin.list_config_resources()["topic"]
    assert admin.list_partition_reassignments() == {}


def settings(admin: KafkaAdminClient) -> None:
    admin.alter_configs([ConfigResource("TOPIC", TOPIC, {"retention.ms": "12345"})])

    def altered() -> None:
        found = admin.describe_configs([ConfigResource("TOPIC", TOPIC)])["topic"][TOPIC]
        assert found["retention.ms"]["value"] == "12345", found

    eventually(altered)


def credentials(admin: KafkaAdminClient) -> None:
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", ScramMechanism.SCRAM_SHA_512, "secret")])

    def users(expected: list[str]) -> None:
        assert list(admin.describe_user_scram_credentials()) == expected

    eventually(lambda: users(["bob"]))
    admin.alter_user_scram_credentials([UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512)])
    eventually(lambda: users([]))


def acls(admin: KafkaAdminClient) -> None:
    pattern = ResourcePattern(ResourceType.TOPIC, "team-", ACLResourcePatternType.PREFIXED)
    acl = ACL("User:bob", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)
    assert admin.create_acls([acl])["succeeded"] == [acl]
    matching = ResourcePatternFilter(ResourceType.TOPIC, "team-a", ACLResourcePatternType.MATCH)
    wanted = ACLFilter("User:bob", "*", ACLOperation.ANY, ACLPermissionType.ANY, matching)

    def described(expected: list[ACL]) -> None:
        assert admin.describe_acls(wanted)[0] == expected

    eventually(lambda: described([acl]))
    admin.delete_acls([wanted])
    eventually(lambda: described([]))


def main() -> None:
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    admin.create_topics([NewTopic(TOPIC, 2, 1)])
    eventually(lambda: describe(admin))
    settings(admin)
    credentials(admin)
    acls(admin)
    admin.delete_topics([TOPIC])
    admin.close()
    print("ok")


main()
