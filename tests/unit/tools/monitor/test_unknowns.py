"""Groups while their coordinators change: an offset that was told is not forgotten before the new one tells it."""

from __future__ import annotations

from kafkatools.core.admin.topics import PartitionDescription, TopicDescription
from kafkatools.tools.monitor.unknowns import SETTLING_MS, Coordinators
from kafkatools.tools.monitor.view import GroupPartition, GroupView


def offsets_topic(leader: int) -> TopicDescription:
    part = PartitionDescription(0, leader, 1, (1, 2), (1, 2), ())
    return TopicDescription("__consumer_offsets", None, True, (part,), None)


def group(coordinator: int, *committed: int) -> GroupView:
    parts = tuple(GroupPartition("orders", partition, at, 5) for partition, at in enumerate(committed))
    return GroupView("shop", "Classic", "Empty", coordinator, 0, parts)


def test_offsets_that_a_new_coordinator_does_not_tell_yet_are_unknown() -> None:
    coordinators = Coordinators()
    coordinators.update(offsets_topic(1), [1, 2], {}, 0)
    assert coordinators.complete([group(1, 2, 2)]) == [group(1, 2, 2)]
    for now_ms, told in ((300, group(2)), (600, group(2, 2))):
        coordinators.update(offsets_topic(2), [2], {}, now_ms)
        (found,) = coordinators.complete([told])
        assert (found.partitions, found.lag) == (None, None)
        assert found.unknown == "broker 2 has not reported all of its offsets yet"
    coordinators.update(offsets_topic(2), [2], {}, 900)
    assert coordinators.complete([group(2, 2, 2)]) == [group(2, 2, 2)]


def test_offsets_that_are_gone_are_gone_once_coordinators_do_not_change() -> None:
    coordinators = Coordinators()
    coordinators.update(offsets_topic(1), [1, 2], {}, 0)
    coordinators.complete([group(1, 2, 2)])
    coordinators.update(offsets_topic(1), [1, 2], {}, 300)
    assert coordinators.complete([group(1)]) == [group(1)]


def test_a_group_that_was_not_listed_meanwhile_keeps_what_it_had() -> None:
    coordinators = Coordinators()
    coordinators.update(offsets_topic(1), [1, 2], {}, 0)
    coordinators.complete([group(1, 2, 2)])
    coordinators.update(offsets_topic(2), [2], {}, 300)
    coordinators.complete([group(1)._replace(partitions=None, unknown="its coordinator, broker 1, does not respond")])
    coordinators.update(offsets_topic(2), [2], {}, 600)
    assert coordinators.complete([group(2)])[0].partitions is None
    coordinators.update(offsets_topic(2), [2], {}, 600 + SETTLING_MS)
    assert coordinators.complete([group(2)]) == [group(2)]
