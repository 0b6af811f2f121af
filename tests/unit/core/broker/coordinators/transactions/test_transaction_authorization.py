"""What a client may not do, of all that concerns transactions (the error codes of KafkaApis)."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.raw_client import RawClient
from support.transaction_teller import Teller

import kafkatools
from kafkatools.core.protocol.api_versions import ApiKey

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
NO_TRANSACTIONAL_ID = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
P = (1, 0)
TWO_PHASES = {"unstable_api_versions_enable": "true", "transaction_two_phase_commit_enable": "true"}


@pytest.fixture(scope="module")
def nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Teller]:
    """A client without any rights."""
    with embedded_broker(tmp_path_factory.mktemp("acls"), authorizer_class_name=AUTHORIZER) as bootstrap:
        teller = Teller(bootstrap, "nobody")
        with teller.client:
            yield teller


@pytest.fixture(autouse=True)
def nothing_said(nobody: Teller) -> None:
    nobody.answers.clear()


def test_nothing_with_a_transactional_id(nobody: Teller) -> None:
    place = ("t", 0)
    nobody.init("x")
    nobody.add("x", P, [place])
    nobody.add_offsets("x", P, "g")
    nobody.commit_offset("x", P, "g", ("t", 0, 5))
    nobody.produce("x", P, place, 0)
    nobody.end("x", P, commit=True)
    assert nobody.answers == [
        ["init", NO_TRANSACTIONAL_ID, "nobody", -1],
        ["add", f"t-0 {NO_TRANSACTIONAL_ID}"],
        ["add offsets", NO_TRANSACTIONAL_ID],
        ["commit offset", NO_TRANSACTIONAL_ID],
        ["produce", NO_TRANSACTIONAL_ID, -1, None],
        ["end", NO_TRANSACTIONAL_ID, "nobody", -1],
    ]


def test_nothing_of_the_cluster(nobody: Teller) -> None:
    nobody.add_batch(("x", P, [("t", 0)], True))
    nobody.marker(("t", 0), (0, 0), commit=True, coordinator_epoch=0)
    assert nobody.answers == [
        ["add batch", "CLUSTER_AUTHORIZATION_FAILED"],
        ["marker", "P0", "CLUSTER_AUTHORIZATION_FAILED"],
    ]


def test_no_producer_id_either(nobody: Teller) -> None:
    client: RawClient = nobody.client
    answer = client.call(ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": None, "transaction_timeout": 1})
    assert (int(answer.error_code), answer.producer_id, answer.producer_epoch) == (31, -1, -1)


def test_nothing_is_shown(nobody: Teller) -> None:
    nobody.describe("x")
    nobody.list()
    nobody.producers(("t", 0))
    assert nobody.answers == [
        ["describe", NO_TRANSACTIONAL_ID],
        ["list", "OK", [], []],
        ["producers", "TOPIC_AUTHORIZATION_FAILED"],
    ]


def test_two_phase_commit_is_a_right_of_its_own(tmp_path: pathlib.Path) -> None:
    """KafkaApis checks WRITE, then TWO_PHASE_COMMIT; a client without the latter may write without two phases."""
    settings = {"authorizer_class_name": AUTHORIZER, "super_users": "User:admin", **TWO_PHASES}
    with embedded_broker(tmp_path, allow_everyone_if_no_acl_found="true", **settings) as bootstrap:
        with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_acls([kafkatools.Acl("TRANSACTIONAL_ID", "x", "User:ANONYMOUS", "WRITE")])
        teller = Teller(bootstrap, "two_phases")
        with teller.client:
            teller.find_coordinator("y")
            teller.init("x", version=6, enable2_pc=True)
            teller.init("x", version=6)
            teller.init("y", version=6, enable2_pc=True)
    assert teller.answers == [
        ["init", NO_TRANSACTIONAL_ID, "nobody", -1],
        ["init", "OK", "P0", 0],
        ["init", "OK", "P1", 0],
    ]


def test_a_node_adds_partitions_of_its_clients_by_its_right_on_the_cluster(tmp_path: pathlib.Path) -> None:
    """The broker that got the Produce request has checked the rights of its client (KafkaApis, from version 4 on)."""
    settings = {"authorizer_class_name": AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}
    with embedded_broker(tmp_path, **settings) as bootstrap, kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
        teller = Teller(bootstrap, "node")
        with teller.client:
            topic = teller.topic()
            teller.find_coordinator("x")
            producer = teller.init("x")
            resources = (("TOPIC", topic), ("TRANSACTIONAL_ID", "x"))
            admin.create_acls([kafkatools.Acl(kind, name, "User:shop", "WRITE") for kind, name in resources])
            teller.add("x", producer, [(topic, 0)])
            teller.add_batch(("x", producer, [(topic, 0)], False))
    assert teller.answers == [
        ["init", "OK", "P0", 0],
        ["add", f"t-0 {NO_TRANSACTIONAL_ID}"],
        ["add batch", "OK", ["t-0 OK"]],
    ]
