"""kt monitor --alert and --webhook on a broker, with a clock that moves instead of sleeping."""

from __future__ import annotations

import json
import pathlib
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from support.embedded import embedded_broker
from support.http_receivers import Receiver, receiving
from support.kt import Ran, run_kt
from support.kt_process import BrokerProcess, start_kt
from support.live_groups import GroupClient
from support.skipping_clock import SkippingClock
from support.waiting import eventually

from kafkatools import Producer
from kafkatools.commands.monitor import outgoing
from kafkatools.commands.monitor.terminal.places import Place
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import NewTopic, create_topics
from kafkatools.core.clock import SystemClock
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.monitor.view import AlertView, ClusterView

pytestmark = pytest.mark.processes


class Minutes(SkippingClock):
    """Between two snapshots a minute passes, without a sleep. `acts` are called one after the other, each after
    a snapshot; then the monitor is interrupted."""

    def __init__(self, acts: Sequence[Callable[[], object] | None]) -> None:
        super().__init__()
        self._acts = list(acts)

    def sleep_ms(self, duration_ms: int) -> None:
        if duration_ms < 400:  # of a client
            super().sleep_ms(duration_ms)
            return
        if not self._acts:
            raise KeyboardInterrupt
        act = self._acts.pop(0)
        if act is not None:
            act()
        self.skip_ms(60_000)

    def wall_ms(self) -> int:
        return super().wall_ms() + self._skipped_ms


def watch(bootstrap: str, acts: Sequence[Callable[[], object] | None], *words: str) -> Ran:
    clock = Minutes(acts)
    return run_kt("monitor", "--bootstrap-server", bootstrap, *words, clock=clock)


def snapshots(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines()]


def bodies(receiver: Receiver) -> list[dict[str, Any]]:
    return [json.loads(posted.body) for posted in receiver.posted]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with the topic `orders` of 2 partitions."""
    with embedded_broker(tmp_path_factory.mktemp("broker")) as address:
        with AdminClient(address, {}, SystemClock()) as admin:
            create_topics(admin, [NewTopic("orders", 2, 1)])
        yield address


def send(bootstrap: str, count: int, partition: int = 0) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number, partition=partition)


def commit(bootstrap: str, group: str, offset: int, partition: int = 0) -> None:
    with GroupClient(bootstrap) as client:
        client.commit(group, {("orders", partition): offset})


def end_of(bootstrap: str, partition: int = 0) -> int:
    ran = run_kt("get-offsets", "--bootstrap-server", bootstrap, "--topic", "orders")
    return next(int(line.split(":")[2]) for line in ran.out.splitlines() if line.startswith(f"orders:{partition}:"))


def test_an_alert_for_minutes_is_posted_and_resolved(bootstrap: str) -> None:
    send(bootstrap, 5)
    end = end_of(bootstrap)
    commit(bootstrap, "shop", end - 3)
    alert = "lag>2 for 2m on group=shop"
    acts = [None, None, lambda: commit(bootstrap, "shop", end), None]
    with receiving([500]) as receiver:
        ran = watch(bootstrap, acts, "--json", "--alert", alert, "--webhook", receiver.url + "/secret-path-of-hook")
        found = bodies(receiver)
    assert ran.status is ExitStatus.INTERRUPTED
    states = [[(entry["state"], entry["group"]) for entry in look["alerts"]] for look in snapshots(ran)]
    assert states == [[("pending", "shop")], [("pending", "shop")], [("firing", "shop")], [], []]
    posted = [body["alerts"][0] for body in found]
    assert [entry["state"] for entry in posted][:2] == ["firing", "firing"], "the first one was answered with 500"
    first = posted[0]
    assert (first["alert"], first["measure"], first["value"], first["threshold"]) == (alert, "lag", 3, 2)
    assert (first["group"], first["topic"], first["partition"]) == ("shop", "orders", 0)
    assert first["time"] - first["since"] >= 120_000
    assert "lag>2 for 2m on group=shop holds for group shop: lag is 3 (orders-0)" in found[0]["text"]
    assert posted[-1]["state"] == "resolved"
    kinds = [event["event"] for look in snapshots(ran) for event in look["events"]]
    assert [kind for kind in kinds if kind.startswith("alert-")] == ["alert-firing", "alert-resolved"]
    assert "secret-path" not in ran.out + ran.err


def test_lag_in_seconds_names_group_topic_and_partition(bootstrap: str) -> None:
    """The group consumes nothing from the second snapshot on: its oldest record came in during the first minute."""
    commit(bootstrap, "slow", end_of(bootstrap, 1), partition=1)
    acts = [lambda: send(bootstrap, 1, partition=1), None, None, None]
    ran = watch(bootstrap, acts, "--alert", "lag_seconds>100 on group=slow")
    (line,) = [line for line in ran.err.splitlines() if "holds" in line]
    assert line.startswith("lag_seconds>100 on group=slow holds for group slow: lag-seconds is 1")
    assert line.endswith(" (orders-1)")
    assert len(ran.out.splitlines()) == 5 and "1 alert-firing" in ran.out


def test_an_alert_is_unknown_when_the_broker_is_killed(tmp_path: pathlib.Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        with receiving() as receiver:
            words = ("--interval", "0.3", "--alert", "brokers>=1", "--webhook", receiver.url)
            with start_kt(tmp_path, "monitor", "--bootstrap-server", broker.bootstrap, *words) as process:
                eventually(lambda: len(receiver.posted) == 1)
                broker.kill()
                eventually(lambda: len(receiver.posted) == 2)
                broker.start()
                eventually(lambda: len(receiver.posted) == 3)
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=30)
            found = [body["alerts"][0] for body in bodies(receiver)]
    finally:
        broker.stop()
    assert [entry["state"] for entry in found] == ["firing", "unknown", "repeated"]
    assert found[1]["reason"] and found[1]["value"] is None
    assert b"Error while monitoring" in err and b"brokers>=1 still holds: brokers is 1" in err


def test_once_decides_at_once(bootstrap: str) -> None:
    words = ("monitor", "--bootstrap-server", bootstrap, "--once", "--view", "alerts")
    with receiving() as receiver:
        ran = run_kt(*words, "--alert", "brokers>=1", "--webhook", receiver.url)
        assert [body["alerts"][0]["state"] for body in bodies(receiver)] == ["firing"]
    assert (ran.status, ran.err) == (ExitStatus.FINDINGS, "brokers>=1 holds: brokers is 1\n")
    assert "firing" in ran.out.split("\nAlerts\n")[1]
    ran = run_kt(*words, "--alert", "lag>5 on group=ghost")
    assert (ran.status, ran.err) == (
        ExitStatus.FAILED, "lag>5 on group=ghost is unknown: there is no group ghost\n",
    )  # fmt: skip
    assert run_kt(*words, "--alert", "brokers>1").status is ExitStatus.OK


def test_figures_are_exported_to_a_collector(bootstrap: str) -> None:
    send(bootstrap, 4)
    commit(bootstrap, "exported", end_of(bootstrap) - 4)
    with receiving([400]) as receiver:
        ran = watch(bootstrap, [lambda: eventually(lambda: bool(receiver.posted)), None, None], "--otlp", receiver.url)
        request = ExportMetricsServiceRequest.FromString(receiver.posted[-1].body)
    assert ran.status is ExitStatus.INTERRUPTED
    assert ran.err.count("does not accept metrics: status 400 Bad Request") == 1
    metrics = {metric.name: metric for metric in request.resource_metrics[0].scope_metrics[0].metrics}
    lags = {
        tuple(entry.value.string_value or entry.value.int_value for entry in point.attributes): point.as_int
        for point in metrics["kafka.consumer_group.lag"].gauge.data_points
    }
    assert lags["exported", "orders", 0] == 4
    assert metrics["kafka.partition.oldest_offset"].gauge.data_points[0].as_int == 0


def test_a_webhook_that_is_down_is_told(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "_ONCE_MS", 500)
    words = ("--alert", "brokers>=1", "--webhook", "http://user:passw0rd99@127.0.0.1:1/services/T0/secret-of-hook")
    ran = run_kt("monitor", "--bootstrap-server", bootstrap, "--once", *words)
    assert ran.status is ExitStatus.FINDINGS
    assert "webhook http://127.0.0.1:1: Connection refused" in ran.err
    assert "webhook http://127.0.0.1:1: 1 report of alerts was not delivered before the end" in ran.err
    assert not [word for word in ("secret-of", "passw0rd", "services", "user") if word in ran.err + ran.out]


def test_alerts_are_among_the_events_of_the_view_with_keys() -> None:
    pytest.importorskip("textual")
    from kafkatools.commands.monitor.terminal.cluster_views import EVENTS
    from kafkatools.commands.monitor.terminal.head import head_text
    from kafkatools.commands.monitor.terminal.model import Model

    alerts = (AlertView("lag>5", "firing", 1, "lag>5 holds for group g: lag is 6", "g"),
              AlertView("lag>7", "pending", 1, "lag>7 holds for group h: lag is 8", "h"))  # fmt: skip
    view = ClusterView(2, 2, 1, "cid", 1, (), (), None, (), (), alerts=alerts)
    model = Model(view).prepare()
    rows = EVENTS.rows(model, ())
    assert [(line.kind, line.message) for line in rows] == [(alert.state, alert.message) for alert in alerts]
    assert [line.time_ms for line in rows] == [1, 1], "since when"
    assert [EVENTS.opens(model, line) for line in rows] == [Place("group", ("g",)), Place("group", ("h",))]
    assert "1 alert firing" in head_text(model, 1000, 2, is_paused=False, width=80)[1].plain


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--alert", "lag>"), "Invalid condition 'lag>' of --alert at character 5: expected a number"),
        (("--alert", "lagg>5"), "Unknown measure 'lagg' in --alert 'lagg>5' at character 1; measures are"),
        (("--once", "--alert", "lag>5 for 5m"), "'for' takes several snapshots, and --once has one"),
        (("--once", "--alert", "lag>5", "--alert-repeat", "1h"), "alert-repeat"),
        (("--webhook", "http://h/"), "--webhook needs --alert"),
        (("--alert-repeat", "1h"), "--alert-repeat needs --alert"),
        (
            ("--alert", "lag>5", "--alert-repeat", "often"),
            "--alert-repeat takes seconds above 0, such as 90, 30m or 1h",
        ),
        (("--alert", "lag>5", "--alert-repeat", "0"), "not '0'"),
        (("--alert", "lag>5", "--webhook", "file:"), "--webhook: 'file:' names no file"),
        (("--alert", "lag>5", "--webhook", "h/topsecret"), "--webhook: this URL is not valid: a URL begins with"),
        (("--alert", "lag>5", "--webhook", "env:NONE"), "--webhook: the environment variable NONE is not set"),
        (("--otlp", "localhost:4318"), "--otlp: this URL is not valid: a URL begins with http://HOST"),
        (("--alert", "lag>5", "--webhook", "env:BAD"), "--webhook: env:BAD is not valid: a URL begins with"),
    ],
)
def test_a_wrong_command_line_is_told_before_anything_is_asked(words: tuple[str, ...], message: str) -> None:
    ran = run_kt("monitor", "--bootstrap-server", "127.0.0.1:1", *words, environ={"BAD": "topsecret"})
    assert ran.status is ExitStatus.USAGE and message in ran.err.splitlines()[0]
    assert "topsecret" not in ran.err
