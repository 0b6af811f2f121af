"""The routes of kt monitor --web for details and history, of an embedded broker."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from support.embedded import embedded_broker
from support.kt_process import start_kt
from support.live_groups import ClassicMember
from support.waiting import eventually

from kafkatools import Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import TOPIC, ConfigChange, incremental_alter_configs
from kafkatools.core.admin.topics import NewTopic, create_topics
from kafkatools.core.clock import SystemClock

Ask = Callable[..., tuple[int, Any]]
PASSWORD = "a-secret-of-the-broker"


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Requests a path of a monitor with fields. Its topics are all but `hidden`: `orders` has 5 records in its first
    partition, of which `shop` has consumed 2; its member `till` is assigned both partitions."""
    settings = {"ssl_keystore_password": PASSWORD, "num_partitions": "2"}
    with embedded_broker(tmp_path_factory.mktemp("broker"), **settings) as bootstrap:
        with AdminClient(bootstrap, {}, SystemClock()) as admin:
            create_topics(admin, [NewTopic("orders", 2, 1), NewTopic("hidden", 1, 1)])
            incremental_alter_configs(admin, {(TOPIC, "orders"): [ConfigChange("retention.ms", "3600000")]})
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(5):
                producer.send("orders", b"%d" % number, partition=0)
        words = ("--bootstrap-server", bootstrap, "--interval", "0.3", "--web", "0", "--regex", "--topic", "orders|_.*")
        with (
            ClassicMember(bootstrap, "till", "shop", {"orders": [0, 1]}) as member,
            start_kt(tmp_path_factory.mktemp("home"), "monitor", *words, stdout=subprocess.DEVNULL) as process,
        ):
            member.commit_own({("orders", 0): 2})
            assert process.stderr is not None
            root, _, token = process.stderr.readline().decode().split()[1].partition("?token=")

            def request(
                path: str, method: str = "GET", is_authorized: bool = True, **fields: object
            ) -> tuple[int, Any]:
                headers = {"Authorization": f"Bearer {token}"} if is_authorized else {}
                url = f"{root}{path}?{urlencode(fields)}"
                made = urllib.request.Request(url, headers=headers, method=method)
                try:
                    with urllib.request.urlopen(made, timeout=30) as answer:
                        return answer.status, json.loads(answer.read())
                except urllib.error.HTTPError as error:
                    with error:
                        text = error.read().decode()
                        return error.code, json.loads(text) if text.startswith("{") else text

            yield request
            process.send_signal(signal.SIGINT)
            process.wait(30)


def test_a_topic_has_settings_partitions_and_groups(ask: Ask) -> None:
    status, found = ask("topic.json", topic="orders")
    assert status == 200 and found["problems"] == []
    assert found["configs"][0] == {
        "name": "retention.ms", "value": "3600000", "source": "DYNAMIC_TOPIC_CONFIG", "default": False,
        "sensitive": False, "read_only": False,
    }  # fmt: skip
    assert {"cleanup.policy", "min.insync.replicas"} <= {entry["name"] for entry in found["configs"]}
    assert [(part["partition"], part["start_offset"], part["end_offset"], part["leader"])
            for part in found["partitions"]] == [(0, 0, 5, 1), (1, 0, 0, 1)]  # fmt: skip
    eventually(lambda: [one["lag"] for one in ask("topic.json", topic="orders")[1]["groups"]] == [3])
    eventually(lambda: ask("topic.json", topic="orders")[1]["partitions"][0]["messages_per_second"] == 0)


def test_a_group_has_members_and_lag_by_partition(ask: Ask) -> None:
    eventually(lambda: ask("group.json", group="shop")[1].get("partitions"))
    status, found = ask("group.json", group="shop")
    assert status == 200 and found["problems"] == []
    (member,) = found["members"]
    assert member["client"] == "till" and "127.0.0.1" in member["host"] and member["member"].startswith("till-")
    assert member["assignment"] == [{"topic": "orders", "partitions": [0, 1]}]
    (part,) = found["partitions"]
    assert {key: part[key] for key in ("topic", "partition", "committed", "end_offset", "lag", "owner")} == {
        "topic": "orders", "partition": 0, "committed": 2, "end_offset": 5, "lag": 3, "owner": member["member"],
    }  # fmt: skip
    assert part["lag_ms"] is None, "the records are older than the first snapshot"
    assert (found["summary"]["type"], found["coordinator"]["id"]) == ("Classic", 1)


def test_a_broker_has_disks_listeners_partitions_and_no_secrets(ask: Ask) -> None:
    status, found = ask("broker.json", broker=1)
    assert status == 200 and PASSWORD not in json.dumps(found)
    secret = next(entry for entry in found["configs"] if entry["name"] == "ssl.keystore.password")
    assert (secret["value"], secret["sensitive"], secret["default"]) == (None, True, False)
    assert found["listeners"]["listeners"].startswith("PLAINTEXT://")
    assert {part["topic"] for part in found["partitions"]} >= {"orders"} and found["not_in_sync"] == []
    assert found["summary"]["log_dirs"][0]["bytes"] > 0


@pytest.mark.slow
def test_history_of_everything(ask: Ask) -> None:
    eventually(lambda: len(ask("history.json")[1]["times"]) > 1 and ask("history.json")[1]["series"]["lag"][-1] == 3)
    _, cluster = ask("history.json")
    assert (cluster["kind"], cluster["kept"], cluster["kept_ms"]) == ("cluster", True, 3_600_000)
    assert cluster["series"]["lag"][-1] == 3
    assert ask("history.json", group="shop")[1]["series"]["lag"][-1] == 3
    assert ask("history.json", topic="orders")[1]["series"]["messages_per_second"][-1] == 0
    assert ask("history.json", broker=1)[1]["series"]["leaders"][-1] >= 2
    nothing = ask("history.json", topic="ghost")[1]
    assert (nothing["kept"], set(nothing["series"]["messages_per_second"])) == (False, {None})


@pytest.mark.parametrize(
    ("path", "fields", "status", "words"),
    [
        ("topic.json", {"topic": "ghost"}, 404, "Topic 'ghost' is not in the latest view"),
        ("topic.json", {"topic": "hidden"}, 404, "Topic 'hidden' is not in the latest view"),
        ("group.json", {"group": "ghost"}, 404, "Group 'ghost' is not in the latest view"),
        ("broker.json", {"broker": "7"}, 404, "Broker '7' is not in the latest view"),
        ("broker.json", {"broker": "one"}, 404, "Broker 'one' is not in the latest view"),
        ("broker.json", {}, 400, "Name the broker, and nothing else: /broker.json?broker=..."),
        ("topic.json", {"topic": ""}, 400, "Name the topic, and nothing else"),
        ("topic.json", {"topic": "orders", "group": "shop"}, 400, "Name the topic, and nothing else"),
        (
            "history.json",
            {"topic": "orders", "group": "shop"},
            400,
            "Choose one of the fields broker, topic, group, or",
        ),
        ("history.json", {"since": "1"}, 400, "Choose one of the fields broker, topic, group, or none"),
    ],
)
def test_what_cannot_be_described(ask: Ask, path: str, fields: dict[str, str], status: int, words: str) -> None:
    found, body = ask(path, **fields)
    assert found == status and body["error"].startswith(words)


@pytest.mark.parametrize("path", ["topic.json", "group.json", "broker.json", "history.json"])
def test_details_need_the_token_and_change_nothing(ask: Ask, path: str) -> None:
    assert ask(path, is_authorized=False, topic="orders")[0] == 401
    assert [ask(path, method, topic="orders")[0] for method in ("POST", "PUT", "DELETE")] == [405] * 3
