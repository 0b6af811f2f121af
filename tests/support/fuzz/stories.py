"""Requests as a correct client sends them, one step of a story each, with what the broker told last: topics, members of
groups, producers. They bring a broker into the states that requests which are almost right then meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from support.fuzz.messages import Memory

from kafkatools.core.protocol.messages import build, encode, request_type

SUBSCRIPTION = b"\0\1\0\0\0\1\0\5plain\0\0\0\0\0\0\0\0"
MEMBER = "AAAAAAAAAAAAAAAAAAAAAg"
_Fields = Callable[[Callable[[str, Any], Any], Random], Mapping[str, Any]]


def _topic(known: Callable[[str, Any], Any], rng: Random) -> Mapping[str, Any]:
    name = rng.choice(("plain", "plain", "compacted", "created"))
    configs = [{"name": "cleanup.policy", "value": "compact"}] if name == "compacted" else []
    topic = {"name": name, "num_partitions": 3, "replication_factor": 1, "configs": configs}
    return {"topics": [topic], "timeout": 1000}


def _join(known: Callable[[str, Any], Any], rng: Random) -> Mapping[str, Any]:
    return {
        "group_id": "classic",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": known("member_id", "") if rng.random() < 0.6 else "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    }


def _sync(known: Callable[[str, Any], Any], rng: Random) -> Mapping[str, Any]:
    member = known("member_id", "")
    return {
        "group_id": "classic",
        "generation_id": known("generation_id", 1),
        "member_id": member,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": member, "assignment": SUBSCRIPTION}],
    }


def _beat(known: Callable[[str, Any], Any], rng: Random) -> Mapping[str, Any]:
    is_new = rng.random() < 0.5
    return {
        "group_id": "modern",
        "member_id": "0123456789abcdefghijkl",
        "member_epoch": 0 if is_new else known("member_epoch", 1),
        "rebalance_timeout": 10_000 if is_new else -1,
        "subscribed_topic_names": ["plain"] if is_new else None,
        "topic_partitions": [] if is_new else None,
    }


def _share(known: Callable[[str, Any], Any], rng: Random) -> Mapping[str, Any]:
    epoch = 0 if rng.random() < 0.5 else known("member_epoch", 1)
    return {
        "group_id": "share",
        "member_id": MEMBER,
        "member_epoch": epoch,
        "subscribed_topic_names": ["plain"],
    }


def _share_fetch(known: Callable[[str, Any], Any], rng: Random) -> Mapping[str, Any]:
    partition = {"partition_index": 0, "acknowledgement_batches": []}
    return {
        "group_id": "share",
        "member_id": MEMBER,
        "share_session_epoch": rng.choice((0, 0, 1, 2)),
        "max_wait": 10,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "max_records": 10,
        "batch_size": 10,
        "topics": [{"topic_id": known("topic_id", None), "partitions": [partition]}],
    }


def _producer(known: Callable[[str, Any], Any], rng: Random) -> Mapping[str, Any]:
    return {
        "transactional_id": rng.choice(("tx", None)),
        "transaction_timeout": 10_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }


def _end(known: Callable[[str, Any], Any], rng: Random) -> Mapping[str, Any]:
    producer = {"producer_id": known("producer_id", 0), "producer_epoch": known("producer_epoch", 0)}
    return {"transactional_id": "tx", **producer, "committed": rng.random() < 0.5}


def _add(known: Callable[[str, Any], Any], rng: Random) -> Mapping[str, Any]:
    producer = {"producer_id": known("producer_id", 0), "producer_epoch": known("producer_epoch", 0)}
    return {"transactional_id": "tx", **producer, "group_id": "classic"}


def _find(known: Callable[[str, Any], Any], rng: Random) -> Mapping[str, Any]:
    return {"key_type": rng.choice((0, 1)), "coordinator_keys": ["tx", "classic"]}


STEPS: dict[tuple[int, int], _Fields] = {
    (10, 4): _find,
    (11, 5): _join,
    (14, 5): _sync,
    (19, 7): _topic,
    (22, 4): _producer,
    (25, 3): _add,
    (26, 4): _end,
    (68, 1): _beat,
    (76, 1): _share,
    (78, 1): _share_fetch,
}


def step(rng: Random, memory: Memory, keys: set[int]) -> tuple[int, int, bytes] | None:
    """The key, version and body of the next step; None where none of these APIs is served."""
    served = [pair for pair in STEPS if pair[0] in keys]
    if not served:
        return None

    def known(name: str, default: Any) -> Any:
        values = memory.values.get(name)
        return values[-1] if values else default

    api_key, version = rng.choice(served)
    return api_key, version, encode(build(request_type(api_key, version), STEPS[api_key, version](known, rng)))
