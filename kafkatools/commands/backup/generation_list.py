"""Run kt backup list."""

from __future__ import annotations

from datetime import UTC, datetime

from kafkatools.console import Console
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.output import table
from kafkatools.tools.backup.generations import generations, read_manifest, required_manifest
from kafkatools.tools.backup.opening import open_store
from kafkatools.tools.monitor.figures import size as size_text

_HEADERS = ("GENERATION", "CREATED", "TOPICS", "PARTITIONS", "GROUPS", "SIZE", "NEWEST RECORD")


def list_generations(console: Console, url: str) -> ExitStatus:
    """Print the generations. Returns FAILED if a manifest is damaged. Raises CommandError for a URL without any."""
    store = open_store(url)
    numbers = generations(store)
    if not numbers:
        required_manifest(store, None)
    rows: list[dict[str, object]] = []
    status = ExitStatus.OK
    for number in numbers:
        try:
            manifest = read_manifest(store, number)
        except CommandError as error:
            console.error(str(error), error.kind)
            status = ExitStatus.FAILED
            continue
        objects = list(manifest.objects())
        newest = max((item.max_timestamp for item in objects), default=-1)
        rows.append(
            {
                "generation": number,
                "cluster_id": manifest.cluster_id,
                "created_ms": manifest.created_ms,
                "topics": len(manifest.topics),
                "partitions": sum(1 for _ in manifest.partitions()),
                "groups": len(manifest.groups),
                "bytes": sum(item.bytes for item in objects),
                "newest_timestamp": None if newest < 0 else newest,
            }
        )
    if console.is_json:
        for row in rows:
            console.print_json(row)
        return status
    cells = [
        (
            row["generation"], _time(row["created_ms"]), row["topics"], row["partitions"], row["groups"],
            _size(row["bytes"]), _time(row["newest_timestamp"]),
        )
        for row in rows
    ]  # fmt: skip
    console.draw(table(_HEADERS, cells, terminal=console.is_terminal, width=console.width))
    return status


def _size(number: object) -> str:
    return size_text(number) if isinstance(number, int) else "-"


def _time(time_ms: object) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}" if isinstance(time_ms, int) else "-"
