"""kt cluster and kt broker-api-versions against the recordings of their scripts, on one embedded broker."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.apache_kafka import CLUSTER_ID, ApacheKafka
from support.kt import run_kt
from support.waiting import eventually
from transcripts import Case, Difference, Expected

from kafkatools.core.broker.dispatch import APIS, PRODUCE_KEY
from kafkatools.exit_status import ExitStatus

_HELP = Difference("help", status=ExitStatus.OK, own_words=True)
_USAGE = Difference("usage", status=ExitStatus.USAGE)
CLUSTER_DIFFERENCES = {
    "008": _USAGE,
    "010": Difference(
        "argparse-numbers", stderr="kafka-cluster: error: argument --id/-i: could not convert 'x' to a number"
    ),
    "012": _HELP,
    "013": _HELP,
    "014": _HELP,
    "024": Difference("unreachable", stdout="", own_words=True),
    "027": _HELP,
}
_CLUSTER_NOT_HERE = {
    "002": "the embedded broker has no listener for controllers",
    "006": "the embedded broker has no listener for controllers",
}
API_DIFFERENCES = {
    "003": Difference("help", own_words=True),
    "004": Difference("unreachable", own_words=True),
    "008": Difference("nothing-ignored", status=ExitStatus.USAGE, own_words=True),
    "009": Difference("missing-file", stderr="absent.properties: no such properties file"),
    "011": _HELP,
}
_DEPRECATED = (
    "Option --config has been deprecated and will be removed in a future version. Use --command-config instead."
)
_HYPHEN = re.compile(r"--(?: (?=bootstrap-)|(bootstrap-) )")


def _expect_cluster(port: str) -> Callable[[Case, Expected], Expected]:
    def expect(case: Case, wanted: Expected) -> Expected:
        stdout = wanted.stdout
        if stdout.startswith(_DEPRECATED):
            wanted = wanted._replace(error=_DEPRECATED)
            stdout = stdout.removeprefix(_DEPRECATED + "\n")
        if case.args[:1] == ("list-endpoints",):
            rows = stdout.splitlines(keepends=True)
            stdout = "".join(rows[:2]).replace("39092", port)
        error = None if wanted.error is None else _HYPHEN.sub(r"--\1", wanted.error)
        return wanted._replace(stdout=stdout, error=error)

    return expect


def _expect_versions(bootstrap: str) -> Callable[[Case, Expected], Expected]:
    """The recorded APIs of one broker, with what the embedded one serves of them."""

    def line(match: re.Match[str]) -> str:
        api = APIS.get(int(match[2]))
        if api is None:
            return f"\t{match[1]}({match[2]}): UNSUPPORTED"
        lowest = 0 if api.key == PRODUCE_KEY else api.lowest  # Kafka says 0 for the sake of old clients (KAFKA-18659)
        versions = f"{lowest} to {api.highest}" if lowest < api.highest else str(lowest)
        return f"\t{match[1]}({match[2]}): {versions} [usable: {api.highest}]"

    def expect(case: Case, wanted: Expected) -> Expected:
        if "Produce(0)" not in wanted.stdout:
            return wanted
        first = wanted.stdout.split(")\n")[0] + ")\n"
        first = re.sub(r"^BROKER\d \(id: \d", f"{bootstrap} (id: 1", first)
        return wanted._replace(stdout=re.sub(r"\t(\w+)\((\d+)\): [^,\n]*", line, first))

    return expect


@pytest.mark.slow
def test_cluster_and_broker_api_versions_behave_as_recorded(
    start_broker: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    bootstrap = start_broker()
    port = bootstrap.split(":")[1]
    failures = admin_tools.failures(
        "cluster",
        bootstrap,
        tmp_path,
        CLUSTER_DIFFERENCES,
        not_here=_CLUSTER_NOT_HERE,
        adapt=_expect_cluster(port),
    )
    failures += admin_tools.failures(
        "broker-api-versions",
        bootstrap,
        tmp_path,
        API_DIFFERENCES,
        not_here=("002",),  # by way of broker 2
        adapt=_expect_versions(bootstrap),
    )
    assert not failures, "\n".join(failures)

    server = ("--bootstrap-server", bootstrap, "--json")
    assert json.loads(run_kt("cluster", "cluster-id", *server).out) == {"cluster_id": "4L6g3nShT-eMCtK--X86sw"}
    endpoint = json.loads(run_kt("cluster", "list-endpoints", *server).out)
    here = {"id": 1, "host": "127.0.0.1", "port": int(port), "rack": None}
    assert endpoint == {**here, "type": "broker", "fenced": False}
    row = json.loads(run_kt("broker-api-versions", *server).out)
    assert (row["broker"], row["port"]) == (1, int(port))
    assert row["apis"][0] == {"key": 0, "name": "Produce", "min_version": 0, "max_version": 13}


@pytest.mark.real_kafka
@pytest.mark.slow
def test_apache_kafka_through_its_controller_and_its_versions(new_kafka: Callable[..., ApacheKafka]) -> None:
    kafka = new_kafka()
    kafka.start()
    port = str(kafka.controller_ports[0])
    through = ("--bootstrap-controller", f"127.0.0.1:{port}")
    assert run_kt("cluster", "cluster-id", *through).out == f"Cluster ID: {CLUSTER_ID}\n"
    listed = run_kt("cluster", "list-endpoints", *through).out.splitlines()
    assert listed[0] == "ID         HOST      PORT       RACK       ENDPOINT_TYPE  "
    assert listed[1].split() == ["1", "127.0.0.1", port, "null", "controller"]
    changed = run_kt("configs", *through, "--alter", "--broker", "1", "--add-config", "log.cleaner.threads=2")
    assert changed.out == "Completed updating config for broker 1.\n", changed.err
    # a broker applies it on a thread of its own
    applied = "  log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2"
    eventually(
        lambda: applied in run_kt("configs", *through, "--describe", "--broker", "1").out
    )  # applied on its own thread

    case = next(case for case in transcripts.load("broker-api-versions") if case.number == "001")
    first = re.sub(r"^BROKER\d \(id: \d", f"{kafka.bootstrap} (id: 1", case.stdout.split(")\n")[0] + ")\n")
    assert run_kt("broker-api-versions", "--bootstrap-server", kafka.bootstrap).out == first


def test_every_difference_is_documented() -> None:
    keys = {difference.key for difference in (CLUSTER_DIFFERENCES | API_DIFFERENCES).values()}
    assert keys <= transcripts.documented_keys()
