"""`make demo`: real rows through the embedded broker and back, and what Apache Kafka wrote, read from its files.

Every step is a `kt` command that a person could type; it is printed before it runs, and its result is checked.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

KT = str(pathlib.Path(sys.executable).parent / "kt")
RECORDED = pathlib.Path(__file__).parent / "apache-kafka-partition.tar.gz"
SHOWN_LINES = 6


class Demo:
    """Runs commands in a home of their own and says what they printed."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        self.environment = {**os.environ, "KT_HOME": str(home / "kt"), "COLUMNS": "200"}

    def kt(self, *arguments: str, stdin: bytes = b"", expected: int = 0) -> bytes:
        """One command: printed, run, its first lines shown; another exit status than expected ends the demo."""
        shown = " ".join(
            argument if argument.isprintable() and " " not in argument else repr(argument) for argument in arguments
        )
        say(f"\n$ kt {shown}")
        done = subprocess.run([KT, *arguments], input=stdin, capture_output=True, env=self.environment, check=False)
        lines = done.stdout.decode(errors="replace").splitlines()
        for line in lines[:SHOWN_LINES]:
            say("  " + line[:180])
        if len(lines) > SHOWN_LINES:
            say(f"  ... {len(lines) - SHOWN_LINES} more lines")
        for line in done.stderr.decode(errors="replace").splitlines()[:SHOWN_LINES]:
            say("  [stderr] " + line[:180])
        if done.returncode != expected:
            raise SystemExit(f"demo: exit status {done.returncode}, expected {expected}")
        return done.stdout


def say(text: str) -> None:
    """One line to the person who watches."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def rows() -> bytes:
    """Real rows, one JSON object a line: the daily weather of two cities that the package vega-datasets ships."""
    package = importlib.util.find_spec("vega_datasets")  # its import would need pandas
    if package is None or package.origin is None:
        raise SystemExit("demo: the package vega-datasets is not installed; run make demo")
    data = pathlib.Path(package.origin).parent / "_data"
    lines = []
    for name in ("cars.json", "seattle-weather.csv"):
        text = (data / name).read_text(encoding="utf-8")
        if name.endswith(".json"):
            lines += [json.dumps(row, separators=(",", ":")) for row in json.loads(text)]
        else:
            head, *body = text.splitlines()
            lines += [json.dumps(dict(zip(head.split(","), row.split(","), strict=True))) for row in body]
    return "".join(line + "\n" for line in lines).encode()


def check(what: str, holds: bool) -> None:
    """Ends the demo when something is not as it must be."""
    say(f"  {'ok' if holds else 'WRONG'}: {what}")
    if not holds:
        raise SystemExit(f"demo: {what}: not so")


def main() -> None:
    """The whole demo; exits non-zero when a step is not as it must be."""
    with tempfile.TemporaryDirectory(prefix="kt-demo-") as directory:
        demo = Demo(pathlib.Path(directory))
        try:
            live(demo)
        finally:
            demo.kt("sandbox", "stop")
        pipeline(demo)
        recorded(demo)
    say("\ndemo: done")


def live(demo: Demo) -> None:
    """Rows in, rows out, and the files they became."""
    data = rows()
    count = data.count(b"\n")
    say(f"{count} rows ({len(data)} bytes); without --bootstrap-server kt starts its own broker")
    demo.kt("topics", "--create", "--topic", "first", "--partitions", "1")
    demo.kt("console-producer", "--topic", "first", stdin=data)
    back = demo.kt("console-consumer", "--topic", "first", "--from-beginning", "--max-messages", str(count))
    check("what came back is what went in, byte for byte", back == data)
    demo.kt("topics", "--describe", "--topic", "first")
    demo.kt("get-offsets", "--topic", "first")
    segments = sorted((demo.home / "kt").rglob("first-0/*.log"))
    check("the broker's partition directory holds a segment", bool(segments))
    demo.kt("dump-log", "--files", str(segments[0]))
    text = demo.kt("dump-log", "--json", "--print-data-log", "--files", str(segments[0]))
    records = [line for line in text.splitlines() if json.loads(line).get("type") == "record"]
    check("the segment on disk holds every row", len(records) == count)


def pipeline(demo: Demo) -> None:
    """The same partition's files as a table of Spark's, where Java and PySpark are there."""
    from kafkatools.pipeline.errors import PipelineError
    from kafkatools.pipeline.run.session import ensure_installed, find_java

    try:
        ensure_installed()
        find_java(os.environ)
    except PipelineError as missing:
        say(f"\nwithout the pipeline: {missing}")
        return
    (directory,) = (demo.home / "kt").rglob("first-0")
    sql = "SELECT count(*) AS rows, count(DISTINCT value) AS different, sum(length(value)) AS bytes FROM input"
    words = ("--from", f"log:{directory}", "--sql", sql, "--to", "console:", "--json")
    found = json.loads(demo.kt("pipeline", "run", *words))
    data = rows()
    lines = data.splitlines()
    expected = {"rows": len(lines), "different": len(set(lines)), "bytes": len(data) - len(lines)}
    check("Spark counts in the broker's files what went in", found == expected)


def recorded(demo: Demo) -> None:
    """A partition that Apache Kafka 4.3.1 wrote, whole and damaged."""
    with tarfile.open(RECORDED) as archive:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.0 to 3.11.3 have no extraction filters
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(demo.home)
    segment = next((demo.home / "partition").glob("*.log"))
    say("\na partition directory that Apache Kafka 4.3.1 wrote")
    demo.kt("dump-log", "--print-data-log", "--files", str(segment))
    say("\nthe same segment with one bit changed: exit status 3, and the place")
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    segment.write_bytes(damaged)
    demo.kt("dump-log", "--files", str(segment), expected=3)


if __name__ == "__main__":
    main()
