"""Export each snapshot to an OpenTelemetry collector by OTLP over HTTP (extra `otlp`), in a thread of its own.

The exporter of opentelemetry-exporter-otlp-proto-http retries for up to ten seconds; meanwhile only the newest snapshot
waits. It also reads the variables OTEL_EXPORTER_OTLP_* of the process, such as headers and certificates, and
OTEL_RESOURCE_ATTRIBUTES.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.secrets import redacted
from kafkatools.tools.monitor.metrics.families import Samples
from kafkatools.tools.monitor.metrics.otlp_metrics import METRICS, UP
from kafkatools.tools.monitor.reports import Report
from kafkatools.tools.monitor.urls import HttpUrl
from kafkatools.tools.monitor.view import ClusterView
from kafkatools.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData
    from opentelemetry.sdk.resources import Resource

TIMEOUT_S = 10
_PATH = "/v1/metrics"
_END_S = 1
_MS_TO_NS = 1_000_000
_LOGGER = "opentelemetry"
_REASONS = (
    re.compile(r"\[Errno -?\d+\] ([^'\")\]]+)"),
    re.compile(r"code: (\d{3}, reason: .+)"),
    re.compile(r"Transient error (.+?) encountered"),
)


class _Snapshot(NamedTuple):
    """A snapshot to export; `view` is None after a failed one."""

    view: ClusterView | None
    cluster_id: str | None
    time_ms: int


class _LastReason(logging.Handler):
    """Keeps why the exporter failed: it only logs the reason."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the reason of a message that has one."""
        text = record.getMessage()
        found = next((match[1] for pattern in _REASONS if (match := pattern.search(text))), None)
        if found is not None:
            self.reason = re.sub(r"^(\d{3}), reason: ", r"status \1 ", found)


class OtlpSender:
    """Exports snapshots to one collector. `publish` and `reports` may be called by any thread, `run_once` by one
    thread only. `_lock` guards the waiting snapshot, the reports and `_is_closing`. `name` is used in reports. Raises
    ImportError without the packages."""

    def __init__(self, url: HttpUrl, started_ms: int) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        headers = None if url.authorization is None else {"Authorization": url.authorization}
        self._exporter = OTLPMetricExporter(endpoint=_endpoint(url.url), headers=headers, timeout=TIMEOUT_S)
        self.name = f"collector {url.label}"
        self._started_ms = started_ms
        self._lock = threading.Condition()
        self._waiting: _Snapshot | None = None
        self._reports: list[Report] = []
        self._is_closing = False
        self._is_failing = False
        self._thread: threading.Thread | None = None
        self._reason = _LastReason()
        logger = logging.getLogger(_LOGGER)
        logger.addHandler(self._reason)
        logger.propagate = False  # or logging would print its messages on stderr

    def start(self) -> None:
        """Start the thread that exports."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def publish(self, view: ClusterView | None, cluster_id: str | None, time_ms: int) -> None:
        """Export a view, or that a snapshot failed (None). Replaces a snapshot that still waits."""
        with self._lock:
            self._waiting = _Snapshot(view, cluster_id, time_ms)
            self._lock.notify_all()

    def reports(self) -> list[Report]:
        """Return the changes since the last call."""
        with self._lock:
            reports, self._reports = self._reports, []
        return reports

    def close(self, patience_ms: int) -> None:
        """Wait until the last snapshot is exported or has failed, at most `patience_ms`, then end."""
        with self._lock:
            self._is_closing = True
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join(patience_ms / 1000)
        self._exporter.shutdown()  # ends the pause before another attempt
        if self._thread is not None:
            self._thread.join(_END_S)
        logger = logging.getLogger(_LOGGER)
        logger.removeHandler(self._reason)
        logger.propagate = True

    def run_once(self) -> None:
        """Export the waiting snapshot, if there is one."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        with self._lock:
            snapshot, self._waiting = self._waiting, None
        if snapshot is None:
            return
        self._reason.reason = ""
        data = metrics_data(snapshot.view, snapshot.cluster_id, self._started_ms, snapshot.time_ms)
        is_working = self._exporter.export(data) is MetricExportResult.SUCCESS
        if is_working is not self._is_failing:
            return  # as before
        self._is_failing = not is_working
        reason = redacted(self._reason.reason) or f"no answer within {TIMEOUT_S} s"
        message = "accepts metrics again" if is_working else f"does not accept metrics: {reason}"
        with self._lock:
            self._reports.append(Report(is_working, f"{self.name} {message}"))

    def _run(self) -> None:
        while True:
            self.run_once()
            with self._lock:
                self._lock.wait_for(lambda: self._is_closing or self._waiting is not None)
                if self._waiting is None:
                    return


def _endpoint(url: str) -> str:
    """Return the address of metrics: `/v1/metrics` follows a base URL, as for OTEL_EXPORTER_OTLP_ENDPOINT."""
    base, mark, query = url.partition("?")
    base = base.rstrip("/")
    return (base if base.endswith(_PATH) else base + _PATH) + mark + query


def metrics_data(view: ClusterView | None, cluster_id: str | None, started_ms: int, time_ms: int) -> MetricsData:
    """Return the metrics of a view; only `kt.monitor.up` 0 for None. Times are ms since 1970."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    metrics = list(_metrics(view, started_ms * _MS_TO_NS, time_ms * _MS_TO_NS))
    scope = ScopeMetrics(InstrumentationScope("kafkatools.monitor", __version__), metrics, "")
    return MetricsData([ResourceMetrics(_resource(cluster_id), [scope], "")])


def _resource(cluster_id: str | None) -> Resource:
    """Return the attributes of the monitored cluster; those of OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME win."""
    from opentelemetry.sdk.resources import Resource

    ours = {"service.name": "kt-monitor", "service.version": __version__}
    if cluster_id is not None:
        ours["kafka.cluster.id"] = cluster_id
    environment = dict(Resource.create().attributes)
    if str(environment.get("service.name", "")).startswith("unknown_service"):
        del environment["service.name"]
    return Resource({**ours, **environment})


def _metrics(view: ClusterView | None, started_ns: int, time_ns: int) -> Iterator[Metric]:
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum

    def points(names: tuple[str, ...], samples: Samples) -> list[NumberDataPoint]:
        return [
            NumberDataPoint(dict(zip(names, _attributes(values), strict=True)), started_ns, time_ns, number)
            for values, number in samples
        ]

    for metric in METRICS if view is not None else ():
        assert view is not None
        found = points(metric.attributes, metric.samples(view))
        if found:
            cumulative = AggregationTemporality.CUMULATIVE
            data = Sum(found, cumulative, is_monotonic=False) if metric.is_sum else Gauge(found)
            yield Metric(metric.name, metric.description, metric.unit, data)
    up = points((), [((), int(view is not None))])
    yield Metric(UP, "Whether the last snapshot of the cluster succeeded.", "1", Gauge(up))


def _attributes(values: Iterable[object]) -> list[str | int]:
    return [value if isinstance(value, int) else str(value) for value in values]
