"""Elections that are refused as a whole: the reason stands with the partitions."""

from __future__ import annotations

import pytest
from support.scripted_broker import ScriptedBroker
from support.unit_admin import fast_admin

from kafkatools.core.admin.elections import PREFERRED, elect_leaders
from kafkatools.core.errors import RequestTimedOut
from kafkatools.core.protocol.api_versions import ApiKey

TIMED_OUT = RequestTimedOut.code


def test_a_refusal_has_the_reason_of_its_partitions() -> None:
    part = {"partition_id": 0, "error_code": TIMED_OUT, "error_message": "nobody leads"}
    refused = {"error_code": TIMED_OUT, "replica_election_results": [{"topic": "t", "partition_result": [part]}]}
    broker = ScriptedBroker({ApiKey.ELECT_LEADERS: lambda header, request: refused})
    with broker.in_background(), fast_admin(broker) as admin, pytest.raises(RequestTimedOut, match="^nobody leads$"):
        elect_leaders(admin, PREFERRED, [("t", 0)])
