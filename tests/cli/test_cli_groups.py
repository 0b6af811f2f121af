"""kt groups against the recordings of kafka-groups.sh."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.apache_kafka import ApacheKafka
from support.kt import Ran, run_kt
from support.live_groups import ClassicMember, ConsumerMember, visit_share_group
from transcripts import Case, Difference, Expected

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.exit_status import ExitStatus

_DIFFERENCES = {
    "010": Difference("usage", status=ExitStatus.USAGE),
    "018": Difference("help", status=ExitStatus.USAGE, own_words=True),
    "019": Difference("sandbox", status=ExitStatus.USAGE),
    "020": Difference("groups-unreachable", own_words=True),
    "024": Difference(
        "nothing-ignored",
        status=ExitStatus.USAGE,
        stdout="",
        stderr="kt groups has no subcommand 'extra'",
    ),
    "025": Difference(
        "missing-file",
        stderr="Error while executing groups command : absent.properties: no such properties file",
    ),
    "027": Difference("help", status=ExitStatus.OK, own_words=True),
}


class _Replay:
    """Runs the cases in their order; the first one on the oldest of the three groups alone."""

    def __init__(self, bootstrap: str, directory: pathlib.Path) -> None:
        self.bootstrap, self.directory = bootstrap, directory
        with ClassicMember(bootstrap, "client", "g", {}) as member:
            member.create_topic("pay")
            member.commit_own({("pay", 0): 1})
            member.leave()
            versions = member.call(ApiKey.API_VERSIONS, 3, {}).api_keys
        self.has_share_groups = any(one.api_key == ApiKey.SHARE_GROUP_HEARTBEAT for one in versions)

    def wanted(self, case: Case, wanted: Expected) -> Expected:
        """An error on stdout is for stderr; a broker without share groups lists none."""
        lines = wanted.stdout.splitlines(keepends=True)
        unwanted = "Error while executing groups command : " if self.has_share_groups else ("sg1 ", "Error while ")
        return wanted._replace(stdout="".join(line for line in lines if not line.startswith(unwanted)))

    def run(self, case: Case) -> Ran:
        if case.number == "002":
            if self.has_share_groups:
                visit_share_group(self.bootstrap, "sg1", "Gupb3acnT0OK7bDYDTphTQ", "pay")
            with ConsumerMember(self.bootstrap, "client", "c1", "Gupb3acnT0OK7bDYDTphTA", ["pay"]) as member:
                member.commit_own({("pay", 0): 1})
                member.leave()
        return admin_tools.run_case("groups", case, self.bootstrap, self.directory)


def _failures(bootstrap: str, directory: pathlib.Path) -> list[str]:
    replay = _Replay(bootstrap, directory)
    return transcripts.replay(transcripts.load("groups"), replay.run, _DIFFERENCES, replay.wanted)


@pytest.mark.slow
def test_groups_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()
    failures = _failures(bootstrap, tmp_path)
    assert not failures, "\n".join(failures)
    listed = run_kt("groups", "--bootstrap-server", bootstrap, "--list", "--group-type", "classic", "--json")
    assert json.loads(listed.out) == {"group": "g", "type": "Classic", "state": "Empty", "protocol": "consumer"}


@pytest.mark.real_kafka
@pytest.mark.slow
def test_groups_behaves_as_recorded_on_apache_kafka(
    new_kafka: Callable[..., ApacheKafka], tmp_path: pathlib.Path
) -> None:
    cluster = new_kafka()
    cluster.start()
    failures = _failures(cluster.bootstrap, tmp_path)
    assert not failures, "\n".join(failures)


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in _DIFFERENCES.values()} <= transcripts.documented_keys()
