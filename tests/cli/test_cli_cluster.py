"""kt cluster and kt broker-api-versions against the recordings of their scripts, on one embedded broker."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.apache_kafka import ApacheKafka
from support.kt import run_kt
from transcripts import Case, Difference, Expected

from kafkatools.core.broker.server.apis import BROKER_APIS
from kafkatools.core.protocol.api_versions import ApiKey
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
    "017": Difference(
        "cluster-api-versions",
        stderr="kafka-cluster: error: invalid choice: 'rename' "
        "(choose from 'cluster-id', 'unregister', 'list-endpoints', 'api-versions')",
    ),
    "024": Difference("unreachable", stdout="", own_words=True),
    "027": _HELP,
}
CLUSTER_NOT_HERE = {
    "002": "the embedded broker has no listener for controllers",
    "006": "the embedded broker has no listener for controllers",
}
API_NOT_HERE = {"002": "by way of broker 2"}
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


def expect(case: Case, wanted: Expected) -> Expected:
    """The notice on --config is for stderr; the recorded words were broken at hyphens."""
    if wanted.stdout.startswith(_DEPRECATED):
        wanted = wanted._replace(error=_DEPRECATED, stdout=wanted.stdout.removeprefix(_DEPRECATED + "\n"))
    return wanted if wanted.error is None else wanted._replace(error=_HYPHEN.sub(r"--\1", wanted.error))


def _expect_cluster(port: str) -> Callable[[Case, Expected], Expected]:
    def expect_one(case: Case, wanted: Expected) -> Expected:
        wanted = expect(case, wanted)
        if case.args[:1] == ("list-endpoints",):
            rows = wanted.stdout.splitlines(keepends=True)
            wanted = wanted._replace(stdout="".join(rows[:2]).replace("39092", port))
        return wanted

    return expect_one


CLIENT_METRICS = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
"""Listed only by a broker that has where to put them."""


def _expect_versions(bootstrap: str) -> Callable[[Case, Expected], Expected]:
    """The recorded APIs of one broker, with what the embedded one serves of them."""

    def line(match: re.Match[str]) -> str:
        api = BROKER_APIS.get(int(match[2]))
        if api is None or api.key in CLIENT_METRICS:
            return f"\t{match[1]}({match[2]}): UNSUPPORTED"
        # Kafka says 0 of Produce for the sake of old clients (KAFKA-18659)
        lowest = 0 if api.key is ApiKey.PRODUCE else api.lowest
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
        not_here=CLUSTER_NOT_HERE,
        adapt=_expect_cluster(port),
    )
    failures += admin_tools.failures(
        "broker-api-versions",
        bootstrap,
        tmp_path,
        API_DIFFERENCES,
        not_here=API_NOT_HERE,
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
    assert run_kt("cluster", "api-versions", *server[:2]).out == run_kt("broker-api-versions", *server[:2]).out


@pytest.mark.real_kafka
def test_the_api_versions_of_controllers(real_kafka: ApacheKafka) -> None:
    listed = run_kt(
        "cluster", "api-versions", "--bootstrap-controller", f"127.0.0.1:{real_kafka.controller_ports[0]}", "--json"
    )
    apis = {api["name"] for api in json.loads(listed.out)["apis"]}
    assert {"Vote", "ControllerRegistration"} <= apis
    assert "Produce" not in apis


def test_every_difference_is_documented() -> None:
    keys = {difference.key for difference in (CLUSTER_DIFFERENCES | API_DIFFERENCES).values()}
    assert keys <= transcripts.documented_keys()
