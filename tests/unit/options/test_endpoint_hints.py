"""A controller given where a broker is needed, or the other way round: the second line says so, and what to give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.kt import run_kt
from support.scripted_broker import ScriptedBroker

from kafkatools.core.errors import UnsupportedVersion
from kafkatools.core.protocol.api_versions import ApiKey, OnlyByBrokers, VersionRange, choose_version
from kafkatools.exit_status import ExitStatus

_CONTROLLERS_APIS = (
    *(ApiKey.API_VERSIONS, ApiKey.FETCH, ApiKey.VOTE, ApiKey.DESCRIBE_QUORUM, ApiKey.BROKER_REGISTRATION),
    *(ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_CLUSTER),
)
_EITHER = "This is a controller: give it with --bootstrap-controller, or a broker with --bootstrap-server."
_A_BROKER = "This is a controller: give a broker with --bootstrap-server."


def _other_endpoint(wanted: int) -> dict[str, Any]:
    """Error 114 of DescribeCluster, in the words of Apache Kafka 4.3.1."""
    kinds = ("CONTROLLER", "BROKER") if wanted == 1 else ("BROKER", "CONTROLLER")
    message = f"The request was sent to an endpoint of type {kinds[0]}, but we wanted an endpoint of type {kinds[1]}"
    return {"error_code": 114, "error_message": message, "cluster_id": "", "controller_id": -1, "brokers": []}


@pytest.fixture
def controller() -> Iterator[ScriptedBroker]:
    def versions(header: Any, request: Any) -> dict[str, Any]:
        known = [ApiKey(key) for key in _CONTROLLERS_APIS]
        keys = [{"api_key": key, "min_version": key.first_version, "max_version": key.last_version} for key in known]
        return {"api_keys": keys}

    scripted = ScriptedBroker({ApiKey.API_VERSIONS: versions, ApiKey.DESCRIBE_CLUSTER: _mismatch})
    with scripted.in_background():
        yield scripted


def _mismatch(header: Any, request: Any) -> dict[str, Any]:
    return _other_endpoint(request.endpoint_type)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topics", "--list"), ("Error while executing topic command : The node does not support METADATA", _A_BROKER)),
        (("configs", "--describe", "--topic", "t"), ("The node does not support METADATA", _EITHER)),
        (("log-dirs", "--describe"), (_other_endpoint(1)["error_message"], _A_BROKER)),
        (("metadata-quorum", "describe", "--status"), (_other_endpoint(1)["error_message"], _EITHER)),
        (("cluster", "cluster-id"), (_other_endpoint(1)["error_message"], _EITHER)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_controller_for_a_broker(controller: ScriptedBroker, words: tuple[str, ...], said: tuple[str, str]) -> None:
    ran = run_kt(*words, "--bootstrap-server", controller.bootstrap)
    assert (ran.status, ran.out, ran.err.splitlines()) == (ExitStatus.FAILED, "", [*said])


def test_with_json_it_is_a_key_of_the_error(controller: ScriptedBroker) -> None:
    ran = run_kt("configs", "--describe", "--topic", "t", "--json", "--bootstrap-server", controller.bootstrap)
    error = json.loads(ran.err)["error"]
    assert (error["kind"], error["hint"]) == ("UNSUPPORTED_VERSION", _EITHER)


def test_what_only_brokers_answer(controller: ScriptedBroker) -> None:
    ran = run_kt("configs", "--describe", "--topic", "t", "--bootstrap-controller", controller.bootstrap)
    assert ran.err.splitlines()[1:] == ["Only brokers answer this: give one with --bootstrap-server."]


def test_a_broker_for_a_controller() -> None:
    broker = ScriptedBroker({ApiKey.DESCRIBE_CLUSTER: _mismatch})
    with broker.in_background():
        ran = run_kt("cluster", "cluster-id", "--bootstrap-controller", broker.bootstrap)
    hint = "This is a broker: give it with --bootstrap-server, or a controller with --bootstrap-controller."
    assert ran.err.splitlines() == [_other_endpoint(2)["error_message"], hint]


def test_a_broker_that_lacks_an_api_is_no_controller() -> None:
    with pytest.raises(UnsupportedVersion) as raised:
        choose_version(ApiKey.DESCRIBE_QUORUM, {ApiKey.METADATA: VersionRange(4, 9)})
    assert not isinstance(raised.value, OnlyByBrokers)
