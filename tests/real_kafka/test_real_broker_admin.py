"""The recorded answers of the admin APIs are still those of Apache Kafka.

With KT_RECORD=1 the recordings are written anew.
"""

import json
import os
import pathlib

import pytest
from support.apache_kafka import ApacheKafka
from support.traces import TRACES, Tracer, differences, load_trace, write_trace

pytestmark = pytest.mark.real_kafka
PAUSE_S = 0.1


@pytest.mark.parametrize("name", TRACES)
def test_apache_kafka_answers_a_trace_as_recorded(tmp_path: pathlib.Path, name: str) -> None:
    trace = load_trace(name)
    kafka = ApacheKafka(tmp_path, settings=trace.settings)
    kafka.start()
    try:
        tracer = Tracer(kafka.bootstrap)
        answers = json.loads(json.dumps(tracer.ask(trace.steps, PAUSE_S)))
        tracer.close()
    finally:
        kafka.stop()
    if os.environ.get("KT_RECORD"):
        write_trace(name, trace._replace(answers=answers))
    assert differences(answers, load_trace(name).answers) == []
