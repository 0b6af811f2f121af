"""Report brokers, schema registries and object stores that do not answer while a pipeline runs: readers and sinks wait
for them silently.

A thread of the driver's process for each service asks it every two seconds, with connections of its own, so it is the
same on every cluster and in every job. A service that hangs does not delay the report of another. The thread knows
whether a service answers the driver, not whether a task waits for it. Brokers are asked for their API versions, with
the pipeline's own settings; any HTTP response of a registry or an object store is an answer.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPException
from ssl import SSLError
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.config import ADMIN
from kafkatools.core.errors import KafkaError
from kafkatools.core.net.metadata import Node
from kafkatools.core.net.requests import BrokerRequest, Interrupted
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.pipeline.run.session import is_connected
from kafkatools.pipeline.run.spec import Pipeline
from kafkatools.pipeline.run.wait_notices import WaitTimer
from kafkatools.pipeline.uris import LOG, TOPIC, Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 2.0
_TIMEOUT_MS = 3000
_FIRST_MS, _AGAIN_MS = 5_000, 60_000
"""A service that hangs is noticed after 2 to 5 s and again 5 s later, so it is reported within 10 s."""
_JOIN_S = 2 * _TIMEOUT_MS / 1000
_POLL_TIMEOUT, _DELIVERY_TIMEOUT = "120000", "120000"
_SOFTWARE = {"client_software_name": "kafkatools", "client_software_version": "1"}
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Variables of AWS's SDKs, the first that is set counts."""


class Service(Protocol):
    """A part of a pipeline's surroundings that answers requests. For one thread, except `interrupt`."""

    def unavailable(self) -> dict[str, str]:
        """Send requests and return the reasons of those without an answer, by name, such as `Broker 127.0.0.1:9092`."""

    def interrupt(self) -> None:
        """Make `unavailable` return early. Callable from any thread."""

    def close(self) -> None:
        """Close the connections."""


def outage_lines(
    timer: WaitTimer, unavailable: Mapping[str, str], asked_ms: int, now_ms: int, advice: str
) -> list[str]:
    """Return the lines to print now about services that do not answer, and those that answer again. `unavailable`: the
    reasons by name, from requests that were sent at `asked_ms`. Each line about a wait ends with `advice`."""
    notices = timer.notices(unavailable, now_ms, asked_ms)
    lines = [f"{name} answers again, after {waited_ms // 1000} s" for name, waited_ms in notices.ended.items()]
    for name, waited_ms in notices.ongoing.items():
        waited = f"Waiting for {name[0].lower()}{name[1:]} for {waited_ms // 1000} s"
        lines.append(f"{waited}: {unavailable[name]}; {advice}")
    return lines


class Brokers:
    """The brokers of a Kafka cluster: those that it had when all of them last answered."""

    def __init__(self, bootstrap: str, settings: dict[str, str], clock: Clock) -> None:
        self._bootstrap = bootstrap
        limits = {"default.api.timeout.ms": str(_TIMEOUT_MS), "request.timeout.ms": str(_TIMEOUT_MS)}
        self._admin = AdminClient(bootstrap, {**settings, **limits}, clock)
        self._nodes: tuple[Node, ...] = ()

    def unavailable(self) -> dict[str, str]:
        """Return the brokers that do not answer; the bootstrap servers as one name if the brokers are not known yet."""
        try:
            if not self._nodes:
                self._nodes = describe_cluster(self._admin).nodes
            requests = [BrokerRequest(node.id, ApiKey.API_VERSIONS, _api_versions) for node in self._nodes]
            responses = self._admin.send_all(requests, self._admin.deadline_ms())
            unavailable = {
                f"Broker {node.host}:{node.port}": str(response.error)
                for node, response in zip(self._nodes, responses, strict=True)
                if response.error is not None
            }
            if not unavailable:
                self._nodes = describe_cluster(self._admin).nodes
        except KafkaError as error:
            return {f"Broker {self._bootstrap}": str(error)}
        except Interrupted:
            return {}
        return unavailable

    def interrupt(self) -> None:
        """Make `unavailable` return early. Callable from any thread."""
        self._admin.interrupt()

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()


def _api_versions(version: int) -> dict[str, object]:
    return {} if version < 3 else dict(_SOFTWARE)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *args: object, **kwargs: object) -> None:
        """Follow no redirect: it is an answer."""


class WebService:
    """A schema registry or an object store: `kind` and its URL. Any HTTP response, also a refusal of TLS, is an answer.
    Proxies of the environment are used, as the requests of a pipeline use them."""

    def __init__(self, kind: str, url: str) -> None:
        self._name = f"{kind} {url}"
        self._url = url
        self._opener = build_opener(_NoRedirects)

    def unavailable(self) -> dict[str, str]:
        """Return its name with the reason if it does not answer."""
        try:
            self._opener.open(self._url, timeout=_TIMEOUT_MS / 1000).close()
        except HTTPError as error:
            error.close()
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, TimeoutError):
                return {self._name: f"no answer within {_TIMEOUT_MS / 1000:g} s"}
            if not isinstance(reason, SSLError):
                return {self._name: getattr(reason, "strerror", None) or str(reason) or type(reason).__name__}
        return {}

    def interrupt(self) -> None:
        """Do nothing: an answer is awaited for three seconds."""

    def close(self) -> None:
        """Do nothing: each request has a connection of its own."""


class WatchedService(NamedTuple):
    """A service, and a text on a run without it."""

    service: Service
    advice: str


def services_of(
    pipeline: Pipeline, hadoop: Callable[[str], str | None], environ: Mapping[str, str]
) -> list[WatchedService]:
    """Return the Kafka clusters, schema registries and object stores of a pipeline. `hadoop` returns a setting of
    Spark's Hadoop, None if it is not set; a store without an endpoint there or in `environ` is left out: it is
    Amazon's."""
    clusters: dict[str, tuple[Cluster, list[str]]] = {}
    for source in pipeline.sources:
        if source.cluster is not None:
            patience = _seconds(source.options, "kafkaConsumer.pollTimeoutMs", _POLL_TIMEOUT)
            advice = f"reading {source.uri} waits at most {patience} (kafkaConsumer.pollTimeoutMs)"
            clusters.setdefault(source.cluster.bootstrap, (source.cluster, []))[1].append(advice)
    sink = pipeline.sink
    if sink.cluster is not None and sink.uri.kind == TOPIC:
        patience = _seconds(sink.options, "kafka.delivery.timeout.ms", _DELIVERY_TIMEOUT)
        advice = f"writing {sink.uri} waits at most {patience} (kafka.delivery.timeout.ms)"
        clusters.setdefault(sink.cluster.bootstrap, (sink.cluster, []))[1].append(advice)
    watched = [
        WatchedService(Brokers(bootstrap, _admin_settings(cluster), SystemClock()), ", ".join(dict.fromkeys(advices)))
        for bootstrap, (cluster, advices) in clusters.items()
    ]
    decodings = [decoding for source in pipeline.sources for decoding in (source.key, source.value) if decoding]
    for url in dict.fromkeys(decoding.registry for decoding in decodings if decoding.registry):
        watched.append(
            WatchedService(WebService("Schema registry", url), "a task that needs a schema waits a minute for it")
        )
    for url in dict.fromkeys(_endpoints(pipeline, hadoop, environ)):
        watched.append(WatchedService(WebService("Object store", url), "reads and writes there wait"))
    return watched


def hadoop_setting(spark: SparkSession) -> Callable[[str], str | None]:
    """Return a function that gets a setting of Spark's Hadoop; always None over Spark Connect, which shows none."""
    if is_connected(spark):
        return lambda name: None
    get: Callable[[str], str | None] = spark.sparkContext._jsc.hadoopConfiguration().get
    return get


def _seconds(options: Mapping[str, str], name: str, default: str) -> str:
    by_name = {option.lower(): value for option, value in options.items()}
    value = by_name.get(name.lower(), default)
    return f"{int(value) // 1000} s" if value.isdigit() else value


def _admin_settings(cluster: Cluster) -> dict[str, str]:
    return {name: value for name, value in cluster.settings.items() if name in ADMIN}


def _endpoints(pipeline: Pipeline, hadoop: Callable[[str], str | None], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the endpoint of each S3 bucket that a source, the sink or a file of the run lies in: Spark's Hadoop
    accesses `s3a://`, fsspec `s3://` and the sources `log:`."""
    of_spark = [uri.target for uri in (*(source.uri for source in pipeline.sources), pipeline.sink.uri)]
    of_python = [source.uri.target for source in pipeline.sources if source.uri.kind == LOG]
    for url in (*of_spark, pipeline.checkpoint or ""):
        if url.startswith("s3a://") and url not in of_python:
            bucket = urlsplit(url).netloc
            endpoint = hadoop(f"fs.s3a.bucket.{bucket}.endpoint") or hadoop("fs.s3a.endpoint")
            if endpoint:
                yield endpoint if "://" in endpoint else f"https://{endpoint}"
    endpoint = next(filter(None, map(environ.get, _ENDPOINT_VARIABLES)), None)
    for url in (*of_python, pipeline.manifest or "", pipeline.report_path or ""):
        if url.startswith(("s3://", "s3a://")) and endpoint:
            yield endpoint


@contextlib.contextmanager
def outage_notices(
    watched: Sequence[WatchedService], tell: Callable[[str], object], clock: Clock | None = None
) -> Iterator[None]:
    """Call `tell` with a line, on the thread of a service, while the service does not answer within this context."""
    over = threading.Event()
    threads = [
        threading.Thread(
            target=_watch, args=(service, tell, over, clock or SystemClock()), name="pipeline-service", daemon=True
        )
        for service in watched
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for service, _ in watched:
            service.interrupt()
        for thread in threads:
            thread.join(_JOIN_S)


def _watch(watched: WatchedService, tell: Callable[[str], object], over: threading.Event, clock: Clock) -> None:
    service, advice = watched
    timer = WaitTimer(_FIRST_MS, _AGAIN_MS)
    try:
        while not over.wait(POLL_S):
            asked_ms = clock.now_ms()
            unavailable = service.unavailable()
            if over.is_set():
                return
            for line in outage_lines(timer, unavailable, asked_ms, clock.now_ms(), advice):
                tell(line)
    finally:
        service.close()
