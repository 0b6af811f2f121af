"""The recorded answers of the admin APIs are still those of Apache Kafka.

Two short traces are asked of the cluster that all tests share. With KT_RECORD=1 every trace is asked of a fresh cluster
of its own, and the recordings are written anew.
"""

import json
import os
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from support.apache_kafka import ApacheKafka
from support.embedded import embedded_broker
from support.traces import TRACES, Trace, Tracer, differences, load_trace, write_trace

pytestmark = pytest.mark.real_kafka
PAUSE_S = 0.1
Tool = Callable[..., subprocess.CompletedProcess[bytes]]
IS_RECORDING = bool(os.environ.get("KT_RECORD"))


def ask(bootstrap: str, trace: Trace) -> dict[str, Any]:
    tracer = Tracer(bootstrap)
    answers: dict[str, Any] = json.loads(json.dumps(tracer.ask(trace.steps, PAUSE_S)))
    tracer.close()
    return answers


@pytest.mark.parametrize("name", ["no-authorizer", "scram"])
def test_apache_kafka_answers_a_trace_as_recorded(real_kafka: Any, name: str) -> None:
    trace = load_trace(name)
    assert differences(ask(real_kafka.bootstrap, trace), trace.answers) == []


def test_kafkas_own_tool_sets_and_shows_quotas_and_credentials(tmp_path: pathlib.Path, kafka_tool: Tool) -> None:
    """What kafka-configs.sh printed against Apache Kafka 4.3.1."""
    with embedded_broker(tmp_path) as bootstrap:

        def configs(*args: str) -> str:
            done = kafka_tool("configs", "--bootstrap-server", bootstrap, *args)
            assert done.returncode == 0, done.stderr.decode()
            return done.stdout.decode()

        entity = ["--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", "c1"]
        done = configs("--alter", *entity, "--add-config", "request_percentage=200")
        assert done == "Completed updating default config for users in the cluster.\n"
        secret = ["--entity-type", "users", "--entity-name", "alice", "--add-config"]
        done = configs("--alter", *secret, "SCRAM-SHA-256=[iterations=8192,password=pw]")
        assert done == "Completed updating config for user alice.\n"
        assert configs("--describe", "--entity-type", "users", "--entity-type", "clients") == (
            "Quota configs for the default user-principal, client-id 'c1' are request_percentage=200.0\n"
        )
        assert configs("--describe", "--entity-type", "users", "--entity-name", "alice") == (
            "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192\n"
        )


if IS_RECORDING:

    @pytest.mark.parametrize("name", TRACES)
    def test_record_a_trace(tmp_path: pathlib.Path, name: str) -> None:
        trace = load_trace(name)
        kafka = ApacheKafka(tmp_path, settings=trace.settings)
        kafka.start()
        try:
            write_trace(name, trace._replace(answers=ask(kafka.bootstrap, trace)))
        finally:
            kafka.stop()
