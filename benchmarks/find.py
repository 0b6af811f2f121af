"""console-consumer --grep and --where on 1 M JSON records against kcat with grep and jq, and the rate of a search alone
on one core."""

from __future__ import annotations

import json
import pathlib
import random
import shlex
import statistics
import time
from array import array

from benchmarks import measure, peers
from kafkatools.core.consumer.completed_fetch import FetchedColumns, join_batches
from kafkatools.core.records import kernel
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.tools.search.grep import PARTS, Grep

COUNT = 1_000_000
CITIES = ("Berlin", "Lisbon", "Nairobi", "Osaka")
TO_THE_END = ("--from-beginning", "--exit-at-end")


def main() -> None:
    """Prints the rates of a search in memory, and the ratios against kcat with grep and jq on the embedded broker."""
    search_alone()
    if not peers.kcat():
        return
    with peers.scratch() as directory, peers.embedded_broker(directory) as bootstrap:
        lines = directory / "records.txt"
        lines.write_bytes(b"".join(row + b"\n" for row in rows(COUNT)))
        peers.create_topic(bootstrap, "found")
        producer = [*peers.KT, "console-producer", "--topic", "found", "--bootstrap-server", bootstrap]
        measure.run(measure.Work(producer, stdin=lines))
        by_text(bootstrap, directory, "1 M records")
        by_condition(bootstrap, directory)
        for _ in range(7):
            measure.run(measure.Work(producer, stdin=lines))
        by_text(bootstrap, directory, "8 M records")
        in_files(directory)


def rows(count: int) -> list[bytes]:
    """JSON objects of about 95 bytes from a fixed seed."""
    source = random.Random(11)
    return [
        json.dumps(
            {"id": i, "user": f"u{source.randrange(100_000)}", "amount": source.randrange(10**6),
             "city": source.choice(CITIES), "note": "x" * 20}
        ).encode()
        for i in range(count)
    ]  # fmt: skip


def search_alone() -> None:
    """A search in the columns of uncompressed batches of 1,000 records, in seconds of processor time."""
    data = bytearray()
    values = rows(300_000)
    for start in range(0, len(values), 1000):
        builder = BatchBuilder(1 << 20, base_offset=start)
        for number, value in enumerate(values[start : start + 1000]):
            builder.append(1_700_000_000_000 + number, b"key-%d" % number, value, ())
        data += builder.close()
    runs, table, status = [], array("q", bytes(8 * kernel.HEADER_WIDTH * 8)), array("q", (0, 0))
    buffer, position = memoryview(bytes(data)), 0
    while found := kernel.scan_batches(buffer, position, len(buffer), table, status):
        columns = join_batches(buffer, table, found)
        assert columns is not None
        runs.append(FetchedColumns("found", 0, columns))
        position = status[0]
    for pattern, ignores_case in (
        ("no such text", False),
        ("Nairobi", False),
        ("NO SUCH TEXT", True),
        ("u777+", False),
    ):
        search = Grep(pattern.encode(), sum(PARTS.values()), ignores_case=ignores_case)
        rates = []
        for _ in range(measure.ROUNDS):
            started = time.process_time()
            for run in runs:
                search.rows(run)
            rates.append(len(data) / (time.process_time() - started) / 1e9)
        rate = statistics.median(rates)
        name = f"search for {pattern!r} in decoded columns{' without case' if ignores_case else ''}"
        measure.report(name, gb_per_s_of_one_core=round(rate, 2), target=1.5, reached=rate >= 1.5)


def by_text(bootstrap: str, directory: pathlib.Path, size: str) -> None:
    """The records with a text that few have, of the same topic."""
    ours = measure.Work(consumer(bootstrap, "--grep", '"user": "u777', "--grep-in", "value"), stdout=directory / "ours")
    read = kcat(bootstrap)
    peer = measure.Work(["sh", "-c", f'{read} | grep \'"user": "u777\''], stdout=directory / "peer")
    measure.compare(f"console-consumer --grep in {size}", ours, peer, "kcat | grep", target=3)
    ensure_equal(ours, peer)


def by_condition(bootstrap: str, directory: pathlib.Path) -> None:
    """The records with one value of one JSON field."""
    ours = measure.Work(consumer(bootstrap, "--where", "value->>'user' = 'u777'"), stdout=directory / "ours")
    condition = shlex.quote('.payload | select((fromjson | .user) == "u777")')
    read = kcat(bootstrap, "-J")
    peer = measure.Work(["sh", "-c", f"{read} | jq -r {condition}"], stdout=directory / "peer")
    measure.compare(
        "console-consumer --where on a JSON field of 1 M records", ours, peer, "kcat -J | jq", target=5, rounds=3
    )
    ensure_equal(ours, peer)


def in_files(directory: pathlib.Path) -> None:
    """8 M records in segment files, without a broker: bytes by processor time, less that of a search in one record."""
    logs = next(directory.rglob("found-0"))
    size = sum(path.stat().st_size for path in logs.glob("*.log"))
    for text in ("no such text", '"user": "u77712"'):
        command = [*peers.KT, "console-consumer", "--from", f"log:{logs}", "--grep", text]
        start_up, whole = measure.Work([*command, "--offset", "-1:end"]), measure.Work(command)
        times = [(measure.run(whole), measure.run(start_up)) for _ in range(measure.ROUNDS)]
        rate = size / statistics.median(run.cpu_s - one.cpu_s for run, one in times) / 1e9
        measure.report(
            f"console-consumer --from log: --grep {text!r} in 8 M records", gb_per_s_of_one_core=round(rate, 2),
            target=1.5, reached=rate >= 1.5, gb=round(size / 1e9, 2),
            ours_s=round(statistics.median(run.wall_s for run, _ in times), 3), rounds=measure.ROUNDS,
        )  # fmt: skip


def consumer(bootstrap: str, *options: str) -> list[str]:
    """A whole topic through a search."""
    return [
        *peers.KT, "console-consumer", "--bootstrap-server", bootstrap, "--topic", "found", *TO_THE_END, *options,
    ]  # fmt: skip


def kcat(bootstrap: str, *options: str) -> str:
    """A whole topic through kcat."""
    return shlex.join(["kcat", "-C", "-q", "-b", bootstrap, "-t", "found", "-o", "beginning", "-e", *options])


def ensure_equal(ours: measure.Work, peer: measure.Work) -> None:
    """Both must have found the same records, in the same order."""
    assert ours.stdout is not None and peer.stdout is not None
    if ours.stdout.read_bytes() != peer.stdout.read_bytes() or not ours.stdout.stat().st_size:
        raise SystemExit("benchmark: the search and its peer found different records")


if __name__ == "__main__":
    main()
