"""Courses of transactions, told request by request to a broker.

The same stories are told to Apache Kafka 4.3.1 (tests/golden/broker/transaction-stories.json holds its answers) and to
the embedded broker.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

from support.transaction_teller import Identity, Teller, error

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.builder import BatchBuilder

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "broker" / "transaction-stories.json"


def golden() -> dict[str, list[Any]]:
    """story -> what Apache Kafka answered."""
    answers: dict[str, list[Any]] = json.loads(GOLDEN.read_text())
    return answers


Story = Callable[[Teller], None]
STORIES: dict[str, Story] = {}


def story(tell: Story) -> Story:
    """One of the stories."""
    STORIES[tell.__name__] = tell
    return tell


def tell(bootstrap: str, name: str) -> list[Any]:
    """Tell a story to a broker; gives its answers."""
    teller = Teller(bootstrap, name)
    teller.find_coordinator(name)
    with teller.client:
        STORIES[name](teller)
    answers: list[Any] = json.loads(json.dumps(teller.answers))
    return answers


@story
def old_client(s: Teller) -> None:
    """Transaction version 1: partitions are added, epochs stay."""
    t, x = s.topic(2), "old_client.x"
    p = s.init(x, version=4)
    s.describe(x)
    s.produce(x, p, (t, 0), 0)  # not added yet
    s.produce(x, p, (t, 0), 0, version=9)
    s.add(x, p, [(t, 0)])
    s.produce(x, p, (t, 0), 0, values=[b"a", b"b"])
    s.produce(x, p, (t, 0), 0, values=[b"a", b"b"])
    s.describe(x)
    s.producers((t, 0))
    s.read((t, 0))
    s.end(x, p, commit=True)
    s.end(x, p, commit=True)
    s.end(x, p, commit=False)
    s.describe(x)
    s.producers((t, 0))
    s.read((t, 0))
    s.add(x, p, [(t, 0), (t, 1)])
    s.produce(x, p, (t, 0), 2, values=[b"c"])
    s.produce(x, p, (t, 1), 0, values=[b"d"])
    s.end(x, p, commit=False)
    s.end(x, p, commit=False)
    s.end(x, p, commit=True)
    s.read((t, 0))
    s.read((t, 1))
    s.read((t, 1), committed=False)
    s.end(x, (p[0], p[1] + 1), commit=True)
    s.end(x, (p[0], p[1] - 1), commit=True, version=1)
    s.end(x, (p[0] + 1000, p[1]), commit=True)
    s.end("", p, commit=True)
    s.end(x + ".unknown", p, commit=True)


@story
def new_client(s: Teller) -> None:
    """Transaction version 2: produce adds partitions, every end raises the epoch."""
    t, x = s.topic(2), "new_client.x"
    p = s.init(x)
    s.produce(x, p, (t, 0), 1, version=12)  # the first must be sequence 0
    s.produce(x, p, (t, 0), 0, version=12, values=[b"a"])
    s.produce(x, p, (t, 0), 1, version=12, values=[b"b"])
    s.describe(x)
    q = s.end(x, p, commit=True, version=5)
    s.end(x, p, commit=True, version=5)
    s.end(x, p, commit=False, version=5)
    s.end(x, q, commit=True, version=5)
    s.describe(x)
    s.producers((t, 0))
    s.produce(x, p, (t, 0), 2, version=12)
    s.produce(x, q, (t, 1), 0, version=12, values=[b"c"])
    r = s.end(x, q, commit=False, version=5)
    s.end(x, q, commit=False, version=5)
    s.end(x, q, commit=True, version=5)
    e = s.end(x, r, commit=False, version=5)  # nothing was written
    s.describe(x)
    s.read((t, 0))
    s.read((t, 1))
    s.produce(x, e, (t, 0), 0, version=12, values=[b"d"])
    s.end(x, (e[0], e[1] - 1), commit=True, version=5)
    s.end(x, (e[0], e[1] + 1), commit=True, version=5)
    s.end(x, e, commit=True, version=5)
    s.producers((t, 0))
    y = "new_client.y"
    p = s.init(y)
    s.end(y, p, commit=True, version=5)
    s.end(y, (p[0], p[1] + 1), commit=False, version=5)
    p = s.end(y, p, commit=False, version=5)
    s.describe(y)


@story
def fencing(s: Teller) -> None:
    """A second producer of the same transactional id ends the first."""
    t, x = s.topic(), "fencing.x"
    p = s.init(x)
    q = s.init(x)
    s.add(x, p, [(t, 0)])
    s.add(x, p, [(t, 0)], version=1)
    s.produce(x, p, (t, 0), 0, version=12)
    s.produce(x, p, (t, 0), 0)
    s.end(x, p, commit=True)
    s.end(x, p, commit=True, version=5)
    s.produce(x, q, (t, 0), 0, version=12, values=[b"open"])
    s.init(x)
    s.settle(x)
    s.describe(x)
    r = s.init(x)
    s.produce(x, q, (t, 0), 1, version=12)
    s.produce(x, q, (t, 0), 1)
    s.end(x, q, commit=True, version=5)
    s.read((t, 0))
    s.producers((t, 0))
    s.produce(x, r, (t, 0), 0, version=12, values=[b"new"])
    s.end(x, r, commit=True, version=5)
    s.read((t, 0))


@story
def recovery(s: Teller) -> None:
    """A producer goes on after an error and names the identity it has (KIP-360)."""
    t, x = s.topic(), "recovery.x"
    p = s.init(x, version=4)
    q = s.init(x, version=4, expected=p)
    again = s.init(x, version=4, expected=p)
    assert again == q
    s.init(x, version=4, expected=(q[0], q[1] + 5))
    s.init(x, version=3, expected=(q[0], q[1] + 5))
    s.init(x, version=4, expected=(q[0] + 500, q[1]))
    s.init(x, version=4, expected=(q[0], -1))
    s.init(x, version=4, expected=(-1, 0))
    s.add(x, q, [(t, 0)])
    s.produce(x, q, (t, 0), 0)
    s.init(x, version=4, expected=q)
    s.settle(x)
    r = s.init(x, version=4, expected=q)
    s.init(x, version=4, expected=r)
    s.init(x + ".new", version=4, expected=(77, 3))
    s.init(x, timeout_ms=900001)
    s.init(x, timeout_ms=0)
    s.init("")
    s.describe(x)
    s.describe(x + ".unknown")
    s.describe("")
    s.read((t, 0))


@story
def offsets(s: Teller) -> None:
    """Offsets of groups in transactions (KIP-447)."""
    t, x, g = s.topic(), "offsets.x", "offsets.g"
    s.find_coordinator(g, kind=0)
    p = s.init(x, version=4)
    s.commit_offset(x, p, g, (t, 0, 5))
    s.commit_offset(x, p, g, (t, 0, 5), version=3)
    s.add_offsets(x, p, g)
    s.add_offsets(x, (p[0], p[1] + 1), g)
    s.add_offsets(x, (p[0], p[1] + 1), g, version=1)
    s.add_offsets(x, (p[0] + 1000, p[1]), g)
    s.commit_offset(x, p, g, (t, 0, 5))
    s.offset(g, (t, 0))
    s.offset(g, (t, 0), stable=False)
    s.commit_offset(x, p, g, (t, 9, 5))
    s.commit_offset(x, p, g, (t, 0, 5), member=("m", 3))
    s.commit_offset(x, p, g + ".other", (t, 0, 5), member=("m", 3))
    s.end(x, p, commit=True)
    s.offset(g, (t, 0))
    s.add_offsets(x, p, g)
    s.commit_offset(x, p, g, (t, 0, 9), version=0)
    s.offset(g, (t, 0))
    s.offset(g, (t, 0), stable=False)
    s.end(x, p, commit=False)
    s.offset(g, (t, 0))
    p = s.init(x)
    s.commit_offset(x, p, g, (t, 0, 11), version=5)
    s.describe(x)
    s.offset(g, (t, 0))
    q = s.end(x, p, commit=True, version=5)
    s.offset(g, (t, 0))
    s.commit_offset(x, p, g, (t, 0, 12), version=5)
    s.commit_offset(x, q, "", (t, 0, 12), version=5)
    s.commit_offset(x, q, g, (t, 0, 12), version=5)
    s.commit_offset(x, q, g, (t, 0, 13), version=5)
    s.end(x, q, commit=False, version=5)
    s.offset(g, (t, 0))


@story
def batched(s: Teller) -> None:
    """AddPartitionsToTxn as brokers send it, and what keeps partitions from being added."""
    t, x, y = s.topic(2), "batched.x", "batched.y"
    p, q = s.init(x), s.init(y)
    s.add_batch((x, p, [(t, 0)], True), (y, q, [(t, 1)], False))
    s.add_batch((x, p, [(t, 0), (t, 1)], False), (y, q, [(t, 0), (t, 1)], True), version=4)
    s.describe(x)
    s.add_batch((x, (p[0], 9), [(t, 0)], True), (y, (q[0] + 1000, 0), [(t, 0)], True))
    s.add_batch((x, p, [(t, 0), ("batched.missing", 0), (t, 7)], False))
    s.add_batch((x + ".unknown", p, [(t, 0)], False))
    s.add_batch(("", p, [(t, 0)], False))
    s.add_batch(("", p, [(t, 0)], True))
    s.add(x, p, [(t, 0), ("batched.missing", 0), (t, 7)])
    s.add(x, p, [("__consumer_offsets", 0)])
    s.add("", p, [(t, 0)])
    s.end(x, p, commit=True, version=5)
    s.end(y, q, commit=False, version=5)


@story
def listing(s: Teller) -> None:
    """ListTransactions and its filters."""
    t = s.topic()
    x, y, z = (f"listing.{name}" for name in "xyz")
    p, q, r = s.init(x), s.init(y), s.init(z)
    s.produce(x, p, (t, 0), 0, version=12)
    s.produce(y, q, (t, 0), 0, version=12)
    s.end(y, q, commit=True, version=5)
    s.list()
    s.list(version=0)
    s.list(state_filters=["Ongoing"])
    s.list(state_filters=["Ongoing", "Empty", "Bogus"])
    s.list(state_filters=["Bogus"])
    s.list(producer_id_filters=[p[0], r[0]])
    s.list(state_filters=["Ongoing"], duration_filter=0, version=1)
    s.list(state_filters=["Ongoing"], duration_filter=3600000)
    s.list(transactional_id_pattern="listing\\.[xz]")
    s.list(transactional_id_pattern="listing")
    s.list(transactional_id_pattern="")
    s.list(transactional_id_pattern="(")
    s.end(x, p, commit=False, version=5)


@story
def markers(s: Teller) -> None:
    """Markers written from outside, as kafka-transactions.sh --abort does."""
    t, x = s.topic(), "markers.x"
    s.init(x)
    p = s.init(x)
    s.produce(x, p, (t, 0), 0, version=12, values=[b"hanging"])
    s.marker((t, 0), (p[0], p[1] - 1), commit=False, coordinator_epoch=0)
    s.marker((t, 0), p, commit=False, coordinator_epoch=0, version=2)
    s.marker((t, 0), (p[0], p[1] - 1), commit=False, coordinator_epoch=0, version=2)
    s.producers((t, 0))
    s.marker((t, 0), p, commit=False, coordinator_epoch=7)
    s.read((t, 0))
    s.producers((t, 0))
    s.marker((t, 0), p, commit=False, coordinator_epoch=3)
    s.marker((t, 0), p, commit=True, coordinator_epoch=7)
    s.marker((t, 5), p, commit=True, coordinator_epoch=7)
    s.marker((t, 0), (p[0] + 1000, 0), commit=True, coordinator_epoch=0)
    s.producers((t, 5))
    s.read((t, 0), committed=False)


@story
def plain_records(s: Teller) -> None:
    """Idempotent and transactional records do not mix; a transactional id is needed."""
    t, x = s.topic(), "plain_records.x"
    p = s.init(x)
    s.produce(None, p, (t, 0), 0)
    s.produce(x, p, (t, 0), 1, version=12)
    s.produce(None, p, (t, 0), 2)
    s.end(x, p, commit=True, version=5)
    p = s.init(x)
    s.produce(x, p, (t, 0), 5, version=12)
    s.produce("plain_records.other", p, (t, 0), 2, version=12)
    s.produce("plain_records.other", p, (t, 0), 2, version=11)
    s.produce("plain_records.other", p, (t, 0), 2, version=10)
    s.read((t, 0))


def _batch(producer: Identity, sequence: int, *, is_transactional: bool = True) -> bytes:
    builder = BatchBuilder(
        1 << 16,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    builder.append(int(time.time() * 1000), None, b"v")
    return bytes(builder.close())


@story
def several_partitions(s: Teller) -> None:
    """Produce to several partitions of which not all are well; a topic that is deleted in mid-transaction."""
    t, u, x = s.topic(2), s.topic(1, "u"), "several_partitions.x"
    p = s.init(x)
    s.produce(x, p, (t, 0), 0, version=12)
    s.produce(x, p, (u, 0), 0, version=12)
    s.delete_topic(u)
    p = s.end(x, p, commit=True, version=5)
    s.describe(x)

    def produce(version: int, *partitions: tuple[int, bytes]) -> None:
        data = [{"index": index, "records": records} for index, records in partitions]
        fields = {
            "transactional_id": x,
            "acks": -1,
            "timeout": 10000,
            "topic_data": [{"name": t, "partition_data": data}],
        }
        found = s.client.call(ApiKey.PRODUCE, version, fields).responses[0].partition_responses
        s.note("produce", sorted([each.index, error(each.error_code), each.base_offset] for each in found))

    produce(12, (0, _batch(p, 0)), (1, _batch(p, 0)[:-1] + b"\xff"))
    produce(12, (0, _batch(p, 1)), (7, _batch(p, 0)))
    produce(11, (0, _batch(p, 2)), (1, _batch(p, 0)))
    s.describe(x)
    produce(12, (0, _batch(p, 3)), (1, _batch((p[0] + 50, 0), 0)))
    produce(12, (0, _batch(p, 3)), (1, _batch(p, 0, is_transactional=False)))
    s.end(x, p, commit=False, version=5)
    s.read((t, 0))
    s.read((t, 1))


@story
def members(s: Teller) -> None:
    """Offsets of a group with a member: its generation counts, a rebalance does not."""
    t, x, g = s.topic(), "members.x", "members.g"
    s.find_coordinator(g, kind=0)
    p = s.init(x)
    fields: dict[str, Any] = {
        "group_id": g,
        "session_timeout": 30000,
        "rebalance_timeout": 30000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": bytes(10)}],
    }
    for _ in range(100):
        joined = s.client.call(ApiKey.JOIN_GROUP, 5, fields)
        if error(joined.error_code) == "OK":
            break
        fields["member_id"] = joined.member_id
        time.sleep(0.05)
    me = (str(joined.member_id), int(joined.generation_id))
    s.commit_offset(x, p, g, (t, 0, 1), version=5, member=me)
    sync: dict[str, Any] = {"group_id": g, "generation_id": me[1], "member_id": me[0], "group_instance_id": None}
    sync["assignments"] = [{"member_id": me[0], "assignment": b""}]
    s.note("sync", error(s.client.call(ApiKey.SYNC_GROUP, 3, sync).error_code))
    s.commit_offset(x, p, g, (t, 0, 2), version=5, member=me)
    s.commit_offset(x, p, g, (t, 0, 3), version=5, member=(me[0], me[1] - 1))
    s.commit_offset(x, p, g, (t, 0, 4), version=5, member=("other", me[1]))
    s.commit_offset(x, p, g, (t, 0, 5), version=5)
    p = s.end(x, p, commit=True, version=5)
    s.offset(g, (t, 0))
    h = g + ".deleted"
    s.find_coordinator(h, kind=0)
    s.commit_offset(x, p, h, (t, 0, 4), version=5)
    deleted = s.client.call(ApiKey.DELETE_GROUPS, 2, {"groups_names": [h]})
    s.note("delete", error(deleted.results[0].error_code))
    s.end(x, p, commit=True, version=5)
    s.offset(h, (t, 0))
    leave = {"group_id": g, "members": [{"member_id": me[0], "group_instance_id": None}]}
    s.client.call(ApiKey.LEAVE_GROUP, 3, leave)
