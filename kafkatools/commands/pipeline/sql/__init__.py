"""kt pipeline sql: Spark SQL over a cluster, in which each topic is a table.

`shell` runs statements, `prompt` reads them from a terminal.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from kafkatools.commands.pipeline.spark import cluster_of, session, usage, with_registry_credentials
from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args, client_settings, property_pairs
from kafkatools.pipeline.catalog.options import TableOptions
from kafkatools.pipeline.catalog.statements import Statement, all_statements, split
from kafkatools.pipeline.catalog.views import ViewFile
from kafkatools.pipeline.run.executors import is_local_master
from kafkatools.pipeline.run.session import DEFAULT_MASTER
from kafkatools.pipeline.storage import read_text
from kafkatools.pipeline.types import PipelineValues
from kafkatools.tools.row_texts import CSV, JSON, TABLE
from kafkatools.tools.schemas.access import URL

if TYPE_CHECKING:
    from kafkatools.pipeline.uris import Cluster

_FORMATS = (TABLE, JSON, CSV)


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline sql. Returns the status of the first statement that fails; on a terminal OK. Raises UsageError,
    CommandError and KafkaError."""
    output_format = args.output_format or (JSON if console.is_json else TABLE)
    if output_format not in _FORMATS:
        raise UsageError(f"--output-format takes {', '.join(_FORMATS)}, not {output_format}")
    requested = _requested(args)
    with usage():
        source = {"isolationLevel": args.isolation_level, **property_pairs(args.from_option, "from-option")}
        options = TableOptions.of(_registry(args), args.key, args.value, source)
    is_prompt = requested is None and console.is_input_terminal and console.is_terminal
    statements: Iterable[Statement] | None = requested
    if requested is None and not is_prompt:
        statements = _statements_after_first(console.stdin)
    cluster = cluster_of(console, args)
    views = ViewFile(args.views or _default_views(console, cluster))
    with _warehouse(args) as values, session(console, args, values) as spark:
        from kafkatools.commands.pipeline.sql.shell import Shell  # the imports of PySpark take long
        from kafkatools.pipeline.catalog.catalog import Catalog
        from kafkatools.pipeline.catalog.tables import RecordTables

        for problem in views.problems():
            console.note(problem)
        catalog = Catalog(spark, RecordTables(spark, cluster, options), views)
        shell = Shell(console, spark, catalog, output_format, args.file or "")
        if is_prompt:
            from kafkatools.commands.pipeline.sql.prompt import run_prompt

            return run_prompt(console, shell)
        for statement in statements or ():
            status = shell.run(statement)
            if status is not ExitStatus.OK:
                return status
    return ExitStatus.OK


def _requested(args: Args) -> list[Statement] | None:
    """Return the statements of the command line or of --file; None if they come from stdin. Raises UsageError."""
    texts = [text for text in (args.operand, args.execute, args.file) if text is not None]
    if len(texts) > 1:
        raise UsageError("Give the statement as an argument, with --execute or with --file, but only once")
    if not texts:
        return None
    if args.file is not None:
        with usage():
            texts = [read_text(args.file)]
    statements = all_statements(texts[0])
    if not statements:
        raise UsageError(f"{args.file or 'The statement'} contains no SQL statement")
    return statements


def _statements_after_first(stdin: BinaryIO) -> Iterable[Statement]:
    """Return the statements of stdin when the first one is read, so that Spark is not started without one. Raises
    UsageError."""
    statements = _statements_of(stdin)
    return chain([next(statements)], statements)


def _statements_of(stdin: BinaryIO) -> Iterator[Statement]:
    """Yield the statements of stdin, each as soon as its semicolon is read. Raises UsageError for a line that is not
    UTF-8, and if there is no statement."""
    rest, first_line, is_empty = "", 1, True
    for number, line in enumerate(stdin, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"stdin is not UTF-8 text: line {number}") from None
        rest += text
        if ";" not in text:  # a long statement is not split anew for each of its lines
            continue
        found, after = split(rest)
        for statement in found:
            is_empty = False
            yield Statement(statement.text, statement.line + first_line - 1)
        first_line += rest.count("\n") - after.count("\n")
        rest = after
    for statement in all_statements(rest):
        is_empty = False
        yield Statement(statement.text, statement.line + first_line - 1)
    if is_empty:
        raise UsageError("stdin contains no SQL statement")


def _registry(args: Args) -> str | None:
    url = args.schema_registry or client_settings(args).get(URL)
    return with_registry_credentials(args, url) if url else None


def _default_views(console: Console, cluster: Cluster) -> str:
    """Return the file of the cluster's views: views name topics, which belong to a cluster and not to an address or a
    profile, of which several may lead to the same cluster."""
    with AdminClient(cluster.bootstrap, dict(cluster.settings), console.clock) as admin:
        cluster_id = describe_cluster(admin).cluster_id or "unnamed"
    return os.path.join(console.home, "views", f"{cluster_id.replace(os.sep, '_')}.sql")


@contextmanager
def _warehouse(args: Args) -> Iterator[PipelineValues]:
    """Yield the settings of a local session, in which tables that a statement creates are deleted at the end, as
    Spark's catalog forgets them then. Without a setting Spark makes a directory in the working directory."""
    conf = property_pairs(args.conf, "conf")
    if not is_local_master(args.master or conf.get("spark.master") or DEFAULT_MASTER):
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="kt-pipeline-sql-") as directory:
        yield {"conf": {"spark.sql.warehouse.dir": directory}}
