"""kt console-producer against the recordings of kafka-console-producer.sh, on an embedded broker.

What each topic holds afterwards is compared too, read with `kt console-consumer` in the way it was recorded.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator

import pytest
import transcripts
from support.kt import Ran, run_kt
from transcripts import Case, Difference

from kafkatools.exit_status import ExitStatus

TOO_LARGE = "The request included a message larger than the max message size the server will accept."
LOST = "Error when sending message to topic {} with key: null, value: {} bytes with error: {}"

DIFFERENCES = {
    "012": Difference("producer-malformed"),
    "015": Difference("producer-separator", ExitStatus.USAGE, stderr="key.separator may not be empty"),
    "016": Difference(
        "nothing-ignored",
        ExitStatus.USAGE,
        stderr="Reader property parse.key must be true or false, not 'true,key.separator=:'",
    ),
    "024": Difference("exit-codes", ExitStatus.USAGE),
    "025": Difference("exit-codes", ExitStatus.USAGE),
    "029": Difference("exit-codes", ExitStatus.USAGE),
    "030": Difference("nothing-ignored", ExitStatus.USAGE, own_words=True),
    "031": Difference("nothing-ignored", ExitStatus.USAGE, own_words=True),
    "041": Difference("usage", ExitStatus.USAGE),
    "048": Difference("usage", ExitStatus.USAGE),
    "050": Difference("usage", ExitStatus.USAGE),
    "051": Difference("nothing-ignored", ExitStatus.USAGE, own_words=True),
    "055": Difference("missing-file", stderr="absent.properties: no such properties file"),
    "059": Difference(
        "producer-failures",
        ExitStatus.FAILED,
        stderr=LOST.format(
            "p59",
            1200000,
            "The message is 1200088 bytes when serialized which is larger than 1048576, "
            "which is the value of the max.request.size configuration.",
        ),
    ),
    "060": Difference("producer-split", ExitStatus.FAILED, stderr=LOST.format("p60", 3000, TOO_LARGE)),
    "061": Difference("producer-failures", stderr=LOST.format("p61", 3000, TOO_LARGE)),
    "062": Difference(
        "producer-failures",
        ExitStatus.FAILED,
        stderr=LOST.format("p62", 3, "Compacted topic cannot accept message without key in topic partition p62-0"),
    ),
    "064": Difference("log-lines", stderr="3 sent, 0 failed"),
    "065": Difference(
        "producer-failures", ExitStatus.FAILED, stderr=LOST.format("bad name", 3, "Invalid topics: [bad name]")
    ),
    "068": Difference(
        "producer-failures",
        ExitStatus.FAILED,
        stderr=LOST.format("p68", 3, "Topic p68 not present in metadata after 1500 ms."),
    ),
    "070": Difference("producer-bootstrap", ExitStatus.USAGE, stderr='Missing required argument "[bootstrap-server]"'),
    "075": Difference("nothing-ignored", ExitStatus.USAGE, own_words=True),
    "078": Difference("producer-line-reader", ExitStatus.USAGE, own_words=True),
    "079": Difference("producer-line-reader", ExitStatus.USAGE, own_words=True),
    "081": Difference("help", ExitStatus.OK, own_words=True),
    "082": Difference(
        "producer-failures",
        ExitStatus.FAILED,
        stderr=LOST.format("absent", 3, "Topic absent not present in metadata after 2500 ms."),
    ),
    "083": Difference(
        "producer-failures", stderr=LOST.format("absent", 3, "Topic absent not present in metadata after 2500 ms.")
    ),
}
AFTER = {
    "060": "Partition:0\tOffset:0\tNO_HEADERS\tNULL\tsmall\nPartition:0\tOffset:1\tNO_HEADERS\tNULL\tafter\n",
}
"""What the topic holds where `kt` does better than what was recorded."""

UNTOUCHED = {"015", "016", "024", "025", "029", "030", "031", "051", "075", "078", "079"}
"""Nothing is sent: the command line was refused."""

READ_BACK = [
    *("--from-beginning", "--exit-at-end"),
    *("print.partition=true", "print.offset=true", "print.headers=true", "print.key=true", "null.literal=NULL"),
]


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()


def created(case: Case) -> tuple[str, int, list[str]] | None:
    """The topic that was made before a case ran: name, partitions, configuration."""
    made = re.search(r"topic (.+) created with (\d+) partition\(s\)(?: and (\S+))?$", case.setup)
    if made is None:
        return None
    return made[1], int(made[2]), [made[3]] if made[3] else []


def stdin_of(case: Case) -> bytes:
    text = re.sub(r"\{(.)\*(\d+)\}", lambda repeat: repeat[1] * int(repeat[2]), case.stdin)
    return text.encode("latin-1" if case.number == "008" else "utf-8")


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return transcripts.load("console-producer")


@pytest.fixture
def run_case(tmp_path: pathlib.Path) -> Iterator[Callable[[Case, str], Ran]]:
    def run(case: Case, bootstrap: str) -> Ran:
        topic = created(case)
        if topic is not None and bootstrap:
            name, partitions, configuration = topic
            options = [part for entry in configuration for part in ("--config", entry)]
            made = run_kt(
                "topics",
                *(
                    "--bootstrap-server",
                    bootstrap,
                    "--create",
                    "--topic",
                    name,
                    "--partitions",
                    str(partitions),
                    *options,
                ),
            )
            assert made.status == 0, made.err
        directory = tmp_path / case.name
        directory.mkdir()
        transcripts.write_files(case, directory)
        args = [
            argument.replace("BOOTSTRAP", bootstrap).replace("UNREACHABLE", "127.0.0.1:1") for argument in case.args
        ]
        return run_kt("console-producer", *args, stdin=stdin_of(case), cwd=directory)

    yield run


def with_counts(case: Case, wanted: transcripts.Expected) -> transcripts.Expected:
    """Kafka says nothing when all went well, `kt` ends with its counts; a warning on stdout is one on stderr."""
    if case.stdout.startswith("Warning: "):
        return wanted._replace(stdout="", error=case.stdout.rstrip("\n"))
    if wanted.error == "" and wanted.status == ExitStatus.OK and case.number != "080":
        count = len(stdin_of(case).replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip(b"\n").split(b"\n"))
        return wanted._replace(error=f"{count if case.stdin else 0} sent, 0 failed")
    return wanted


def is_about_the_options(case: Case) -> bool:
    number = int(case.number)
    return number in {35, 53, 57} or number >= 69 and number <= 75 or number in {77, 78, 79, 80, 81}


def test_the_options_are_refused_as_recorded(cases: list[Case], run_case: Callable[[Case, str], Ran]) -> None:
    chosen = [case for case in cases if is_about_the_options(case)]
    assert len(chosen) == 15
    failures = transcripts.replay(chosen, lambda case: run_case(case, ""), DIFFERENCES, with_counts)
    assert failures == []


def read_back(case: Case, bootstrap: str) -> str:
    topic = created(case)
    name = topic[0] if topic else case.args[case.args.index("--topic") + 1]
    pairs = [part for entry in READ_BACK if "=" in entry for part in ("--formatter-property", entry)]
    flags = [entry for entry in READ_BACK if "=" not in entry]
    ran = run_kt("console-consumer", "--bootstrap-server", bootstrap, "--topic", name, *flags, *pairs)
    return ran.stdout.decode("utf-8", "replace")


def check_topic(case: Case, bootstrap: str) -> list[str]:
    if case.topic_after is None or case.number in UNTOUCHED:
        return []
    wanted = AFTER.get(case.number, case.topic_after)
    held = read_back(case, bootstrap)
    if case.number == "066":
        held, wanted = ("\n".join(sorted(text.splitlines())) for text in (held, wanted))
    return [] if held == wanted else [f"{case.name}: the topic holds\n    {held!r}\n  expected\n    {wanted!r}"]


@pytest.mark.slow
def test_what_was_recorded_is_sent_and_said_alike(
    cases: list[Case], run_case: Callable[[Case, str], Ran], start_broker: Callable[..., str]
) -> None:
    bootstrap = start_broker()
    failures: list[str] = []
    for case in cases:
        if is_about_the_options(case) or case.number in ("082", "083"):
            continue
        failures += transcripts.replay([case], lambda one: run_case(one, bootstrap), DIFFERENCES, with_counts)
        failures += check_topic(case, bootstrap)
    assert failures == []


@pytest.mark.slow
def test_a_topic_that_is_not_created_by_itself_fails_within_max_block(
    cases: list[Case], run_case: Callable[[Case, str], Ran], start_broker: Callable[..., str]
) -> None:
    bootstrap = start_broker({"auto.create.topics.enable": "false"})
    chosen = [case for case in cases if case.number in ("082", "083")]
    assert transcripts.replay(chosen, lambda case: run_case(case, bootstrap), DIFFERENCES, with_counts) == []
