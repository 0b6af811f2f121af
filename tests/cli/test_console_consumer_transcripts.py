"""kt console-consumer against the recordings of kafka-console-consumer.sh, on the embedded broker.

The recordings end most runs with --timeout-ms 1500; here the time is shorter, since a local broker answers at once.
On a busy machine it can be too short: then, and only then, a run is repeated with plenty of time.
"""

from __future__ import annotations

import pathlib
import re
import struct
from collections.abc import Iterator

import pytest
import transcripts
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.raw_client import RawClient
from transcripts import Case, Difference

from kafkatools.exit_status import ExitStatus

START = 1_700_000_000_000
IDLE_MS = "250"
GROUP_IDLE_MS = "500"  # joining is part of it
LONG_IDLE_MS = "10000"
FAILED, USAGE = ExitStatus.FAILED, ExitStatus.USAGE
_KIP_848 = "The consumer rebalance protocol (KIP-848)"
_DEPRECATED = re.compile(r"^Option --\S+ is deprecated .*\n", re.MULTILINE)
_UNKNOWN_PROPERTY = "Unknown formatter property {}."
_UNKNOWN_FORMATTER = "Unknown formatter {}. Known ones"
_NONE_OF = "Unknown deserializer {}."

# One after the other, in this order: what one run commits the next one goes on from.
GROUPS = ("047", "048", "049", "050", "051", "052", "056")
# Against Apache Kafka, in tests/real_kafka: transactions and the contents of internal topics.
NEED_REAL_KAFKA = {"065", "066", "067", "084", "085", "088"}
# Content of __consumer_offsets; a run that a signal ends (tested elsewhere).
NOT_REPLAYED = {"089", "111"}
# Which topic or partition comes first is chance, in Kafka too.
ANY_ORDER = {"046", "057", "059"}

DIFFERENCES = {
    "025": Difference("nothing-ignored", USAGE, "", _UNKNOWN_PROPERTY.format("no.such")),
    "026": Difference("nothing-ignored", USAGE, "", "Formatter property print.key must be true or false, not yes"),
    "032": Difference("nothing-ignored", USAGE, "", "--formatter-property takes key=value, not 'print.key'"),
    "039": Difference("consumer-ranges", ExitStatus.OK, "v3\nnull\n\n", "Processed a total of 3 messages"),
    "042": Difference("consumer-failures", FAILED, "", "Offset 99 is out of range: plain-0 holds offsets 0 to 5"),
    "043": Difference("consumer-failures", FAILED, "", "Topic plain has no partition 7: its only partition is 0"),
    "044": Difference("consumer-failures", FAILED, "", "Topic plain has no partition -1: its only partition is 0"),
    "056": Difference("consumer-failures", FAILED, "", "Processed a total of 0 messages"),
    "055": Difference("usage", USAGE),
    "058": Difference("missing-topic", FAILED, "", "No topic matches aaa.one,aaa.two"),
    "060": Difference("missing-topic", FAILED, "", "No topic matches zzz.*"),
    "061": Difference("usage", USAGE, "", "[ is an invalid regex"),
    "071": Difference("skip-message", FAILED),
    "072": Difference("skip-message", FAILED, "7\t1234567890123\n-1\t-5\n9\t42\n"),
    "074": Difference("no-java-classes", stdout="1234567890123\n"),
    "075": Difference("no-java-classes", USAGE, "", _NONE_OF.format("com.example.Nope")),
    "076": Difference("no-java-classes", USAGE, "", _NONE_OF.format("java.lang.String")),
    "081": Difference("formatter-names", USAGE, "", _UNKNOWN_FORMATTER.format("kafka.tools.DefaultMessageFormatter")),
    "082": Difference("formatter-names", USAGE, "", _UNKNOWN_FORMATTER.format("com.example.Nope")),
    "083": Difference("formatter-names", USAGE, "", _UNKNOWN_FORMATTER.format("java.lang.String")),
    "087": Difference(
        "formatter-names",
        USAGE,
        "",
        _UNKNOWN_FORMATTER.format("kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter"),
    ),
    "090": Difference("missing-topic", FAILED, "", "Topic ghost does not exist"),
    "091": Difference("consumer-failures", FAILED, "", "Invalid topics: [bad name]"),
    "097": Difference("nothing-ignored", USAGE, "", "Unexpected argument 'extra'"),
    "103": Difference("missing-file", FAILED, "", "absent.properties: no such properties file"),
    "110": Difference("unreachable", FAILED, "", ""),
    "113": Difference("help", ExitStatus.OK),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The broker with the topics of the recordings, without the transactions."""
    directory = tmp_path_factory.mktemp("console-consumer")
    settings = {"auto_create_topics_enable": "false", "group_initial_rebalance_delay_ms": "0"}
    settings["offsets_topic_num_partitions"] = "4"
    with embedded_broker(directory, **settings) as bootstrap:
        with RawClient(bootstrap) as client:
            fill(client)
        yield bootstrap


def fill(client: RawClient) -> None:
    def rows(topic: str, partition: int, *pairs: tuple[bytes | None, bytes | None]) -> None:
        client.produce_rows(
            topic, partition, [(START + i * 1000, key, value, ()) for i, (key, value) in enumerate(pairs)]
        )

    for name, partitions in (
        ("plain", 1),
        ("multi", 3),
        ("nums", 1),
        ("bin", 1),
        ("empty", 1),
        ("aaa.one", 1),
        ("aaa.two", 1),
    ):
        client.create_topic(name, partitions)
    plain = [
        (b"k1", b"v1", [("h1", b"a"), ("h2", b"b")]),
        (b"k2", b"v2", []),
        (None, b"v3", [("h1", None)]),
        (b"k4", None, []),
        (b"", b"", []),
    ]
    client.produce_rows("plain", 0, [(START + i * 1000, *row) for i, row in enumerate(plain)])
    rows("multi", 0, (b"a", b"m0"), (b"d", b"m3"))
    rows("multi", 1, (b"b", b"m1"))
    rows("multi", 2, (b"c", b"m2"))
    numbers = (
        (7, struct.pack(">q", 1234567890123)),
        (-1, struct.pack(">q", -5)),
        (8, b"xx"),
        (9, struct.pack(">q", 42)),
    )
    rows("nums", 0, *((struct.pack(">i", key), value) for key, value in numbers))
    rows("bin", 0, (b"\xff", b"\xc3\x28\x0aA"))
    rows("aaa.one", 0, (None, b"one"))
    rows("aaa.two", 0, (None, b"two"))


CASES = [
    case
    for case in transcripts.load("console-consumer")
    if case.number not in NEED_REAL_KAFKA | NOT_REPLAYED | set(GROUPS)
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_behaves_as_recorded(case: Case, broker: str, tmp_path: pathlib.Path) -> None:
    for recorded in CASES:
        for name, text in recorded.files.items():
            (tmp_path / name).write_text(text)
    difference = DIFFERENCES.get(case.number, Difference(""))
    ran = run_kt_with_time(case, arguments(case, broker), tmp_path)
    assert ran.status == (status(case) if difference.status is None else difference.status), ran.err
    stdout = _DEPRECATED.sub("", case.stdout) if difference.stdout is None else difference.stdout
    if difference.key == "help":
        assert "--max-messages" in ran.out
    elif case.number in ANY_ORDER:
        assert sorted(ran.stdout.decode().splitlines()) == sorted(stdout.splitlines())
    else:
        assert ran.stdout.decode(errors="replace") == stdout, ran.err
    check_stderr(case, ran, difference)


def arguments(case: Case, bootstrap: str) -> list[str]:
    args = [arg.replace("BOOTSTRAP", bootstrap).replace("UNREACHABLE", "127.0.0.1:1") for arg in case.args]
    if "--timeout-ms" in args:
        at = args.index("--timeout-ms") + 1
        if args[at].isdigit() and int(args[at]) > 0:
            args[at] = IDLE_MS
    return args


def run_kt_with_time(case: Case, args: list[str], directory: pathlib.Path) -> Ran:
    """Runs `kt`; when the time ended before anything came, but something should have come, once more with much time."""
    ran = run_kt("console-consumer", *args, cwd=directory)
    difference = DIFFERENCES.get(case.number, Difference(""))
    wanted = _DEPRECATED.sub("", case.stdout) if difference.stdout is None else difference.stdout
    short = {IDLE_MS, GROUP_IDLE_MS}.intersection(args)
    if not short or ran.stdout or not wanted.strip():
        return ran
    return run_kt("console-consumer", *(LONG_IDLE_MS if arg in short else arg for arg in args), cwd=directory)


def status(case: Case) -> ExitStatus:
    if case.exit == 0:
        return ExitStatus.OK
    words = r"<option table>|<tool description>|Cannot parse argument|Found multiple arguments|Invalid value"
    usage = re.search(words, case.stderr)
    return USAGE if usage else FAILED


def check_stderr(case: Case, ran: Ran, difference: Difference) -> None:
    """The total, or Kafka's words for what is wrong; deprecation lines come first, as warnings."""
    lines = [line for line in ran.err.splitlines() if not _DEPRECATED.match(line + "\n")]
    assert len(_DEPRECATED.findall(ran.err)) == len(_DEPRECATED.findall(case.stdout))
    if difference.stderr is not None:
        assert any(line.startswith(difference.stderr) for line in lines), ran.err
        return
    total = re.search(r"^Processed a total of \d+ messages$", case.stderr, re.MULTILINE)
    if total is not None:
        assert total.group(0) in lines
    elif case.exit:
        message = case.stderr.replace("<option table>", "").replace("<tool description>", "").strip()
        wanted = [transcripts._JAVA.sub("", transcripts._LOG_LINE.sub("", line)) for line in message.splitlines()]
        if any(wanted):
            assert any(lines[0] == line for line in wanted), (lines, wanted)


@pytest.mark.slow
def test_groups_behave_as_recorded(broker: str, tmp_path: pathlib.Path) -> None:
    recorded = {case.number: case for case in transcripts.load("console-consumer")}
    # The first group makes __consumer_offsets: that is not for the time of the first case.
    warm = ("--bootstrap-server", broker, "--topic", "empty", "--group", "warm", "--exit-at-end")
    assert run_kt("console-consumer", *warm).status == ExitStatus.OK
    for number in GROUPS:
        case = recorded[number]
        args = [GROUP_IDLE_MS if arg == IDLE_MS else arg for arg in arguments(case, broker)]
        ran = run_kt_with_time(case, args, tmp_path)
        difference = DIFFERENCES.get(number, Difference(""))
        assert ran.status == (status(case) if difference.status is None else difference.status), (case.name, ran.err)
        assert ran.stdout.decode() == case.stdout, (case.name, ran.err)
        check_stderr(case, ran, difference)


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()
