"""/metrics: the latest view as Prometheus text or OpenMetrics text, by prometheus-client (extra `prometheus`).

The page is made when it is requested, and kept until the next snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.metrics import families, kminion, lag_exporter
from kafkatools.tools.monitor.metrics.families import COUNTER, Metric
from kafkatools.tools.monitor.view import ClusterView

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

ALL_METRICS = (*families.METRICS, *lag_exporter.METRICS, *kminion.METRICS)
"""Every family except `kt_monitor_up`, in output order."""

UP = "kt_monitor_up"


class MetricsPage:
    """The page of one board, for any thread. `sources`: the exporters whose names it uses (`Metric.source`). Raises
    ImportError without prometheus-client."""

    def __init__(self, board: Board, sources: Iterable[str]) -> None:
        from prometheus_client import exposition

        self._choose_encoder = exposition.choose_encoder
        self._board = board
        self._metrics = [metric for metric in ALL_METRICS if metric.source in set(sources)]
        self._made: _Made | None = None

    def answer(self, accept: str = "") -> tuple[str, bytes]:
        """Return the content type and the page in the format that an Accept header requests."""
        encode, content_type = self._choose_encoder(accept)
        view, error = self._board.last
        made = self._made
        if made is None or made.view is not view or (made.content_type, made.error) != (content_type, error):
            body = encode(_Families([*_families(view, error, self._metrics)]))
            made = self._made = _Made(content_type, view, error, body)
        return content_type, made.body


class _Made(NamedTuple):
    content_type: str
    view: ClusterView | None
    error: str | None
    body: bytes


class _Families(NamedTuple):
    """A collector of prometheus-client."""

    families: Sequence[Family]

    def collect(self) -> Sequence[Family]:
        return self.families


def _families(view: ClusterView | None, error: str | None, metrics: Iterable[Metric]) -> Iterator[Family]:
    """Yield the families with samples: only `kt_monitor_up 0` before the first view and after a failed snapshot."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    is_up = view is not None and error is None
    yield GaugeMetricFamily(UP, "Whether the last snapshot of the cluster succeeded.", value=int(is_up))
    if view is None or error is not None:
        return
    for metric in metrics:
        kind = CounterMetricFamily if metric.type == COUNTER else GaugeMetricFamily
        family = kind(metric.name, metric.help, labels=metric.labels)
        for labels, number in metric.samples(view):
            family.add_metric([str(label) for label in labels], number)
        if family.samples:
            yield family
