"""kt metadata-quorum against the recordings of kafka-metadata-quorum.sh.

Recorded with one controller and two more brokers, which are its observers; the embedded broker has none.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.kt import Ran, run_kt
from transcripts import Case, Difference, Expected

from kafkatools.exit_status import ExitStatus

_HELP = Difference("help", status=ExitStatus.OK, own_words=True)
_USAGE = Difference("usage", status=ExitStatus.USAGE)
DIFFERENCES = {
    "002": _USAGE,
    "003": Difference("quorum-hr", status=ExitStatus.USAGE, own_words=True),
    "006": Difference("quorum-hr", own_words=True),
    "008": _USAGE,
    "009": _USAGE,
    "010": Difference("options-behind", status=ExitStatus.OK, own_words=True),
    "017": _USAGE,
    "020": Difference("unreachable", own_words=True),
    "022": _HELP,
    "023": _HELP,
    "024": _HELP,
    "025": _HELP,
}
NOT_HERE = {
    "007": "the embedded broker has no listener for controllers",
}


def masked(text: str) -> str:
    """Numbers that depend on the moment as N, with the padding that the table's columns then have."""
    text = re.sub(r"^((?:LeaderEpoch|HighWatermark): +)\d+$", r"\1N", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=\t)\d+( ms ago)? +(?=\t)|(?<=\t)\d+(?=\t)", "N", text)
    return re.sub(r"(?<=\t)(LogEndOffset|LastFetchTimestamp|LastCaughtUpTimestamp) *(?=\t)", r"\1", text)


def expect_error(case: Case, wanted: Expected) -> Expected:
    """The recorded words were broken at hyphens."""
    return (
        wanted if wanted.error is None else wanted._replace(error=wanted.error.replace("-- bootstrap", "--bootstrap"))
    )


def _expect(bootstrap: str) -> Callable[[Case, Expected], Expected]:
    def expect(case: Case, wanted: Expected) -> Expected:
        stdout = re.sub(r"CurrentObservers: .*", "CurrentObservers:       []", wanted.stdout)
        stdout = stdout.replace("CONTROLLER://CONTROLLER", f"CONTROLLER://{bootstrap}")
        stdout = re.sub(r"^.*Observer\t\n", "", stdout, flags=re.MULTILINE).replace("Status  \t", "Status\t")
        stdout = stdout.replace("Leader  \t", "Leader\t")
        return expect_error(case, wanted)._replace(stdout=masked(stdout))

    return expect


@pytest.mark.slow
def test_metadata_quorum_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()

    def run(case: Case) -> Ran:
        transcripts.write_files(case, tmp_path)
        ran = run_kt("metadata-quorum", *admin_tools.words(case, bootstrap), cwd=tmp_path)
        return ran._replace(stdout=masked(ran.out).encode())

    cases = [case for case in transcripts.load("metadata-quorum") if case.number not in NOT_HERE]
    failures = transcripts.replay(cases, run, DIFFERENCES, _expect(bootstrap))
    assert not failures, "\n".join(failures)

    describe = ("metadata-quorum", "--bootstrap-server", bootstrap, "describe", "--json")
    status = json.loads(run_kt(*describe, "--status").out)
    voter = {"id": 1, "directory_id": None, "endpoints": [f"CONTROLLER://{bootstrap}"]}
    assert (status["leader"], status["voters"], status["observers"]) == (1, [voter], [])
    replica = json.loads(run_kt(*describe, "--replication").out)
    assert (replica["status"], replica["lag"]) == ("leader", 0)


def test_add_controller_describes_the_controller_of_a_properties_file(tmp_path: pathlib.Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.properties").write_text("version=1\nnode.id=7\ndirectory.id=eE11wFiBACSh2Q9FO2wU_A\n")
    settings = {
        "node.id": "7",
        "process.roles": "controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://:9093",
        "metadata.log.dir": str(data),
    }
    path = tmp_path / "controller.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    words = ("--bootstrap-server", "127.0.0.1:9", "--command-config", str(path), "add-controller", "--dry-run")
    ran = run_kt("metadata-quorum", *words)
    where = "directory id eE11wFiBACSh2Q9FO2wU_A and endpoints: CONTROLLER://localhost:9093"
    assert ran.out == f"DRY RUN of adding controller 7 with {where}\n", ran.err
    path.write_text("process.roles=controller\n")
    refused = run_kt("metadata-quorum", *words)
    message = "node.id not found in configuration file. Is this a valid controller configuration file?\n"
    assert (refused.status, refused.err) == (ExitStatus.FAILED, message)


_CONTROLLER = {
    "node.id": "7",
    "process.roles": "controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://:9093",
    "metadata.log.dir": "data",
}
_IS_VALID = "Is this a valid controller configuration file?"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"node.id": "-1"}, f"node.id was negative in configuration file. {_IS_VALID}"),
        ({"node.id": "1_0"}, f'node.id is not an integer in configuration file: "1_0". {_IS_VALID}'),  # ours
        ({"process.roles": "broker"}, f"process.roles did not contain 'controller' in configuration file. {_IS_VALID}"),
        ({"metadata.log.dir": None}, f"Neither metadata.log.dir nor log.dirs were found. {_IS_VALID}"),
        ({"metadata.log.dir": "absent"}, "Unable to read meta.properties from absent"),
        ({"metadata.log.dir": "plain"}, "No directory id found in plain"),
        ({"controller.listener.names": None}, f"controller.listener.names was not found. {_IS_VALID}"),
        ({"controller.listener.names": "X"}, "Cannot find information about controller listener name: X"),
        ({"listeners": None}, "Cannot find information about controller listener name: CONTROLLER"),
        ({"listeners": "CONTROLLER://h"}, "Unable to parse a listener in listeners: CONTROLLER://h"),  # ours
        ({"listeners": "CONTROLLER://h:65536"}, "Unable to parse a listener in listeners: CONTROLLER://h:65536"),
    ],
)
def test_add_controller_refuses_properties_as_apache_kafka(
    tmp_path: pathlib.Path, changed: dict[str, str | None], message: str
) -> None:
    # the messages of kafka-metadata-quorum.sh 4.3.1
    for name, lines in (("data", "directory.id=eE11wFiBACSh2Q9FO2wU_A\n"), ("plain", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(f"version=1\nnode.id=7\n{lines}")
    settings = {key: value for key, value in {**_CONTROLLER, **changed}.items() if value is not None}
    (tmp_path / "c.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    words = ("--bootstrap-server", "127.0.0.1:9", "--command-config", "c.properties", "add-controller", "--dry-run")
    ran = run_kt("metadata-quorum", *words, cwd=tmp_path)
    assert (ran.status, ran.out, ran.err) == (ExitStatus.FAILED, "", f"{message}\n")


@pytest.mark.parametrize(
    ("controller", "directory", "message"),
    [
        ("-1", "AAAAAAAAAAAAAAAAAAAAAw", "Invalid negative --controller-id: -1"),
        ("1", "zzz", "Failed to parse --controller-directory-id: Input string `zzz` decoded as 2 bytes, which is not "
         "equal to the expected 16 bytes of a base64-encoded UUID"),
    ],
)  # fmt: skip
def test_remove_controller_refuses_ids_as_apache_kafka(controller: str, directory: str, message: str) -> None:
    # the messages of kafka-metadata-quorum.sh 4.3.1
    words = ("remove-controller", "--dry-run", "-i", controller, "-d", directory)
    ran = run_kt("metadata-quorum", "--bootstrap-server", "127.0.0.1:9", *words)
    assert (ran.status, ran.out, ran.err.splitlines()[0]) == (ExitStatus.USAGE, "", message)


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()
