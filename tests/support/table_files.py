"""The rows of Delta and Iceberg tables that were only appended to, read without Spark: by their logs and pyarrow."""

from __future__ import annotations

import json
import pathlib
from urllib.parse import unquote, urlsplit

import pyarrow.parquet


def rows_of_delta(directory: pathlib.Path) -> list[tuple[int, int, bytes]]:
    """Return partition, offset and value of each row of a Delta table."""
    files: list[pathlib.Path] = []
    for commit in sorted((directory / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            assert "remove" not in action
            if "add" in action:
                files.append(directory / unquote(action["add"]["path"]))
    return _rows(files)


def rows_of_iceberg(directory: pathlib.Path) -> list[tuple[int, int, bytes]]:
    """Return partition, offset and value of each row of an Iceberg table in a Hadoop catalog."""
    from fastavro import reader

    metadata = directory / "metadata"
    version = (metadata / "version-hint.text").read_text().strip()
    table = json.loads((metadata / f"v{version}.metadata.json").read_text())
    (current,) = (one for one in table["snapshots"] if one["snapshot-id"] == table["current-snapshot-id"])
    files = []
    with _opened(current["manifest-list"]) as manifests:
        for manifest in reader(manifests):
            with _opened(manifest["manifest_path"]) as entries:
                for entry in reader(entries):
                    assert entry["status"] != 2, "nothing was deleted"
                    files.append(_path(entry["data_file"]["file_path"]))
    return _rows(files)


def _path(url: str) -> pathlib.Path:
    return pathlib.Path(unquote(urlsplit(url).path))


def _opened(url: str):  # type: ignore[no-untyped-def] # noqa: ANN202
    return _path(url).open("rb")


def _rows(files: list[pathlib.Path]) -> list[tuple[int, int, bytes]]:
    columns = ["partition", "offset", "value"]
    tables = [pyarrow.parquet.read_table(file, columns=columns, partitioning=None) for file in files]
    return sorted(row for table in tables for row in zip(*(table[name].to_pylist() for name in columns), strict=True))
