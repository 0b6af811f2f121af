"""The partitions of a supervised reassignment, look by look, against brokers that answer from a script."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.scripted_cluster import ScriptedCluster

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError, KafkaStorageError, NotController, ReplicaNotAvailable, RequestTimedOut
from kafkatools.tools.reassignment.moves import Job, Moves, Progress

T0, T1 = ("t", 0), ("t", 1)
Told = list[tuple[tuple[str, int], str | None]]


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(dict.fromkeys((1, 2, 3)), {"t": [[1, 2], [2, 1]]}).running() as running:
        running.steps = 3
        yield running


@pytest.fixture
def admin(cluster: ScriptedCluster) -> Iterator[AdminClient]:
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as client:
        yield client


def started(admin: AdminClient, jobs: dict[tuple[str, int], Job]) -> tuple[Moves, Told]:
    told: Told = []
    moves = Moves(jobs, frozenset(), 50, lambda key, error: told.append((key, error)))
    moves.begin_more(admin)
    return moves, told


def test_bytes_grow_until_the_partition_is_done(admin: AdminClient) -> None:
    moves, told = started(admin, {T0: Job((1, 2), (1, 3), 1000)})
    samples = [moves.read_progress(admin, now) for now in range(4)]
    assert [each.flows[("to", 3)] for each in samples] == [250, 500, 750, 1000]
    assert [each.flows[("from", 1)] for each in samples] == [250, 500, 750, 1000]
    assert [each.left_bytes for each in samples] == [750, 500, 250, 0]
    assert told == [(T0, None)]
    assert moves.progress() == Progress(1000, 1000, 0, 0, 1, 0)
    assert moves.is_over


def test_order_alone_copies_nothing(admin: AdminClient) -> None:
    moves, told = started(admin, {T0: Job((1, 2), (2, 1), 1000)})
    for now in range(4):
        moves.read_progress(admin, now)
    assert told == [(T0, None)]
    assert moves.progress() == Progress(0, 0, 0, 0, 1, 0)


def test_partition_that_somebody_else_cancelled_has_failed_after_a_while(
    admin: AdminClient, cluster: ScriptedCluster
) -> None:
    moves, told = started(admin, {T0: Job((1, 2), (1, 3), 1000), T1: Job((2, 1), (2, 3), 1000)})
    cluster.moving.pop(T0)
    moves.read_progress(admin, 0)
    assert told == []  # a broker may be behind the controller
    for now in (5_000, 10_000, 15_000):
        moves.read_progress(admin, now)
    assert sorted(told) == [
        (T0, "Another user cancelled or changed the reassignment: its replicas are 1,2"),
        (T1, None),
    ]
    assert moves.failed.keys() == {T0}
    assert moves.progress() == Progress(1000, 1000, 0, 0, 1, 1)


def test_log_directories_are_requested_again_until_a_replica_is_on_its_way(
    admin: AdminClient, cluster: ScriptedCluster
) -> None:
    cluster.log_dir_errors["t", 0, 1] = [ReplicaNotAvailable.code, RequestTimedOut.code]
    moves, told = started(admin, {T0: Job((1, 2), (1, 2), 1000, log_dirs={1: "/more"}, log_dirs_before={1: "/data1"})})
    samples = [moves.read_progress(admin, now) for now in range(3)]
    assert cluster.log_dir_errors["t", 0, 1] == [] and cluster.future_dirs == {("t", 0, 1): "/more"}
    assert [sample.left_bytes for sample in samples] == [1000, 1000, 990]
    assert told == [] and cluster.alterations == []
    assert moves.cancel(admin) == {}
    assert cluster.future_dirs == {("t", 0, 1): "/data1"}, "the present directory cancels a move"


def test_a_broker_that_refuses_a_directory_fails_the_partition_before_it_moves(
    admin: AdminClient, cluster: ScriptedCluster
) -> None:
    cluster.log_dir_errors["t", 0, 3] = [KafkaStorageError.code]
    jobs = {T0: Job((1, 2), (1, 3), 1000, log_dirs={3: "/more"}), T1: Job((2, 1), (2, 3), 1000)}
    moves, told = started(admin, jobs)
    ((key, reason),) = told
    assert key == T0 and reason is not None and reason.startswith("Broker 3 cannot use /more: ")
    assert [sorted(each) for each in cluster.alterations] == [[T1]]
    assert moves.progress().failed == 1


def test_a_replica_that_another_user_moves_elsewhere_has_failed(admin: AdminClient, cluster: ScriptedCluster) -> None:
    moves, told = started(admin, {T0: Job((1, 2), (1, 2), 1000, log_dirs={1: "/more"})})
    cluster.future_dirs["t", 0, 1] = "/other"
    moves.read_progress(admin, 0)
    assert told == [(T0, "Another user moves the replica on broker 1 to /other")]
    assert moves.is_over


def test_replicas_that_stay_are_watched_and_those_behind_before_are_not(
    admin: AdminClient, cluster: ScriptedCluster
) -> None:
    jobs = {T0: Job((1, 2), (1, 2, 3), 1000, frozenset({2})), T1: Job((2, 1), (2, 1, 3), 1000)}
    moves, _ = started(admin, jobs)
    cluster.out_of_sync = {T0: {2}, T1: {1}}
    assert moves.read_progress(admin, 0).out_of_sync == 1
    cluster.out_of_sync = {T0: {2}}
    assert moves.read_progress(admin, 1).out_of_sync == 0


def test_request_that_failed_as_a_whole_is_repeated_with_the_next(admin: AdminClient, cluster: ScriptedCluster) -> None:
    told: Told = []
    jobs = {T0: Job((1, 2), (1, 3), 1000), T1: Job((2, 1), (2, 3), 1000)}
    moves = Moves(jobs, frozenset(), 1, lambda key, error: told.append((key, error)))
    cluster.failed_alterations = [RequestTimedOut.code]
    with pytest.raises(RequestTimedOut):
        moves.begin_more(admin)
    assert told == []
    for now in range(0, 20_000, 1_000):
        moves.begin_more(admin)
        moves.read_progress(admin, now)
    assert told == [(T0, None), (T1, None)]
    assert [sorted(each) for each in cluster.alterations] == [[], [T0], [T1]]


def test_request_is_repeated_when_the_controller_was_not_found(admin: AdminClient, cluster: ScriptedCluster) -> None:
    jobs = {T0: Job((1, 2), (1, 3), 1000)}
    told: Told = []
    moves = Moves(jobs, frozenset(), 50, lambda key, error: told.append((key, error)))
    admin.brokers()
    cluster.failed_alterations = [NotController.code]
    cluster.hides_nodes = True
    admin.timeout_ms = 500
    with pytest.raises(KafkaError):
        moves.begin_more(admin)
    cluster.hides_nodes = False
    admin.timeout_ms = 60_000
    for now in range(0, 20_000, 1_000):
        moves.begin_more(admin)
        moves.read_progress(admin, now)
    assert told == [(T0, None)]


def test_cancelling_includes_a_request_whose_outcome_is_unknown(admin: AdminClient, cluster: ScriptedCluster) -> None:
    moves = Moves({T0: Job((1, 2), (1, 3), 1000)}, frozenset(), 50, lambda key, error: None)
    cluster.failed_alterations = [RequestTimedOut.code]
    with pytest.raises(RequestTimedOut):
        moves.begin_more(admin)
    cluster.moving[T0] = [1, 3]  # the controller has made the change after all
    assert moves.cancel(admin) == {}
    assert cluster.moving == {}
