"""The tables of a query, and the meaning of a name after FROM.

`topic:NAME` and `log:PATH` are records. `parquet:PATH` and `csv:PATH`, and names with a slash or with such an
extension, are files: one file, a pattern with `*`, or for Parquet a directory. Any other name is a topic.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources import schema
from kafkatools.pipeline.uris import LOG, TOPIC, Uri, parse_source
from kafkatools.tools.search.sql import SqlError, quote_name, quote_text

PARQUET, CSV = "parquet", "csv"
_READERS = {PARQUET: "read_parquet", CSV: "read_csv"}
_SUFFIXES = {".parquet": PARQUET, ".csv": CSV, ".csv.gz": CSV, ".tsv": CSV}

COLUMNS = {
    "topic": "string", "partition": "int", "offset": "bigint", "timestamp": "timestamp", "key": "string",
    "value": "string", "headers": schema.TEXT_HEADERS,
}  # fmt: skip
"""The columns of records. Keys, values and header values are text, with replacement characters for bytes that are not
UTF-8."""

FURTHER_COLUMNS = {"key_bytes": "binary", "value_bytes": "binary", "timestampType": "int", **schema.METADATA_COLUMNS}
"""Columns that a table of records has only if the statement names them: `*` does not select them alone."""

_SQL_TYPES = {
    "string": "VARCHAR", "binary": "BLOB", "int": "INTEGER", "bigint": "BIGINT", "smallint": "SMALLINT",
    "timestamp": "TIMESTAMPTZ", schema.TEXT_HEADERS: 'STRUCT("key" VARCHAR, "value" VARCHAR)[]',
}  # fmt: skip


@dataclass(frozen=True)
class RecordTable:
    """A table of records: its name in the statement, the topic or log files, and its columns with their types."""

    name: str
    uri: Uri
    columns: dict[str, str]

    def definition(self) -> str:
        """Return the statement that creates an empty table with these columns."""
        columns = ", ".join(f"{quote_name(name)} {_SQL_TYPES[text]}" for name, text in self.columns.items())
        return f"CREATE TABLE {quote_name(self.name)} ({columns})"


@dataclass(frozen=True)
class FileTable:
    """A table of files of one kind: its name in the statement, and the paths."""

    name: str
    kind: str
    paths: tuple[str, ...]

    def definition(self) -> str:
        """Return the statement that creates a view of the files."""
        paths = ", ".join(map(quote_text, self.paths))
        partitions = ", hive_partitioning=true" if self.kind == PARQUET and len(self.paths) > 1 else ""
        return f"CREATE VIEW {quote_name(self.name)} AS SELECT * FROM {_READERS[self.kind]}([{paths}]{partitions})"


def table_names(statement: object) -> list[str]:
    """Return the sorted names of the tables that a statement reads, from DuckDB's JSON form of its syntax tree, without
    those of a schema, such as information_schema. A name that a WITH clause defines is no table where the clause holds:
    in later definitions, in the query, and in a recursive definition itself. Raises SqlError for two names that differ
    only in case."""
    names: dict[str, str] = {}
    waiting: list[tuple[object, frozenset[str]]] = [(statement, frozenset())]
    while waiting:
        node, own = waiting.pop()
        if isinstance(node, list):
            waiting += ((item, own) for item in node)
        elif isinstance(node, dict):
            if node.get("type") == "BASE_TABLE" and not node.get("schema_name") and not node.get("catalog_name"):
                name = str(node["table_name"])
                if name.lower() not in own and names.setdefault(name.lower(), name) != name:
                    both = " and ".join(sorted((names[name.lower()], name)))
                    raise SqlError(f"{both} differ only in case, which SQL ignores: write one as 'topic:NAME'")
            if "cte_name" in node:
                own |= {str(node["cte_name"]).lower()}
            for entry in (node.get("cte_map") or {}).get("map") or ():
                waiting.append((entry["value"], own))
                own |= {str(entry["key"]).lower()}
            waiting += ((value, own) for key, value in node.items() if key != "cte_map")
    return sorted(names.values())


def resolve(name: str, words: frozenset[str], *, only_topics: bool = False) -> RecordTable | FileTable:
    """Return the table that a name stands for. `words` are those of the statement that may name columns, in lower case.
    Raises PipelineError for a kind that cannot be queried, for files that do not exist, and with `only_topics` for any
    file; a topic or log is not looked up."""
    if only_topics and not (name.startswith(f"{TOPIC}:") or name.isidentifier()):
        raise PipelineError(f"{name} cannot be queried with --only-topics; write a topic as 'topic:NAME'")
    uri = _uri_of(name)
    if uri.kind in (TOPIC, LOG):
        if uri.kind == TOPIC and (not uri.target or "," in uri.target):
            raise PipelineError(f"{name} must name exactly one topic: topic:NAME")
        further = {column: text for column, text in FURTHER_COLUMNS.items() if column.lower() in words}
        return RecordTable(name, uri, COLUMNS | further)
    if uri.kind not in _READERS:
        raise PipelineError(f"{name} cannot be queried; use topic:NAME, log:PATH, parquet:PATH or csv:PATH")
    return FileTable(name, uri.kind, _files(uri))


_OTHER_FILES = (".json", ".jsonl", ".avro")


def _uri_of(name: str) -> Uri:
    if ":" in name:
        return parse_source(name)
    for suffix, kind in _SUFFIXES.items():
        if name.lower().endswith(suffix):
            return Uri(kind, name)
    if "/" in name or (name.lower().endswith(_OTHER_FILES) and os.path.isfile(name)):
        raise PipelineError(f"{name} is neither a Parquet nor a CSV file; for a Kafka log use 'log:{name}'")
    return Uri(TOPIC, name)


def _files(uri: Uri) -> tuple[str, ...]:
    path = os.path.expanduser(uri.target)
    if os.path.isdir(path) and uri.kind == PARQUET:
        paths: Iterable[str] = glob.iglob(os.path.join(glob.escape(path), "**", "*.parquet"), recursive=True)
    elif os.path.exists(path):
        paths = [path]
    else:
        paths = glob.iglob(path, recursive=True)
    files = tuple(sorted(os.path.abspath(found) for found in paths if os.path.isfile(found)))
    if not files:
        problem = "contains no Parquet file" if os.path.isdir(path) else "does not exist"
        raise PipelineError(f"{uri.target} {problem}")
    return files
