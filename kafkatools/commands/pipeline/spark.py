"""Code that the subcommands of kt pipeline share: Spark options and sessions, clusters, errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.config import ADMIN, CONSUMER, PRODUCER
from kafkatools.exit_status import CommandError, UsageError
from kafkatools.options import Args, client_settings, property_pairs, read_properties
from kafkatools.options.common import is_registry_setting, profile_settings
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.executors import is_local_master
from kafkatools.pipeline.run.session import (
    DEFAULT_MASTER,
    activate,
    ensure_can_start,
    is_connected,
    is_running,
    is_submitted,
    open_session,
    plain_error,
    was_interrupted,
)
from kafkatools.pipeline.run.spec import read_toml
from kafkatools.pipeline.types import PipelineValues
from kafkatools.pipeline.uris import Cluster, Uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


REGISTRY_USER = "basic.auth.user.info"
"""The setting of Confluent's clients with user and password of the schema registry."""


def ensure_spark(args: Args) -> None:
    """Check PySpark, pyarrow and Java. If one is missing, raise UsageError with installation advice."""
    with usage():
        file = args.operand if args.command.name == "run" else None
        ensure_can_start(_requested_master(args, {} if file is None else read_toml(file)))


def ensure_log_exists(args: Args, uri: Uri, values: PipelineValues | None = None) -> None:
    """Raise CommandError for log files that do not exist, before Spark starts. Checks paths of this machine only, and
    only if Spark will run here. `values` are those of `session`."""
    if uri.kind != "log" or is_running() or is_submitted():
        return
    if is_local_master(_requested_master(args, values or {}) or DEFAULT_MASTER):
        from kafkatools.pipeline.sources.log.files import ensure_local_paths_exist

        with failures():
            ensure_local_paths_exist(uri.target)


def _requested_master(args: Args, values: PipelineValues) -> str | None:
    """Return the Spark master of --master, else of the pipeline file, else `spark.master` of --conf, else of the file's
    table `conf`; None for the default. `values` are those of the file."""
    master: str | None = args.master or values.get("master") or _conf(args, values).get("spark.master")
    return master


def _conf(args: Args, values: PipelineValues) -> dict[str, str]:
    """Return the settings of the pipeline file's table `conf`, overridden by --conf."""
    return {**values.get("conf", {}), **property_pairs(args.conf, "conf")}


@contextmanager
def usage() -> Iterator[None]:
    """Raise a PipelineError of this context as UsageError."""
    try:
        yield
    except PipelineError as error:
        raise UsageError(str(error)) from error


@contextmanager
def failures() -> Iterator[None]:
    """Raise a PipelineError or Spark error of this context as CommandError, an interrupted job as KeyboardInterrupt."""
    try:
        yield
    except Exception as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        if isinstance(error, PipelineError):
            raise CommandError(str(error)) from error
        if type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise CommandError(plain_error(error)) from error
        raise


@contextmanager
def session(console: Console, args: Args, values: PipelineValues | None = None) -> Iterator[SparkSession]:
    """Open a Spark session for this context, and stop it at the end unless the process had one before.

    `values`: master and conf that apply where no option sets them. Ctrl-C cancels the running Spark jobs.
    """
    conf, master = _conf(args, values or {}), _requested_master(args, values or {})
    with failures():
        _quiet_root(console)
        is_shared = is_running()
        with starting(console, master):
            spark = open_session("kt pipeline", master, conf, is_verbose=console.is_debug, tell=console.note)
        try:
            yield spark
        except (KeyboardInterrupt, BrokenPipeError):
            cancel_jobs(spark)
            raise
        finally:
            if is_shared:
                activate(spark.builder.getOrCreate())
            else:
                spark.stop()


@contextmanager
def starting(console: Console, master: str | None) -> Iterator[None]:
    """Announce the start of Spark on stderr, with the elapsed time on a terminal.

    Prints nothing with --json, or when this process already has a Spark context.
    """
    if console.is_json or is_running():
        yield
        return
    default = "the master of spark-submit" if is_submitted() else DEFAULT_MASTER
    console.note(f"Starting Spark ({master or default}) ...")
    with console.progress("Starting Spark"):
        yield


def _quiet_root(console: Console) -> None:
    """Hide the stack trace that py4j logs when it is interrupted: the exit status reports the interrupt."""
    root = logging.getLogger()
    if not console.is_debug and not root.handlers:
        root.addHandler(logging.NullHandler())


def cancel_jobs(spark: SparkSession) -> None:
    """Cancel the running Spark jobs of this process."""
    if is_connected(spark):
        spark.interruptAll()
    else:
        spark.sparkContext.cancelAllJobs()


def cluster_of(console: Console, args: Args, *topics: str, config_file: str | None = None) -> Cluster:
    """Return the cluster of --bootstrap-server, the profile or the sandbox, after a check that it has these topics.

    `config_file` replaces the file of --command-config. The check runs before Spark starts. Raises KafkaError or
    CommandError.
    """
    cluster = Cluster(console.connect(args), _of_kafka(_settings(args, config_file)))
    ensure_reached(console, cluster, topics)
    return cluster


def _settings(args: Args, config_file: str | None) -> dict[str, str]:
    """Return the profile's client settings, overridden by those of `config_file`; None: the file of
    --command-config."""
    if config_file is None or config_file == args.command_config:
        return client_settings(args)
    return profile_settings(args) | args.indirect.resolved(read_properties(config_file), config_file)


def with_registry_credentials(args: Args, url: str, config_file: str | None = None) -> str:
    """Return the URL of a schema registry with user and password of --command-config, which `config_file` replaces, or
    of the profile, if it has none."""
    user_info = None if "@" in url else _settings(args, config_file).get(REGISTRY_USER)
    if not user_info:
        return url
    from urllib.parse import quote

    scheme, _, place = url.partition("://")
    user, _, password = user_info.partition(":")
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{place}"


def other_cluster(console: Console, args: Args, bootstrap: str, config_file: str | None, *topics: str) -> Cluster:
    """Return a second cluster, after a check that it has these topics. Raises KafkaError or CommandError."""
    cluster = Cluster(
        bootstrap, _of_kafka(args.indirect.resolved(read_properties(config_file), config_file)) if config_file else {}
    )
    ensure_reached(console, cluster, topics)
    return cluster


def _of_kafka(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a client of Kafka has: sources and sinks of a run refuse others."""
    return {
        name: value
        for name, value in settings.items()
        if not is_registry_setting(name) and any(name in table for table in (ADMIN, CONSUMER, PRODUCER))
    }


def ensure_reached(console: Console, cluster: Cluster, topics: tuple[str, ...]) -> None:
    """Raise KafkaError if the cluster does not answer, CommandError if it lacks one of these topics."""
    with AdminClient(cluster.bootstrap, dict(cluster.settings), console.clock) as admin:
        if topics:
            from kafkatools.core.admin.topics import describe_topics

            for topic, description in describe_topics(admin, topics).items():
                if description.error is not None:
                    is_missing = description.error.name == "UNKNOWN_TOPIC_OR_PARTITION"
                    problem = " does not exist" if is_missing else f": {description.error}"
                    raise CommandError(f"Topic {topic}{problem}", kind=description.error.name)
        else:
            describe_cluster(admin)
