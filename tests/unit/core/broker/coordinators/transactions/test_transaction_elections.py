"""Transactions over a cluster: elections and resignations in every state, markers to leaders on other nodes, partitions
that are verified or added from other nodes. The nodes are fakes around the real coordinators and handlers."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from support.coordinator_cluster import NOBODY, Asked, CoordinatorCluster, Sent

from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset
from kafkatools.core.broker.coordinators.internal_topic import partition_for
from kafkatools.core.broker.coordinators.transactions.add_partitions import Operation, ensure_in_transaction
from kafkatools.core.broker.coordinators.transactions.coordinator import InitRequest, ProducerIdentity
from kafkatools.core.protocol.slices import pausing

STATES, OFFSETS = "__transaction_state", "__consumer_offsets"
INIT, ADD, END, MARKERS, OFFSET_COMMIT, DESCRIBE, LIST, OFFSET_FETCH, ADD_OFFSETS = 22, 24, 26, 27, 28, 65, 66, 9, 25
DELETE_GROUPS, DELETE_OFFSETS, SHARE_BEAT = 42, 47, 76
GROUP_NOT_FOUND = 69
LOADING, NOT_AVAILABLE, NOT_COORDINATOR, NETWORK, BUSY, NOT_ADDED, INVALID_STATE = 14, 15, 16, 13, 51, 120, 48
ID, GROUP = "x", "g"


class Transactions(CoordinatorCluster):
    """A cluster whose transactional id is coordinated by node 1; partition 0 of `t` is led there, the others by
    nodes 2 and 3."""

    def __init__(self, **settings: str) -> None:
        super().__init__(**settings)
        self.add_topic("t", 4)
        for index, leader in enumerate((1, 2, 3, 2)):
            self.lead("t", index, leader)
        self.add_topic(STATES, 3, leader=1)
        self.add_topic(OFFSETS, 3, leader=2)
        self.index = partition_for(ID, 3)
        self.log = self.logs[STATES, self.index]

    def move(self, leader: int) -> None:
        self.lead(STATES, self.index, leader)

    def init(self, node_id: int = 1) -> Asked:
        return self.ask(
            node_id, INIT, 4, transactional_id=ID, transaction_timeout=60_000, producer_id=-1, producer_epoch=-1
        )

    def add(self, node_id: int, producer: tuple[int, int], indexes: tuple[int, ...] = (0, 1, 2)) -> Asked:
        transaction = {
            "transactional_id": ID,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "verify_only": False,
            "topics": [{"name": "t", "partitions": list(indexes)}],
        }
        return self.ask(node_id, ADD, 5, transactions=[transaction])

    def end(self, node_id: int, producer: tuple[int, int], version: int = 5) -> Asked:
        identity = {"producer_id": producer[0], "producer_epoch": producer[1]}
        return self.ask(node_id, END, version, transactional_id=ID, **identity, committed=True)

    def begun(self, indexes: tuple[int, ...] = (0, 1, 2)) -> tuple[int, int]:
        """A producer with an open transaction over partitions of all three nodes."""
        requested = self.init()
        self.settle()
        producer = (requested.answer.producer_id, requested.answer.producer_epoch)
        self.add(1, producer, indexes)
        self.settle()
        assert self.state(1) == "Ongoing"
        return producer

    def decided(self) -> tuple[int, int]:
        """The end is decided and replicated; the markers to other nodes are on their way."""
        producer = self.begun()
        requested = self.end(1, producer)
        self.replicate()
        assert (requested.answer.error_code, self.state(1)) == (0, "PrepareCommit")
        return producer

    def state(self, node_id: int) -> str:
        return str(self.nodes[node_id].transactions.transactions[ID].state.label)

    def markers(self, topic: str = "t") -> list[int]:
        """How many markers each partition has."""
        return [len(self.logs[topic, index].control_batches()) for index in self.image.topics[topic].partitions]


def added(requested: Asked) -> int:
    """The one code of all partitions."""
    (result,) = requested.answer.results_by_transaction
    (code,) = {each.partition_error_code for topic in result.topic_results for each in topic.results_by_partition}
    return int(code)


def code_of(requested: Asked) -> int | None:
    if requested.answer is None:
        return None
    return added(requested) if requested.api_key == ADD else int(requested.answer.error_code)


# -- who coordinates ---------------------------------------------------------------------------------------------------
def ask_all(cluster: Transactions, node_id: int) -> set[int | None]:
    described = cluster.ask(node_id, DESCRIBE, 0, transactional_ids=[ID])
    requested = [cluster.init(node_id), cluster.add(node_id, (1, 0)), cluster.end(node_id, (1, 0))]
    return {described.answer.transaction_states[0].error_code, *map(code_of, requested)}


def test_a_node_that_does_not_lead_the_ids_partition_is_not_its_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkatools.core.broker.coordinators.groups import offsets_topic

    cluster = Transactions()
    cluster.begun()
    assert ask_all(cluster, 2) == {NOT_COORDINATOR}
    cluster.move(NOBODY)
    assert ask_all(cluster, 2) == {NOT_COORDINATOR}
    monkeypatch.setattr(offsets_topic, "SLICE_BYTES", 1)
    cluster.move(2)
    assert ask_all(cluster, 2) == {LOADING}
    assert cluster.ask(2, LIST, 1, state_filters=[], producer_id_filters=[]).answer.error_code == LOADING
    cluster.advance(100)
    (listed,) = cluster.ask(2, LIST, 1, state_filters=[], producer_id_filters=[]).answer.transaction_states
    assert (listed.transactional_id, listed.transaction_state) == (ID, "Ongoing")
    assert len(cluster.ask(1, LIST, 1, state_filters=[], producer_id_filters=[]).answer.transaction_states) == 0


# -- the states of a transaction, and another coordinator --------------------------------------------------------------
State = Callable[[Transactions], Asked]


def initializing(cluster: Transactions) -> Asked:
    return cluster.init()


def adding(cluster: Transactions) -> Asked:
    requested = cluster.init()
    cluster.settle()
    return cluster.add(1, (requested.answer.producer_id, requested.answer.producer_epoch))


def adding_more(cluster: Transactions) -> Asked:
    return cluster.add(1, cluster.begun(), (3,))


def ending(cluster: Transactions) -> Asked:
    return cluster.end(1, cluster.begun())


def fencing(cluster: Transactions) -> Asked:
    cluster.begun()
    return cluster.init()


@pytest.mark.parametrize("state", [initializing, adding, adding_more, ending, fencing])
@pytest.mark.parametrize("leader", [2, NOBODY])
def test_who_waits_for_a_change_is_sent_to_the_new_coordinator(state: State, leader: int) -> None:
    cluster = Transactions()
    requested = state(cluster)
    assert requested.answer is None
    cluster.move(leader)
    assert cluster.nodes[1].transactions.transactions == {}
    cluster.advance(10)
    assert code_of(requested) == NOT_COORDINATOR
    cluster.settle()
    assert cluster.markers() == ([0, 0, 0, 0] if leader == NOBODY or state not in (ending, fencing) else [1, 1, 1, 0])
    assert all(node.failures == [] for node in cluster.nodes.values())


AFTER = [
    (initializing, "Empty"),
    (adding, "Ongoing"),
    (adding_more, "Ongoing"),
    (ending, "CompleteCommit"),
    (fencing, "CompleteAbort"),
]


@pytest.mark.parametrize(("state", "after"), AFTER)
def test_a_change_that_is_replicated_counts_though_the_coordinator_is_another(state: State, after: str) -> None:
    cluster = Transactions()
    state(cluster)
    cluster.move(2)
    cluster.settle()
    assert cluster.state(2) == after


@pytest.mark.parametrize(("state", "before"), [(adding, "Empty"), (ending, "Ongoing"), (fencing, "Ongoing")])
def test_a_change_that_was_not_replicated_is_none(state: State, before: str) -> None:
    cluster = Transactions()
    state(cluster)
    cluster.log.truncate_to_high_watermark()
    cluster.move(2)
    cluster.settle()
    assert cluster.state(2) == before
    assert cluster.markers() == [0, 0, 0, 0]


def test_a_coordinator_that_fails_between_the_decision_and_the_markers_leaves_them_to_the_next() -> None:
    cluster = Transactions()
    producer = cluster.decided()
    assert cluster.markers() == [1, 0, 0, 0]
    cluster.sent.clear()  # it died: nothing of it arrives
    cluster.move(3)
    cluster.settle()
    assert cluster.state(3) == "CompleteCommit"
    assert cluster.markers() == [2, 1, 1, 0]
    requested = cluster.end(3, producer)
    assert (requested.answer.error_code, requested.answer.producer_epoch) == (0, producer[1] + 1)


def test_a_decision_is_carried_out_when_it_is_replicated_and_not_before() -> None:
    cluster = Transactions()
    ending(cluster)
    cluster.move(2)
    cluster.advance(100)
    assert (cluster.markers(), list(cluster.sent)) == ([0, 0, 0, 0], [])
    cluster.settle()
    assert cluster.markers() == [1, 1, 1, 0]


def test_markers_that_arrive_late_change_nothing_for_the_coordinator_that_sent_them() -> None:
    cluster = Transactions()
    cluster.decided()
    late = list(cluster.sent)
    cluster.sent.clear()
    cluster.move(3)
    cluster.settle()
    cluster.sent.extend(late)
    cluster.settle()
    assert cluster.state(3) == "CompleteCommit"
    assert cluster.nodes[1].transactions.transactions == {}
    assert all(node.failures == [] for node in cluster.nodes.values())


# -- markers -----------------------------------------------------------------------------------------------------------
def places(sent: Sent) -> list[tuple[str, list[int]]]:
    return [(topic["name"], topic["partition_indexes"]) for each in sent.fields["markers"] for topic in each["topics"]]


def test_markers_go_to_the_leaders_of_their_partitions() -> None:
    cluster = Transactions()
    producer = cluster.begun((0, 1, 2, 3))
    cluster.end(1, producer)
    cluster.replicate()
    assert {sent.target: places(sent) for sent in cluster.sent} == {2: [("t", [1, 3])], 3: [("t", [2])]}
    fields = cluster.sent[0].fields["markers"][0]
    epoch = cluster.image.topics[STATES].partitions[cluster.index].leader_epoch
    assert (fields["producer_id"], fields["producer_epoch"]) == (producer[0], producer[1] + 1)
    assert (fields["coordinator_epoch"], fields["transaction_result"], fields["transaction_version"]) == (
        epoch,
        True,
        2,
    )
    cluster.settle()
    assert (cluster.markers(), cluster.state(1)) == ([1, 1, 1, 1], "CompleteCommit")


def test_markers_of_several_transactions_for_one_broker_go_together() -> None:
    cluster = Transactions()
    names = [name for name in "abcdefghijklmnop" if partition_for(name, 3) == cluster.index][:3]
    coordinator = cluster.nodes[1].transactions
    for name in names:
        coordinator.init_producer_id(name, InitRequest(60_000), lambda code, identity: None)
        cluster.settle()
        value = coordinator.transactions[name].value
        identity = ProducerIdentity(value.producer_id, value.producer_epoch)
        coordinator.add_partitions(name, identity, [("t", 1)], 2, lambda code: None)
        cluster.settle()
    from kafkatools.core.broker.coordinators.transactions.ending import EndRequest

    for name in names:
        value = coordinator.transactions[name].value
        wanted = EndRequest(value.producer_id, value.producer_epoch, True, 2)
        coordinator.end_transaction(name, wanted, lambda code, identity: None)
    cluster.replicate()
    counts = []
    while cluster.sent:
        counts += [len(sent.fields["markers"]) for sent in cluster.deliver()]
        cluster.replicate()
    assert counts == [1, 2], "what comes up while one request is on its way makes the next"
    assert cluster.markers() == [0, 3, 0, 0]


def test_a_marker_follows_the_leader_of_its_partition() -> None:
    cluster = Transactions()
    cluster.decided()
    cluster.lead("t", 1, 3)
    cluster.lead("t", 2, NOBODY)
    cluster.deliver()
    cluster.replicate()
    assert (cluster.markers(), cluster.state(1)) == ([1, 0, 0, 0], "PrepareCommit")
    cluster.advance(110)
    assert [(sent.target, places(sent)) for sent in cluster.sent] == [(3, [("t", [1])])]
    cluster.settle()
    assert (cluster.markers(), cluster.state(1)) == ([1, 1, 0, 0], "PrepareCommit")
    cluster.lead("t", 2, 1)
    cluster.settle()
    assert (cluster.markers(), cluster.state(1)) == ([1, 1, 1, 0], "CompleteCommit")


def test_markers_to_a_dead_node_are_sent_again_until_somebody_takes_them() -> None:
    cluster = Transactions()
    cluster.dead = {2}
    cluster.decided()
    cluster.settle()
    assert (cluster.markers(), cluster.state(1)) == ([1, 0, 1, 0], "PrepareCommit")
    cluster.lead("t", 1, 1)
    cluster.settle()
    assert (cluster.markers(), cluster.state(1)) == ([1, 1, 1, 0], "CompleteCommit")


def test_a_partition_that_is_gone_needs_no_marker() -> None:
    cluster = Transactions()
    producer = cluster.begun()
    del cluster.image.topics["t"].partitions[1]
    cluster.end(1, producer)
    cluster.settle()
    assert cluster.state(1) == "CompleteCommit"


def test_an_answer_to_a_marker_waits_for_the_replicas() -> None:
    cluster = Transactions()
    cluster.decided()
    cluster.deliver()
    assert cluster.markers() == [1, 1, 1, 0]
    cluster.advance(50)
    assert cluster.state(1) == "PrepareCommit"
    cluster.replicate()
    assert cluster.state(1) == "CompleteCommit"


# -- verification ------------------------------------------------------------------------------------------------------
class BrokerRequest:
    """A leader's question about partition 1 of `t`."""

    def __init__(
        self, cluster: Transactions, producer: tuple[int, int], operation: Operation, node_id: int = 2
    ) -> None:
        self.codes: list[int] = []
        coordination = cluster.nodes[node_id].coordination
        identity = ProducerIdentity(*producer)
        place = ("t", (0, 1, 2)[node_id - 1])
        ensure_in_transaction(
            coordination.host, coordination.add_partitions, ID, identity, place, operation, self.codes.append
        )


def test_a_leader_elsewhere_verifies_partitions_with_the_coordinator() -> None:
    cluster = Transactions()
    producer = cluster.begun((1,))
    good = BrokerRequest(cluster, producer, Operation.VERIFY)
    bad = BrokerRequest(cluster, producer, Operation.VERIFY, node_id=3)
    assert [(sent.target, sent.api_key) for sent in cluster.sent] == [(1, ADD), (1, ADD)]
    assert [sent.fields["transactions"][0]["verify_only"] for sent in cluster.sent] == [True, True]
    cluster.deliver()
    assert (good.codes, bad.codes) == ([0], [NOT_ADDED])


def test_a_leader_elsewhere_adds_partitions_when_the_coordinator_has_them_replicated() -> None:
    cluster = Transactions()
    producer = cluster.begun((0,))
    request = BrokerRequest(cluster, producer, Operation.ADD)
    cluster.deliver()
    assert request.codes == []
    cluster.replicate()
    assert request.codes == [0]
    assert cluster.nodes[1].transactions.transactions[ID].value.partitions == {("t", 0), ("t", 1)}


def test_questions_for_one_coordinator_go_together_each_transaction_once() -> None:
    cluster = Transactions()
    producer = cluster.begun((1,))
    requests = [BrokerRequest(cluster, producer, Operation.VERIFY) for _ in range(3)]
    assert len(cluster.sent) == 1
    for _ in range(3):
        cluster.deliver()
    assert [request.codes for request in requests] == [[0], [0], [0]]


def test_a_coordinator_that_is_not_there_is_told_as_such() -> None:
    cluster = Transactions()
    producer = cluster.begun((1,))
    cluster.dead = {1}
    lost = BrokerRequest(cluster, producer, Operation.VERIFY)
    cluster.deliver()
    cluster.move(NOBODY)
    without = BrokerRequest(cluster, producer, Operation.VERIFY)
    assert (lost.codes, without.codes) == ([NETWORK], [NOT_AVAILABLE])


def test_the_next_transaction_waits_a_while_for_the_markers_of_the_last() -> None:
    cluster = Transactions()
    producer = cluster.decided()
    held = list(cluster.sent)
    cluster.sent.clear()
    request = BrokerRequest(cluster, (producer[0], producer[1] + 1), Operation.ADD)
    cluster.deliver()
    cluster.advance(30)
    assert (request.codes, len(cluster.sent)) == ([], 1), "it asks again"
    cluster.deliver()
    cluster.sent.extend(held)
    cluster.settle()
    assert (request.codes, cluster.state(1)) == ([0], "Ongoing")


@pytest.mark.parametrize("node_id", [1, 2])  # the coordinator's own partitions, those of another node
def test_a_partition_waits_a_while_for_another_that_is_being_added(node_id: int) -> None:
    cluster = Transactions()
    producer = cluster.begun(())
    first = BrokerRequest(cluster, producer, Operation.ADD, node_id=3)
    cluster.deliver()
    second = BrokerRequest(cluster, producer, Operation.ADD, node_id=node_id)
    cluster.deliver()
    assert (first.codes, second.codes) == ([], [])
    cluster.settle()
    assert (first.codes, second.codes) == ([0], [0])


def test_it_does_not_wait_for_ever() -> None:
    cluster = Transactions()
    cluster.dead = {3}
    producer = cluster.decided()
    request = BrokerRequest(cluster, (producer[0], producer[1] + 1), Operation.ADD)
    for _ in range(15):
        cluster.deliver()
        cluster.replicate()
        cluster.advance(10)
    assert request.codes == [BUSY]


# -- offsets in transactions -------------------------------------------------------------------------------------------
def commit_offset(cluster: Transactions, node_id: int, producer: tuple[int, int], version: int = 5) -> Asked:
    partitions = [{"partition_index": 0, "committed_offset": 7, "committed_metadata": None}]
    return cluster.ask(
        node_id,
        OFFSET_COMMIT,
        version,
        transactional_id=ID,
        group_id=GROUP,
        producer_id=producer[0],
        producer_epoch=producer[1],
        generation_id_or_member_epoch=-1,
        generation_id=-1,
        member_id="",
        topics=[{"name": "t", "partitions": partitions}],
    )


def fetched(cluster: Transactions, node_id: int) -> tuple[int, int]:
    group = {"group_id": GROUP, "topics": [{"name": "t", "partition_indexes": [0]}]}
    requested = cluster.ask(node_id, OFFSET_FETCH, 8, groups=[group], require_stable=True)
    cluster.settle()
    (found,) = requested.answer.groups
    (row,) = found.topics[0].partitions
    return row.error_code, row.committed_offset


@pytest.mark.parametrize("is_recreated", [False, True])
def test_no_offset_is_committed_of_a_topic_that_is_deleted_while_its_partition_is_added(is_recreated: bool) -> None:
    cluster = Transactions()
    requested = cluster.init()
    cluster.settle()
    producer = (requested.answer.producer_id, requested.answer.producer_epoch)
    waiting = commit_offset(cluster, 2, producer, version=5)
    assert waiting.answer is None
    deleted = cluster.image.topics.pop("t")
    if is_recreated:
        cluster.add_topic("t", 4).topic_id = uuid.uuid4()
    cluster.nodes[2].coordination.group_coordinator.forget_topics([deleted])
    cluster.settle()
    assert waiting.answer.topics[0].partitions[0].error_code == NOT_AVAILABLE
    cluster.end(1, producer)
    cluster.settle()
    if not is_recreated:
        cluster.add_topic("t", 4)
    assert fetched(cluster, 2) == (0, -1)


def test_offsets_of_a_transaction_count_with_its_marker_though_both_coordinators_moved() -> None:
    cluster = Transactions()
    producer = cluster.begun((0,))
    requested = commit_offset(cluster, 2, producer)
    cluster.settle()
    assert requested.answer.topics[0].partitions[0].error_code == 0
    assert fetched(cluster, 2) == (88, -1)
    index = partition_for(GROUP, 3)
    cluster.lead(OFFSETS, index, 3)
    cluster.settle()
    assert fetched(cluster, 3) == (88, -1), "what is open is read back"
    cluster.move(2)
    cluster.settle()
    cluster.end(2, producer)
    cluster.settle()
    assert fetched(cluster, 3) == (0, 7)
    assert cluster.state(2) == "CompleteCommit"


@pytest.mark.parametrize("interruption", range(1, 7))
def test_a_large_fetch_that_a_marker_interrupts_tells_no_offset_from_before_the_transaction_as_stable(
    interruption: int,
) -> None:
    cluster = Transactions()
    groups = cluster.nodes[2].groups
    groups.commit(GROUP, [(("t", 0), CommittedOffset(3))])
    producer = cluster.begun((0,))
    commit_offset(cluster, 2, producer)
    cluster.settle()
    pauses = 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1
        if pauses == interruption:
            groups.complete_transaction(producer[0], partition_for(GROUP, 3), is_commit=True)

    with pausing(pause):
        assert fetched(cluster, 2) in ((88, -1), (0, 7))
    assert pauses >= interruption
    assert fetched(cluster, 2) == (0, 7)


@pytest.mark.parametrize("request_of", ["group", "offsets", "topic"])
def test_a_deleted_offset_of_an_open_transaction_does_not_come_back_with_the_commit(request_of: str) -> None:
    cluster = Transactions()
    producer = cluster.begun((0,))
    commit_offset(cluster, 2, producer)
    cluster.settle()
    if request_of == "group":
        deleted = cluster.ask(2, DELETE_GROUPS, 2, groups_names=[GROUP])
        assert deleted.answer is None
        cluster.settle()
        assert deleted.answer.results[0].error_code == 0
    elif request_of == "offsets":
        topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
        deleted = cluster.ask(2, DELETE_OFFSETS, 0, group_id=GROUP, topics=topics)
        cluster.settle()
        assert deleted.answer.topics[0].partitions[0].error_code == 0
    else:
        cluster.nodes[2].groups.forget_topics([cluster.image.topics["t"]])
    cluster.lead(OFFSETS, partition_for(GROUP, 3), 3)
    cluster.settle()
    cluster.end(1, producer)
    cluster.settle()
    assert fetched(cluster, 3) == (0, -1)
    assert GROUP not in cluster.nodes[3].groups.groups


def test_a_share_group_takes_no_offsets_of_a_transaction() -> None:
    cluster = Transactions()
    cluster.add_topic("__share_group_state", 1, leader=1)
    cluster.ask(2, SHARE_BEAT, 1, group_id=GROUP, member_id="m", member_epoch=0, subscribed_topic_names=["t"])
    cluster.settle()
    requested = commit_offset(cluster, 2, cluster.begun((0,)))
    cluster.settle()
    assert requested.answer.topics[0].partitions[0].error_code == GROUP_NOT_FOUND
    assert not cluster.nodes[2].groups.offsets.pending


def test_a_marker_for_groups_that_are_being_read_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkatools.core.broker.coordinators.groups import offsets_topic

    cluster = Transactions()
    producer = cluster.begun((0,))
    commit_offset(cluster, 2, producer)
    cluster.settle()
    cluster.end(1, producer)
    cluster.replicate()
    monkeypatch.setattr(offsets_topic, "SLICE_BYTES", 1)
    index = partition_for(GROUP, 3)
    cluster.lead(OFFSETS, index, 3)
    (sent,) = cluster.sent
    sent.target = 3
    cluster.deliver()
    assert cluster.markers(OFFSETS) == [0, 0, 0]
    cluster.settle()
    assert cluster.markers(OFFSETS)[index] == 1
    assert fetched(cluster, 3) == (0, 7)


def test_an_offset_is_not_verified_by_a_node_that_does_not_coordinate_the_group() -> None:
    cluster = Transactions()
    producer = cluster.begun((0,))
    requested = commit_offset(cluster, 1, producer)
    assert requested.answer.topics[0].partitions[0].error_code == NOT_COORDINATOR
    assert not cluster.sent


@pytest.mark.parametrize("version", [4, 5])  # the client adds the partition, the group coordinator does
def test_an_answer_of_the_coordinator_that_arrives_after_the_marker_begins_no_transaction(version: int) -> None:
    cluster = Transactions()
    producer = cluster.begun((0,))
    if version == 4:
        identity = {"producer_id": producer[0], "producer_epoch": producer[1]}
        cluster.ask(1, ADD_OFFSETS, 4, transactional_id=ID, group_id=GROUP, **identity)
        cluster.settle()
    requested = commit_offset(cluster, 2, producer, version)
    (verification,) = cluster.sent
    respond, held = verification.on_response, []
    verification.on_response = held.append
    cluster.settle()
    cluster.end(1, producer, version)
    cluster.settle()
    assert (cluster.state(1), sum(cluster.markers(OFFSETS))) == ("CompleteCommit", 1)
    (answer,) = held
    respond(answer)
    cluster.settle()
    assert requested.answer.topics[0].partitions[0].error_code == INVALID_STATE
    assert fetched(cluster, 2) == (0, -1), "not unstable for good"
