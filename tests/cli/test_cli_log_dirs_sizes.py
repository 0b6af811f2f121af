"""kt log-dirs --sizes: sizes are those of the files, and a size that no broker reports is never 0."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import admin_tools
import pytest
from support.embedded import embedded_broker
from support.kt import run_kt
from support.scripted_cluster import ScriptedCluster


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("broker")


@pytest.fixture(scope="module")
def servers(directory: pathlib.Path) -> Iterator[tuple[str, ...]]:
    with embedded_broker(directory) as bootstrap:
        admin_tools.send(bootstrap, "small", 1, [(0, admin_tools.START)])
        admin_tools.send(bootstrap, "big", 2, [(0, admin_tools.START)] * 4 + [(1, admin_tools.START)] * 2)
        yield "--bootstrap-server", bootstrap


def rows(*words: str, status: int = 0) -> list[dict[str, Any]]:
    ran = run_kt("log-dirs", "--sizes", "--json", *words)
    assert ran.status == status, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def test_replicas_come_largest_first_with_the_size_of_their_files(
    servers: tuple[str, ...], directory: pathlib.Path
) -> None:
    on_disk = {
        path.name: sum(file.stat().st_size for file in path.glob("*.log"))
        for name in ("small", "big")
        for path in directory.glob(f"**/{name}-[0-9]")
    }
    found = {f"{row['topic']}-{row['partition']}": row["size"] for row in rows(*servers)}
    assert found == on_disk
    assert list(found) == ["big-0", "big-1", "small-0"]


def test_sums_by_topic_and_the_first_of_them(servers: tuple[str, ...]) -> None:
    sizes = {f"{row['topic']}-{row['partition']}": row["size"] for row in rows(*servers)}
    by_topic = {row["topic"]: row["size"] for row in rows(*servers, "--by", "topic")}
    assert by_topic == {"big": sizes["big-0"] + sizes["big-1"], "small": sizes["small-0"]}
    assert [row["topic"] for row in rows(*servers, "--by", "topic", "--top", "1")] == ["big"]
    (broker,) = rows(*servers, "--by", "broker")
    assert (broker["size"], broker["replicas"]) == (sum(sizes.values()), 3)


def test_a_person_reads_units(servers: tuple[str, ...]) -> None:
    """A batch with one record of a value of one byte has a header of 61 bytes and 8 more."""
    lines = run_kt("log-dirs", "--sizes", "--describe", *servers, "--top", "1").out.splitlines()
    assert [line.split()[:4] for line in lines[:2]] == [
        ["SIZE", "TOPIC", "PARTITION", "BROKER"],
        ["276", "B", "big", "0"],
    ]
    assert lines[2] == "Total: 483 B in 3 replicas"


def test_sizes_on_an_absent_broker_are_unknown() -> None:
    with ScriptedCluster({1: None, 2: None}, {"orders": [[1, 2], [1, 3]], "pay": [[3]]}).running() as cluster:
        servers = ("--bootstrap-server", cluster.bootstrap)
        found = rows(*servers, status=1)
        text = run_kt("log-dirs", "--sizes", "--by", "topic", *servers)
        sums = rows(*servers, "--by", "topic", status=1)
    assert [(row["topic"], row["partition"], row["broker"]) for row in found if row["size"] is None] == [
        ("orders", 1, 3),
        ("pay", 0, 3),
    ]
    assert [line.split() for line in text.out.splitlines()[1:3]] == [[">=2.9", "KiB", "orders", "4"], ["?", "pay", "1"]]
    assert text.err == "Unknown sizes: 2 replicas, which no log directory reports\n"
    assert [(row["topic"], row["size"], row["known_bytes"]) for row in sums] == [
        ("orders", None, 3 * cluster.size_bytes),
        ("pay", None, 0),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sizes", "--by", "disk"), "Invalid value of --by: 'disk'. It is one of replica, topic, broker"),
        (("--sizes", "--top", "0"), "--top 0 must be at least 1"),
        (("--describe", "--top", "3"), "--top needs --sizes"),
    ],
)
def test_wrong_input_is_a_usage_error(words: tuple[str, ...], message: str) -> None:
    ran = run_kt("log-dirs", *words)
    assert (ran.status, ran.err.splitlines()[0]) == (2, message)
