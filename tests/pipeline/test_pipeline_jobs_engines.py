"""The jobs in this process give the rows of the Spark jobs, over recorded directories, damaged ones too."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from support import recorded_segments
from support.embedded import embedded_broker
from support.kt import run_kt

from kafkatools import Admin, NewTopic, Producer

pytestmark = pytest.mark.usefixtures("spark")

SOUND = ("txn-java", "txn-librdkafka", "compacted", "compacted-txn", "message-set-v1-gzip", "codec-zstd-java")
DAMAGED = (
    "damaged-zero-middle", "damaged-bitflip-gzip-valid-crc", "damaged-length-minus-3", "damaged-magic-3",
    "damaged-record-count-more-valid-crc", "damaged-truncated-in-records", "damaged-v1-crc",
)  # fmt: skip


def rows(*words: str, status: int) -> list[dict[str, Any]]:
    ran = run_kt(*words, "--json")
    assert ran.status == status, ran
    return [json.loads(line) for line in ran.out.splitlines()]


def same_rows(*words: str, status: int = 0) -> list[dict[str, Any]]:
    """The rows of a job, the same from both engines."""
    here = rows(*words, status=status)
    assert here == rows(*words, "--engine", "spark", status=status)
    return here


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return _linked(tmp_path_factory.mktemp("sound"), SOUND)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return _linked(tmp_path_factory.mktemp("damaged"), DAMAGED)


def _linked(root: pathlib.Path, names: tuple[str, ...]) -> pathlib.Path:
    for name in names:
        (root / f"{name}-0").symlink_to(recorded_segments.log_directory(name))
    return root


@pytest.mark.parametrize("words", [(), ("--exact",), ("--exact", "--no-keys")])
def test_counts_are_the_same(words: tuple[str, ...], sound: pathlib.Path, damaged: pathlib.Path) -> None:
    assert len(same_rows("count", f"log:{sound}", *words)) == len(SOUND)
    assert len(same_rows("count", f"log:{damaged}", *words, status=3)) == len(DAMAGED)


@pytest.mark.parametrize("by", ["records", "bytes"])
def test_top_keys_are_the_same(by: str, sound: pathlib.Path, damaged: pathlib.Path) -> None:
    assert same_rows("top-keys", f"log:{sound}", "--by", by, "--top", "50")
    assert same_rows("top-keys", f"log:{damaged}", "--by", by, status=3)


@pytest.mark.parametrize("by", ["key", "offset", "multiset"])
@pytest.mark.parametrize("compare", ["key,value", "value,timestamp,headers"])
def test_differences_are_the_same(by: str, compare: str, tmp_path: pathlib.Path) -> None:
    sides = []
    for side, name in (("left", "compacted"), ("right", "compacted-purged")):
        directory = tmp_path / side
        directory.mkdir()
        (directory / "t-0").symlink_to(recorded_segments.log_directory(name))
        sides.append(f"log:{directory}")
    words = ("diff", *sides, "--by", by, "--compare", compare)
    assert same_rows(*words, status=3)[-1]["type"] == "summary"
    assert same_rows("diff", sides[0], sides[0], "--by", by, "--compare", compare) == [
        {"type": "summary", "only_left": 0, "only_right": 0, "changed": 0}
    ]


@pytest.mark.parametrize("words", [("--no-keys",), ("--top", "7")])
def test_profiles_are_the_same(
    words: tuple[str, ...], sound: pathlib.Path, damaged: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for root, status, batches in ((sound, 0, 6), (damaged, 3, 5)):
        profile = ("topic-profile", f"log:{root}", "--out", str(tmp_path / "page.html"), *words)
        here = rows(*profile, status=status)
        pages = [(tmp_path / "page.html").read_text()]
        assert here == rows(*profile, "--engine", "spark", status=status)
        pages.append((tmp_path / "page.html").read_text())
        assert pages[0].split("<footer>")[0] == pages[1].split("<footer>")[0]
        partitions = [row for row in here if row["type"] == "partition"]
        assert len(partitions) >= batches
        assert all(row["stored_bytes"] == row["size_bytes"] and row["size_basis"] == "batches" for row in partitions)
        assert any(row["type"] == "key" for row in here) is ("--top" in words)


def test_findings_are_the_same(damaged: pathlib.Path) -> None:
    directories = [str(path.resolve()) for path in sorted(damaged.iterdir())]
    assert same_rows("check", *directories, status=3)


def test_a_topic_is_counted_and_compared_with_its_files(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        lines = "".join(f"k{number % 7}\tv{number}\n" for number in range(500)).encode()
        server = ("--bootstrap-server", bootstrap)
        produced = run_kt("console-producer", *server, "--topic", "t", "--property", "parse.key=true", stdin=lines)
        assert produced.status == 0
        (count,) = same_rows("count", "topic:t", "--exact", *server)
        assert (count["records"], count["distinct_keys"]) == (500, 7)
        assert same_rows("top-keys", "topic:t", *server)[0]["records"] == 72
        log = f"log:{tmp_path}/data/t-0"
        assert same_rows("diff", "topic:t", log, "--by", "offset", *server)[-1]["only_left"] == 0
        words = ("--group", "g", "--topic", "t", "--reset-offsets", "--to-earliest", "--execute")
        assert run_kt("consumer-groups", *server, *words, cwd=tmp_path).status == 0
        page = tmp_path / "page.html"
        profile = same_rows("topic-profile", "topic:t", "--out", str(page), *server)
        (partition,) = (row for row in profile if row["type"] == "partition")
        assert partition["size_basis"] == "records"
        assert partition["size_bytes"] == sum(len(line) - 2 for line in lines.splitlines(keepends=True))
        assert partition["stored_bytes"] == sum(file.stat().st_size for file in (tmp_path / "data/t-0").glob("*.log"))
        assert [row["lag"] for row in profile if row["type"] == "lag"] == [500]
        assert "Bytes of keys and values, before compression." in page.read_text()


def test_aborted_and_open_transactions_are_left_out_unless_requested(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        server = ("--bootstrap-server", bootstrap)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic("t", 1), NewTopic("committed", 1)])
        with Producer(bootstrap_servers=bootstrap) as producer:
            for topic in ("t", "committed"):
                producer.send(topic, b"1", key=b"k")
        with Producer(bootstrap_servers=bootstrap, transactional_id="aborts") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("t", b"2", key=b"k").result()
            producer.abort_transaction()
        sides, log = ("diff", "topic:t", "topic:committed", *server), f"log:{tmp_path}/data/t-0"
        for by in ("key", "multiset"):
            assert same_rows(*sides, "--by", by)[-1] == {
                "type": "summary",
                "only_left": 0,
                "only_right": 0,
                "changed": 0,
            }
            assert same_rows("diff", log, "topic:committed", *server, "--by", by)[-1]["changed"] == 0
        everything = ("--isolation-level", "read_uncommitted")
        assert same_rows(*sides, *everything, status=3)[-1]["changed"] == 1
        assert same_rows(*sides, "--by", "offset", status=3)[-1]["only_left"] == 1
        assert [same_rows("top-keys", "topic:t", *server, *words)[0]["records"] for words in ((), everything)] == [1, 2]
        opened = Producer(bootstrap_servers=bootstrap, transactional_id="stays-open")
        opened.init_transactions()
        opened.begin_transaction()
        opened.send("t", b"3", key=b"open").result()
        ran = run_kt(*sides)
        opened.abort_transaction()
        opened.close()
        assert ran.err.startswith("t-0 ends at offset 3: the transaction of producer ")
        assert (ran.status, ran.err.splitlines()[-1]) == (0, "0 only-left, 0 only-right, 0 changed")
