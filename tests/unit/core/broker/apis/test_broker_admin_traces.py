"""The admin APIs answer as Apache Kafka does: its recorded answers, request by request."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.traces import TRACES, Tracer, differences, load_trace


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_answered_as_kafka_answered_it(run_node: Callable[..., Any], name: str) -> None:
    trace = load_trace(name)
    node = run_node(trace.settings).node
    tracer = Tracer(node.bootstrap)
    answers = json.loads(json.dumps(tracer.ask(trace.steps)))
    tracer.close()
    assert differences(answers, trace.answers) == []
