"""kt pipeline verify: check that the sources and the sink of a run still match its manifest."""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.commands.pipeline.spark import cluster_of, failures, session
from kafkatools.commands.pipeline.spark_progress import job_progress
from kafkatools.console import Console
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args
from kafkatools.pipeline.run.manifest import Difference, is_sink_verifiable, pipeline_of, read_manifest
from kafkatools.pipeline.types import ManifestContent


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline verify: print each difference from the manifest. Returns FINDINGS if there is one.

    Raises UsageError without a manifest or if the file does not exist, CommandError if verification fails.
    """
    if args.operand is None:
        raise UsageError("kt pipeline verify needs a manifest: kt pipeline verify FILE")
    with failures():
        content = read_manifest(args.operand)
        if content is None:
            raise UsageError(f"{args.operand}: no such file")
        topics = [source["name"] for source in content["sources"] if source["uri"].startswith("topic:")]
        _ensure_one_cluster(args.operand, content, topics)
        clusters = dict.fromkeys(topics, cluster_of(console, args)) if topics else {}
        pipeline = pipeline_of(content, clusters)
        with session(console, args) as spark:
            from kafkatools.pipeline.run.batch import reports_directory
            from kafkatools.pipeline.run.recorded_run import verify_manifest

            with (
                reports_directory(pipeline) as reports,
                job_progress(console, spark, "Verifying", reports, prints=False),
            ):
                differences = verify_manifest(spark, content, pipeline, reports)
    return _report(console, content, differences)


def _ensure_one_cluster(path: str, content: ManifestContent, topics: Sequence[str]) -> None:
    """Raise CommandError if the sources with these names are topics of several clusters: all are read from one."""
    cluster_ids = content["pipeline"].get("clusters", {})
    named = {name: cluster_ids[name] for name in topics if cluster_ids.get(name) is not None}
    if len(set(named.values())) > 1:
        places = ", ".join(f"{name} of {cluster_id}" for name, cluster_id in named.items())
        raise CommandError(f"{path} has topics of several clusters, and kt pipeline verify reads from one: {places}")


def _report(console: Console, content: ManifestContent, differences: list[Difference]) -> ExitStatus:
    for difference in differences:
        row = {"uri": difference.uri, "item": difference.item, "difference": difference.problem}
        console.print(difference.text(), row)
    if console.is_json or not differences:
        records = sum(source["records"] or 0 for source in content["sources"])
        summary = f"{_matching(content)}: {records} records read, {_written(content)}"
        console.print(summary, {"verified": not differences, "differences": len(differences)})
    return ExitStatus.FINDINGS if differences else ExitStatus.OK


def _matching(content: ManifestContent) -> str:
    if is_sink_verifiable(content["sink"]):
        return "The sources and the sink match the manifest"
    return "The sources match the manifest"


def _written(content: ManifestContent) -> str:
    """Describe what was verified of the sink."""
    sink, files = content["sink"], content["sink"]["files"]
    if sink.get("version") is not None:
        return f"version {sink['version']} of {sink['uri']} written"
    if files is None:
        return f"the content of {sink['uri']} was not verified"
    return f"{len(files)} files of {sink['uri']} written"
