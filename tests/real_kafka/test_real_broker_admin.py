"""The recorded answers of the admin APIs are still those of Apache Kafka.

Two short traces are asked of the cluster that all tests share. With KT_RECORD=1 every trace is asked of a fresh cluster
of its own, and the recordings are written anew.
"""

import json
import os
import pathlib
from typing import Any

import pytest
from support.apache_kafka import ApacheKafka
from support.traces import TRACES, Trace, Tracer, differences, load_trace, write_trace

pytestmark = pytest.mark.real_kafka
PAUSE_S = 0.1
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
