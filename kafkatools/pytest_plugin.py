"""Fixtures of pytest: a Kafka for tests, without Docker or a JVM (docs/testing.md).

Rules: pytest loads this module in every run, so it imports only pytest, and everything else on first use. No fixture is
`autouse`. A fixture undoes what its test changed. A worker of pytest-xdist has brokers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping

import pytest

TYPE_CHECKING = False  # as typing's, so that typing is not imported for it

if TYPE_CHECKING:
    from typing import TypeVar

    from kafkatools.sandbox.embedded_broker import EmbeddedBroker
    from kafkatools.sandbox.faults.control import Faults
    from kafkatools.testing.kafka import Kafka, KafkaCluster, Topic

    TopicFactory = Callable[..., Topic]
    _K = TypeVar("_K", bound=Kafka)

_KAFKA = pytest.StashKey["dict[str, Kafka]"]()
_CREATED = pytest.StashKey["list[Topic]"]()
_CLIENT_SETTINGS = pytest.StashKey["Mapping[str, object]"]()
_BEGAN_MS = pytest.StashKey[int]()
_RECORDS = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the fixtures."""
    group = parser.getgroup("kafka", "Kafka (kafkatools)")
    group.addoption(
        "--kafka-bootstrap",
        metavar="HOST:PORT",
        help="run the tests on this Kafka instead of an embedded broker; tests that kill brokers or add faults skip",
    )
    group.addoption(
        "--kafka-config",
        metavar="FILE",
        help="properties of the clients of --kafka-bootstrap, such as security.protocol and sasl.jaas.config",
    )
    group.addoption(
        "--kafka-keep",
        metavar="DIRECTORY",
        help="copy the logs of a failed test's topics to DIRECTORY/TEST (embedded broker only)",
    )
    group.addoption(
        "--kafka-records",
        metavar="N",
        type=int,
        default=_RECORDS,
        help="show the last N records of each topic in the report of a failed test, 0: none (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse invalid options before a test runs."""
    address = config.getoption("--kafka-bootstrap")
    if address is not None:
        from kafkatools.core.errors import ConfigError
        from kafkatools.core.net.addresses import parse_bootstrap_servers

        try:
            parse_bootstrap_servers(address)
        except ConfigError as error:
            raise pytest.UsageError(f"--kafka-bootstrap: {error}") from None
    if config.getoption("--kafka-records") < 0:
        raise pytest.UsageError("--kafka-records: the number of records is 0 or more")
    if address is not None and config.getoption("--kafka-keep") is not None:
        raise pytest.UsageError("--kafka-keep needs the embedded broker: leave out --kafka-bootstrap")
    if address is None and config.getoption("--kafka-config") is not None:
        raise pytest.UsageError("--kafka-config is for the clients of --kafka-bootstrap, which is missing")
    settings = config.stash[_CLIENT_SETTINGS] = _client_settings(config.getoption("--kafka-config"))
    if address is not None:
        from kafkatools.testing.unittest_case import run_on

        run_on(address, settings)


def _client_settings(path: str | None) -> Mapping[str, object]:
    if path is None:
        return {}
    import os

    from kafkatools.core.config import ADMIN, Config
    from kafkatools.core.errors import ConfigError
    from kafkatools.exit_status import CommandError
    from kafkatools.options.indirect_settings import IndirectSettings
    from kafkatools.options.properties import read_properties

    try:
        environ = os.environ  # noqa: TID251 - the file names a variable by ${env:NAME}
        settings = IndirectSettings(environ).resolved(read_properties(path), path)
        Config(ADMIN, {"bootstrap.servers": "localhost:9092", **settings})
    except (CommandError, ConfigError) as error:
        raise pytest.UsageError(f"--kafka-config {path}: {error}") from None
    return settings


@pytest.fixture(scope="session")
def kafka_settings() -> Mapping[str, object]:
    """Settings of the embedded brokers, by Kafka's names; override this fixture in conftest.py to change them."""
    return {}


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config, kafka_settings: Mapping[str, object]) -> Iterator[Kafka]:
    """The Kafka of this test session: an embedded broker, or the one of --kafka-bootstrap.

    `kafka.bootstrap_servers` is its address; `topic`, `producer`, `consumer`, `admin`, `records` and
    `wait_for_records` are helpers.
    """
    from kafkatools.testing.kafka import Kafka

    address = pytestconfig.getoption("--kafka-bootstrap")
    settings = pytestconfig.stash[_CLIENT_SETTINGS]
    with _started(
        lambda: Kafka(kafka_settings, bootstrap_servers=address, client_settings=settings), address
    ) as started:
        running = pytestconfig.stash.setdefault(_KAFKA, {})
        running["kafka"] = started
        yield started
        del running["kafka"]


@pytest.fixture
def kafka_topic(kafka_topic_factory: TopicFactory) -> Topic:
    """A topic of this test alone, with one partition: its name, as a str with methods such as `send` and `values`.
    It is deleted after the test."""
    return kafka_topic_factory()


@pytest.fixture
def kafka_topic_factory(request: pytest.FixtureRequest, kafka: Kafka) -> Iterator[TopicFactory]:
    """A function that creates topics, deleted after the test: `kafka_topic_factory("orders-", partitions=3,
    configs={"cleanup.policy": "compact"})`. A name that ends in `-` gets a random part."""
    yield from _topics(request, kafka)


@pytest.fixture
def kafka_broker(pytestconfig: pytest.Config, kafka: Kafka) -> Iterator[EmbeddedBroker]:
    """The embedded broker of the session, for tests that kill it; it runs again after the test. Skips the test with
    --kafka-bootstrap."""
    _ensure_embedded(pytestconfig, "kafka_broker")
    yield kafka.broker
    kafka.restore()


@pytest.fixture
def kafka_faults(pytestconfig: pytest.Config, kafka: Kafka) -> Iterator[Faults]:
    """The faults of the embedded broker: `kafka_faults.add("delay", delay_ms=200)`, removed after the test. Skips the
    test with --kafka-bootstrap."""
    _ensure_embedded(pytestconfig, "kafka_faults")
    yield kafka.faults
    kafka.restore()


@pytest.fixture(scope="session")
def _kafka_cluster(pytestconfig: pytest.Config, kafka_settings: Mapping[str, object]) -> Iterator[KafkaCluster]:
    from kafkatools.testing.kafka import KafkaCluster

    with _started(lambda: KafkaCluster(kafka_settings)) as started:
        running = pytestconfig.stash.setdefault(_KAFKA, {})
        running["kafka_cluster"] = started
        yield started
        del running["kafka_cluster"]


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """An embedded cluster of three nodes with the helpers of `kafka`, and `kill`, `restart` and `leader`.

    The session shares it: after the test all nodes run, without faults, and topics that the test created are deleted.
    Skips the test with --kafka-bootstrap.
    """
    _ensure_embedded(request.config, "kafka_cluster")
    cluster: KafkaCluster = request.getfixturevalue("_kafka_cluster")
    before = {topic.name for topic in cluster.admin.list_topics()}
    yield cluster
    cluster.restore()
    cluster.close_producer()  # whose next request for metadata would create the topics anew
    if new := {topic.name for topic in cluster.admin.list_topics()} - before:
        cluster.admin.delete_topics(new)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what is in the topics of a failed test to its report, while the topics exist."""
    report = yield
    if call.when == "setup":
        item.stash[_BEGAN_MS] = int(call.start * 1000)
    if report.failed and call.when != "teardown" and _KAFKA in item.config.stash:
        for fixture, kafka in item.config.stash[_KAFKA].items():
            if fixture in getattr(item, "fixturenames", ()):
                _add_evidence(item, report, kafka)
    return report


def _add_evidence(item: pytest.Item, report: pytest.TestReport, kafka: Kafka) -> None:
    from kafkatools.testing.evidence import Evidence

    created = item.stash.get(_CREATED, [])
    evidence = Evidence(kafka, [topic for topic in created if topic.kafka is kafka], item.stash[_BEGAN_MS])
    text = evidence.text(item.config.getoption("--kafka-records"))
    directory = item.config.getoption("--kafka-keep")
    if directory is not None and evidence.topics:
        text += "\n" + evidence.keep(str(item.config.invocation_params.dir / directory), item.nodeid)
    if text:
        report.sections.append(("Kafka", text))


def _started(start: Callable[[], _K], address: str | None = None) -> _K:
    """Return a new Kafka. Fails the test without a traceback, which would show this module, if it does not start."""
    from kafkatools.core.errors import KafkaError

    try:
        return start()
    except KafkaError as error:
        reason = str(error)
    failed = "the embedded broker did not start" if address is None else f"--kafka-bootstrap {address}"
    pytest.fail(f"{failed}: {reason}", pytrace=False)  # outside of the handler, so that the error is shown once


def _topics(request: pytest.FixtureRequest, kafka: Kafka) -> Iterator[TopicFactory]:
    from kafkatools.testing.kafka import unique_name

    created = request.node.stash.setdefault(_CREATED, [])

    def create(
        name: str | None = None,
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, object] | None = None,
    ) -> Topic:
        topic = kafka.topic(
            name or unique_name(request.node.name),
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
        )
        created.append(topic)
        return topic

    yield create
    kafka.restore()
    for topic in created:
        topic.delete()


def _ensure_embedded(config: pytest.Config, fixture: str) -> None:
    address = config.getoption("--kafka-bootstrap")
    if address is not None:
        pytest.skip(f"{fixture} needs an embedded broker, and --kafka-bootstrap is {address}")
