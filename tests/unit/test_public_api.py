"""What `import kafkatools` gives: every name loads, is documented, and costs nothing before it is used."""

from __future__ import annotations

import inspect
import pathlib
import re
import runpy
import subprocess
import sys
import threading
from typing import Any

import pytest

import kafkatools
from kafkatools import errors
from kafkatools.core.config import ADMIN, CONSUMER, PRODUCER, Config
from kafkatools.core.config.client_settings import config_of

ROOT = pathlib.Path(__file__).parents[2]
GENERATED = runpy.run_path(str(ROOT / "docs" / "generate_python.py"))
NOWHERE = "127.0.0.1:1"
CLIENTS = [kafkatools.Producer, kafkatools.Consumer, kafkatools.Admin]


@pytest.mark.parametrize("name", kafkatools.__all__)
def test_every_export_loads_and_says_what_it_is(name: str) -> None:
    found = getattr(kafkatools, name)
    assert inspect.getdoc(found)
    assert name in dir(kafkatools)


def test_type_checkers_see_what_is_exported() -> None:
    source = (ROOT / "kafkatools" / "__init__.py").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^    from kafkatools\S* import (\w+) as \1$", source, re.M)) == sorted(
        kafkatools.__all__
    )
    assert (ROOT / "kafkatools" / "py.typed").exists()


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Prodcer"):
        getattr(kafkatools, "Prodcer")  # noqa: B009


def test_import_alone_loads_nothing() -> None:
    code = "import sys; before = set(sys.modules); import kafkatools; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['kafkatools']"


@pytest.mark.parametrize(
    "made", [*CLIENTS, kafkatools.EmbeddedBroker, kafkatools.EmbeddedCluster], ids=lambda made: made.__name__
)
def test_every_public_method_is_documented_and_typed(made: type[Any]) -> None:
    for name, member in inspect.getmembers(made, inspect.isfunction):
        if not name.startswith("_") or name in ("__iter__",):
            assert inspect.getdoc(member), name
            assert "return" in member.__annotations__, name


@pytest.mark.parametrize("name", sorted(GENERATED["pages"]()))
def test_pages_made_from_docstrings_are_up_to_date(name: str) -> None:
    """When this fails: make docs"""
    page = (ROOT / "docs" / "python" / name).read_text(encoding="utf-8")
    assert page == GENERATED["pages"]()[name]


def test_guide_names_every_method_of_admin() -> None:
    guide = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", guide[guide.index("| About | Methods |") :]))
    methods = {name for name, _ in inspect.getmembers(kafkatools.Admin, inspect.isfunction) if not name.startswith("_")}
    assert methods - named == {"close"}


# --- errors


def test_every_error_of_the_protocol_is_in_errors() -> None:
    for error in errors.known_codes().values():
        assert getattr(errors, error.__name__) is error
        assert issubclass(error, kafkatools.KafkaError)


def test_errors_of_the_consumer_are_caught_by_the_public_names() -> None:
    from kafkatools.core.consumer import errors as raised

    assert issubclass(raised.NoOffsetForPartition, errors.NoOffsetForPartition)
    assert issubclass(raised.LogTruncation, errors.LogTruncation)
    assert raised.WakeupError is errors.WakeupError


def test_partition_is_the_same_class_everywhere() -> None:
    from kafkatools.core.consumer import subscription
    from kafkatools.core.log.format import filenames
    from kafkatools.core.producer import futures

    assert {subscription.TopicPartition, futures.TopicPartition, filenames.TopicPartition} == {
        kafkatools.TopicPartition
    }
    assert kafkatools.TopicPartition("t", 0) == ("t", 0) and str(kafkatools.TopicPartition("t", 0)) == "t-0"


# --- settings


def test_settings_are_a_mapping_keywords_or_both() -> None:
    config = config_of(PRODUCER, {"linger.ms": "7", "acks": "1"}, {"acks": "all", "bootstrap_servers": "a:1"})
    assert (config.linger_ms, config.acks, config.bootstrap_servers) == (7, "all", ("a:1",))


def test_keywords_win_over_a_config_that_stays_as_it_was() -> None:
    given = Config(CONSUMER, {"group.id": "g"})
    assert config_of(CONSUMER, given, {"group_id": "h"}).group_id == "h"
    assert given.group_id == "g"
    assert config_of(CONSUMER, given, {}) is given


@pytest.mark.parametrize("made", CLIENTS, ids=lambda made: made.__name__)
@pytest.mark.parametrize("settings", [{"bootstrap.server": "a:1"}, {"bootstrap_servers": "a:1"}])
def test_unknown_setting_names_the_nearest(made: type[Any], settings: dict[str, str]) -> None:
    with pytest.raises(errors.ConfigError, match=r"Did you mean bootstrap\.servers\?"):
        made(settings)
    with pytest.raises(errors.ConfigError, match=r"Did you mean bootstrap\.servers\?"):
        made(bootstrap_server="a:1")


@pytest.mark.parametrize("made", CLIENTS, ids=lambda made: made.__name__)
def test_wrong_settings_are_told_at_once(made: type[Any]) -> None:
    with pytest.raises(TypeError, match="settings are a mapping such as"):
        made("localhost:9092")
    with pytest.raises(errors.ConfigError, match="is text, not 1"):
        made({1: "a"})
    with pytest.raises(errors.ConfigError, match=r"bootstrap\.servers"):
        made()
    with pytest.raises(errors.ConfigError, match=r"retry\.backoff\.ms: Not a number of type LONG"):
        made(bootstrap_servers=NOWHERE, retry_backoff_ms="soon")


def test_settings_of_another_client_are_refused() -> None:
    with pytest.raises(errors.ConfigError, match="Expected producer settings, not consumer settings"):
        kafkatools.Producer(Config(CONSUMER, {"bootstrap.servers": NOWHERE}))
    assert kafkatools.Admin(Config(ADMIN, {"bootstrap.servers": NOWHERE})).close() is None


def test_setting_of_the_broker_is_checked_before_it_is_started() -> None:
    with pytest.raises(errors.ConfigError, match=r"Did you mean log\.retention\.ms\?"):
        kafkatools.EmbeddedBroker(log_retention_mss=1)
    with pytest.raises(errors.IllegalState, match="was not started"):
        _ = kafkatools.EmbeddedBroker().bootstrap


# --- what makes no sense


@pytest.mark.parametrize(
    ("arguments", "named", "wrong"),
    [
        ((b"t", b"v"), {}, TypeError),
        (("t", b"v"), {"headers": {"name": "text"}}, TypeError),
        (("t", b"v"), {"timestamp": 1.5}, TypeError),
        (("t", b"v"), {"partition": "0"}, TypeError),
        (("t", b"v"), {"partition": -1}, ValueError),
        (("t", b"v"), {"topic_name": "t"}, TypeError),
    ],
)
def test_record_that_makes_no_sense_is_refused(arguments: Any, named: dict[str, Any], wrong: type[Exception]) -> None:
    with kafkatools.Producer(bootstrap_servers=NOWHERE) as producer, pytest.raises(wrong):
        producer.send(*arguments, **named)


def test_as_many_keys_as_values() -> None:
    with kafkatools.Producer(bootstrap_servers=NOWHERE) as producer, pytest.raises(ValueError, match="1 values with 2"):
        producer.send_many("t", [b"v"], [b"k", b"l"])


def test_no_broker_is_the_cause_of_a_records_error() -> None:
    with kafkatools.Producer(bootstrap_servers=NOWHERE, max_block_ms=150) as producer:
        with pytest.raises(errors.Timeout, match="Topic t not present in metadata after 150 ms") as failed:
            producer.send("t", b"v").result()
        assert str(failed.value.__cause__) == "Connection to 127.0.0.1:1 failed: Connection refused"


def test_clients_are_of_no_use_after_close() -> None:
    producer, consumer, admin = (made(bootstrap_servers=NOWHERE) for made in CLIENTS)
    for client in (producer, consumer, admin):
        client.close()
        client.close()
    for call in (
        lambda: producer.send("t", b"v"),
        lambda: consumer.poll(0),
        lambda: next(iter(consumer)),
        lambda: consumer.assign([("t", 0)]),
        admin.list_topics,
    ):
        with pytest.raises(errors.IllegalState, match="closed"):
            call()


def test_consumer_refuses_seconds_and_names_for_partitions() -> None:
    with kafkatools.Consumer(bootstrap_servers=NOWHERE) as consumer:
        with pytest.raises(TypeError, match="int of milliseconds, not 0.5"):
            consumer.poll(0.5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="pair such as .*, not \"?'topic"):
            consumer.assign(["topic"])  # type: ignore[list-item]
        assert consumer.assignment() == []


def test_second_thread_in_a_consumer_is_told() -> None:
    """This thread is in a call, as far as the lock that every call takes can tell."""
    with kafkatools.Consumer(bootstrap_servers=NOWHERE) as consumer:
        told: list[BaseException] = []

        def call_it() -> None:
            for call in (lambda: consumer.poll(0), consumer.close):
                try:
                    call()
                except errors.IllegalState as error:
                    told.append(error)

        with consumer._call_lock:
            other = threading.Thread(target=call_it)
            other.start()
            other.join()
        assert [("several threads" in str(error)) for error in told] == [True, True]
        assert consumer.assignment() == []


def test_unknown_kinds_and_offsets_are_told_before_anything_is_sent() -> None:
    with kafkatools.Admin(bootstrap_servers=NOWHERE) as admin:
        with pytest.raises(ValueError, match="Known ones: topic, broker"):
            admin.describe_configs(("topics", "t"))
        with pytest.raises(ValueError, match="one of latest, earliest"):
            admin.list_offsets({("t", 0): "first"})
