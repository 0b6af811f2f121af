"""console-producer and console-consumer with 1 M lines of 100 B, against kcat and the real tools, on one broker."""

from __future__ import annotations

import filecmp
import pathlib
import shlex
import statistics

from benchmarks import measure, peers

COUNT = 1_000_000


def main() -> None:
    """Prints the produce and consume ratios against the embedded broker and Apache Kafka."""
    with peers.scratch() as directory:
        lines = peers.lines_file(directory)
        with peers.embedded_broker(directory) as bootstrap:
            produce("embedded broker", bootstrap, lines)
            consume("embedded broker", bootstrap, lines)
        with peers.real_broker(directory) as bootstrap:
            produce("Apache Kafka", bootstrap, lines)
            consume("Apache Kafka", bootstrap, lines)


def produce(broker: str, bootstrap: str, lines: pathlib.Path) -> None:
    """1 M lines from a file into one partition."""
    for topic in ("kt-in", "kcat-in", "java-in"):
        peers.create_topic(bootstrap, topic)
    ours = measure.Work(
        [*peers.KT, "console-producer", "--topic", "kt-in", "--bootstrap-server", bootstrap], stdin=lines
    )
    if peers.kcat():
        kcat = measure.Work(["kcat", "-P", "-b", bootstrap, "-t", "kcat-in"], stdin=lines)
        for work in (kcat, ours) * 2:  # a cold Java virtual machine would serve the first one worse
            measure.run(work)
        measure.compare(f"console-producer 1 M lines to {broker}", ours, kcat, "kcat", target=1.2)
    java = measure.Work(
        peers.java("console-producer", "--topic", "java-in", "--bootstrap-server", bootstrap), stdin=lines
    )
    measure.compare(f"console-producer 1 M lines to {broker}", ours, java, "kafka-console-producer", target=5, rounds=3)


def consume(broker: str, bootstrap: str, lines: pathlib.Path) -> None:
    """1 M records of one partition, values to a file."""
    peers.create_topic(bootstrap, "out")
    measure.run(
        measure.Work([*peers.KT, "console-producer", "--topic", "out", "--bootstrap-server", bootstrap], stdin=lines)
    )
    result = lines.with_name("consumed.txt")
    arguments = ["--topic", "out", "--partition", "0", "--offset", "earliest"]
    arguments += ["--max-messages", str(COUNT), "--bootstrap-server", bootstrap]
    ours = measure.Work([*peers.KT, "console-consumer", *arguments], stdout=result)
    ensure_all_read(ours, lines)
    if peers.kcat():
        kcat = measure.Work(
            ["kcat", "-C", "-q", "-b", bootstrap, "-t", "out", "-o", "beginning", "-c", str(COUNT)], stdout=result
        )
        measure.compare(f"console-consumer 1 M records from {broker}", ours, kcat, "kcat", target=1.0)
        with_format(broker, bootstrap, result, arguments)
    java = measure.Work(peers.java("console-consumer", *arguments), stdout=result)
    ensure_all_read(java, lines)
    measure.compare(
        f"console-consumer 1 M records from {broker}", ours, java, "kafka-console-consumer", target=5, rounds=3
    )

    through_group(broker, bootstrap, lines)


def with_format(broker: str, bootstrap: str, result: pathlib.Path, arguments: list[str]) -> None:
    """The same records, printed by a format of kcat; both have to write the same bytes."""
    form = r"%t %p %o %T %k %S %s\n"
    ours = measure.Work([*peers.KT, "console-consumer", *arguments, "--format", form], stdout=result)
    command = ["kcat", "-C", "-q", "-b", bootstrap, "-t", "out", "-o", "beginning", "-c", str(COUNT), "-f", form]
    theirs = result.with_name("formatted-by-kcat.txt")
    kcat = measure.Work(command, stdout=theirs)
    for work in (ours, kcat):
        measure.run(work)
    if not filecmp.cmp(result, theirs, shallow=False):
        raise SystemExit("benchmark: console-consumer --format and kcat -f wrote different bytes")
    measure.compare(f"console-consumer --format 1 M records from {broker}", ours, kcat, "kcat -f", target=1.0)


def through_group(broker: str, bootstrap: str, lines: pathlib.Path) -> None:
    """The same records as the member of a new group each time, which commits what it printed; whole runs of 1 M, and
    the rate of reading once the group is joined (5 M less 1 M)."""
    for _ in range(4):
        measure.run(
            measure.Work(
                [*peers.KT, "console-producer", "--topic", "out", "--bootstrap-server", bootstrap], stdin=lines
            )
        )
    result = lines.with_name("through-group.txt")
    member, alone = (_reading(bootstrap, COUNT, result, group) for group in (True, False))
    ensure_all_read(member, lines)
    name = f"console-consumer 1 M records through a group from {broker}"
    measure.compare(name, member, alone, "no group", target=1.0)

    works = [_reading(bootstrap, count, result, group) for group in (True, False) for count in (5 * COUNT, COUNT)]
    rounds = [[measure.run(work).wall_s for work in works] for _ in range(measure.ROUNDS)]
    through, without = (statistics.median(row[first] - row[first + 1] for row in rounds) / 4 for first in (0, 2))
    ratio = without / through
    name = f"console-consumer, each further 1 M records through a group from {broker}"
    measure.report(
        name, ratio=round(ratio, 2), target=1.0, reached=ratio >= 1.0, ours_s=round(through, 3), peer="no group",
        peer_s=round(without, 3), rounds=measure.ROUNDS,
    )  # fmt: skip


def _reading(bootstrap: str, count: int, result: pathlib.Path, through_group: bool) -> measure.Work:
    arguments = ["--topic", "out", "--from-beginning", "--max-messages", str(count), "--bootstrap-server", bootstrap]
    command = shlex.join([*peers.KT, "console-consumer", *arguments])
    return measure.Work(["sh", "-c", f"exec {command}" + (" --group group-$$" if through_group else "")], stdout=result)


def ensure_all_read(work: measure.Work, lines: pathlib.Path) -> None:
    """A consumer that stopped early would look fast: what it wrote has to be what went in."""
    measure.run(work)
    assert work.stdout is not None
    if not filecmp.cmp(work.stdout, lines, shallow=False):
        raise SystemExit(f"benchmark: {' '.join(work.command[:4])} did not read back what was written")


if __name__ == "__main__":
    main()
