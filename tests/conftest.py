"""Fixtures that every part of the suite shares: a real Apache Kafka and its tools."""

from __future__ import annotations

import gc
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from support import apache_kafka, kafkajs, spark_classes  # noqa: E402
from support import forks as forked  # noqa: E402
from support import three_nodes as three_brokers  # noqa: E402
from support.requirements import require  # noqa: E402

# The shell that started the suite may ignore signals (nohup, a job in the background), and processes inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long an example takes says how busy the machine is, nothing about the property.
settings.register_profile("any-load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-load")

os.environ.setdefault("SPARK_LOCAL_DIRS", tempfile.gettempdir())
os.environ.setdefault("SPARK_SUBMIT_OPTS", spark_classes.QUICK)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", os.environ["SPARK_SUBMIT_OPTS"])  # of the JVM that starts it

MADE_THREE_NODES = pytest.StashKey[three_brokers.ThreeNodes]()
NODE = pytest.StashKey[apache_kafka.ApacheKafka]()
Tool = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="session")
def kafka_jars() -> str:
    """The class path of Apache Kafka; skips (or fails) when Java or Maven is missing."""
    try:
        apache_kafka.java_executable()
        jars = apache_kafka.jars()
    except apache_kafka.Unavailable as missing:
        require(str(missing))
        raise
    apache_kafka.share_classes()
    return jars


@pytest.fixture(scope="session")
def kafkajs_modules() -> str:
    """The directory with kafkajs, for NODE_PATH; skips (or fails) when Node.js is missing."""
    try:
        return kafkajs.node_modules()
    except apache_kafka.Unavailable as missing:
        require(str(missing))
        raise


@pytest.fixture(scope="session")
def kafka_tool(kafka_jars: str) -> Tool:
    """Runs one of Apache Kafka's tools: kafka_tool("dump-log", "--files", path) -> CompletedProcess of bytes."""
    assert kafka_jars
    return apache_kafka.run_tool


@pytest.fixture(scope="session")
def real_kafka(
    kafka_jars: str, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[apache_kafka.ApacheKafka]:
    """One Apache Kafka node for the whole run: `.bootstrap`, `.tool(name, *args)`. Use topic names of your own."""
    assert kafka_jars
    cluster = apache_kafka.ApacheKafka(tmp_path_factory.mktemp("apache-kafka"))
    cluster.start()
    pytestconfig.stash[NODE] = cluster
    yield cluster
    cluster.stop()


@pytest.fixture
def new_kafka(kafka_jars: str, tmp_path: pathlib.Path) -> Iterator[Callable[..., apache_kafka.ApacheKafka]]:
    """Makes clusters of a test's own: new_kafka(nodes=1, settings={...}), not yet started; stopped at the end."""
    assert kafka_jars
    made: list[apache_kafka.ApacheKafka] = []

    def make(nodes: int = 1, settings: dict[str, str] | None = None) -> apache_kafka.ApacheKafka:
        made.append(apache_kafka.ApacheKafka(tmp_path / f"cluster{len(made)}", nodes, settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


@pytest.fixture(scope="session")
def three_nodes(
    kafka_jars: str, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[three_brokers.ThreeNodes]:
    """Three brokers of Apache Kafka for the whole run, with what other tests left there: use names of your own."""
    assert kafka_jars
    made = three_brokers.ThreeNodes(tmp_path_factory.mktemp("three-nodes"))
    try:
        made.start()
        made.wait_until_complete()
        pytestconfig.stash[MADE_THREE_NODES] = made
        yield made
    finally:
        made.kill_all()


@pytest.fixture
def empty_three_nodes(three_nodes: three_brokers.ThreeNodes) -> three_brokers.ThreeNodes:
    """The same three brokers without any topic."""
    three_nodes.empty()
    return three_nodes


# With Python's own thresholds collections took a tenth of the tests' processor time, most of it those of everything
# that the tests have imported and kept since.
FEWER_COLLECTIONS = (5_000, 20, 30)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without garbage collections: tests live until the end, and each collection would walk over all found so far."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # nor need collections within the tests walk over what was imported
        gc.set_threshold(*FEWER_COLLECTIONS)
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, metavar="N", help="Collect once, then run in N copies.")
    parser.addoption("--groups", action="store_true", help="With --forks: tests of a group stay together.")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.forks:
        names = group_of if config.option.groups else None
        forks = forked.Forks(config, config.option.forks, pytest_sessionfinish, LONGEST_FILES, names)
        config.pluginmanager.register(forks)
    elif config.option.groups:
        raise pytest.UsageError("--groups needs --forks")


def pytest_sessionfinish() -> None:
    """With `make coverage`: write what was measured before xdist gives a worker ten seconds to end."""
    if "COVERAGE_PROCESS_START" in os.environ:
        import coverage

        if measured := coverage.Coverage.current():
            measured.stop()
            measured.save()


# What takes most to start: all files with a test that uses one of these fixtures run in the same worker.
SHARED = ("spark", "three_nodes")
# These have a session of their own, so that none waits for all others with one.
JOBS = "test_pipeline_jobs_"
LONGEST_FILES = ("test_script_contract.py", "test_rehearsals.py", "test_cli_why_clusters.py", "test_cookbook.py")
"""The files of the small stage whose tests take longest: with --forks they begin first."""
SLOW_FILES = (
    "test_refused_bootstrap.py",
    "test_pytest_plugin.py",
    "test_client_suites.py",
    "test_console_slices.py",
    "test_real_streams_reset.py",
    "test_python_api.py",
    "test_real_migrate.py",
    "test_real_aio.py",
    "test_real_producer.py",
    "test_real_security.py",
    "test_real_groups.py",
    "test_real_streams.py",
    "test_broker_transactions_clients.py",
    "test_cluster_clients.py",
    "test_compaction.py",
    "test_group_consumer.py",
    "test_missing_partitions.py",
    "test_share_clients.py",
    "test_transactional_producer.py",
)
"""Files of the large stage whose tests take half a minute and more: they begin first among the others."""
NODES = ("node_1", "node_2")
"""The groups of the tests with `real_kafka`. Each worker that runs one of them starts a node of Apache Kafka."""
LONGEST = ("tables", "cluster", "official", "spark", "jobs", *NODES, "three_nodes")
"""The groups that take longest, in this order: a worker that begins one of them last lets the others wait."""


@pytest.hookimpl(tryfirst=True)  # the workers of xdist put the group into the names of the tests next
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --groups or --dist loadgroup the tests of a file stay together, as they share clusters, and all those that
    share the Spark session or brokers of Apache Kafka, unless a file or a test names its group. The longest groups and
    the pipeline begin first.
    Otherwise each worker of xdist begins with its part of the slow tests: one that begins last lets the others wait."""
    if not (config.option.groups or getattr(config.option, "loadgroup", False)):
        if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
            items[:] = forked.in_turn(forked.deal(items, workers, LONGEST_FILES))
        return
    ungrouped = [item for item in items if item.get_closest_marker("xdist_group") is None]
    shared = {item.path: name for item in ungrouped for name in SHARED if name in fixtures_of(item)}
    for item in ungrouped:
        name = "jobs" if item.path.name.startswith(JOBS) else shared.get(item.path) or own_group(item)
        item.add_marker(pytest.mark.xdist_group(name))
    items[:] = in_order(items)


def fixtures_of(item: pytest.Item) -> Sequence[str]:
    """The names of the fixtures that the test uses."""
    return getattr(item, "fixturenames", ())


def own_group(item: pytest.Item) -> str:
    """The group of the test's file: for tests with `real_kafka` one of NODES."""
    if "real_kafka" in fixtures_of(item):
        return NODES[zlib.crc32(item.path.name.encode()) % len(NODES)]
    return str(item.path)


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests in the order of their groups: the longest ones, then those of the pipeline, then the others."""

    def rank_of(item: pytest.Item) -> tuple[int, bool, bool]:
        place = LONGEST.index(name) if (name := group_of(item)) in LONGEST else len(LONGEST)
        return place, item.path.parent.name != "pipeline", item.path.name not in SLOW_FILES

    return sorted(items, key=rank_of)


def group_of(item: pytest.Item) -> str | None:
    """The group of a test with --groups or --dist loadgroup; None without."""
    marker = item.get_closest_marker("xdist_group")
    return None if marker is None else str(marker.args[0])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the node again that ended with an earlier group."""
    node = item.config.stash.get(NODE, None)
    if node is not None and not node.processes and ("real_kafka" in fixtures_of(item) or group_of(item) in NODES):
        node.start(format_first=False)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the brokers of a group after its last test: without work three take 5 % of a core."""
    group = group_of(item)
    if nextitem is None or group_of(nextitem) == group:
        return
    if group == "three_nodes" and (three := item.config.stash.get(MADE_THREE_NODES, None)) is not None:
        three.kill_all()
    if group in NODES and (node := item.config.stash.get(NODE, None)) is not None:
        node.stop()


@pytest.hookimpl(tryfirst=True)  # a worker sends the names in the same hook
def pytest_collection_finish(session: pytest.Session) -> None:
    """Put the groups of --dist loadgroup into the names also with pytest 9.2, and fail when a name lacks its group.

    pytest-xdist 3.8 writes the name with the group into `_nodeid`, and pytest 9.2 reads names from `_id`. Without the
    groups every worker would start clusters of its own for the tests of a file.
    """
    for item in session.items:
        named = getattr(item, "_nodeid", item.nodeid)
        if named != item.nodeid:
            item._id = type(item.id).parse(named)  # type: ignore[attr-defined]
    if getattr(session.config.option, "loadgroup", False) and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("pytest-xdist does not keep tests together that share a cluster: which pytest is this?")
