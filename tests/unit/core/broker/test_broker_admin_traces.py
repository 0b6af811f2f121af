"""The admin APIs answer as Apache Kafka does: its recorded answers, request by request."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.admin_traces import TRACES
from support.traces import Tracer, differences, recorded


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_answered_as_kafka_answered_it(run_node: Callable[..., Any], name: str) -> None:
    trace = TRACES[name]
    node = run_node(trace.settings).node
    tracer = Tracer(node.bootstrap)
    answers = json.loads(json.dumps(tracer.ask(trace.steps)))
    tracer.close()
    theirs = recorded(f"trace-{name}")
    assert list(answers) == list(theirs), "the recording is of other steps"
    assert differences(answers, theirs) == []
