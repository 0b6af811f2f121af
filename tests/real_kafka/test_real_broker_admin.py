"""The recorded answers of the admin APIs are still those of Apache Kafka.

With KT_RECORD=1 the recordings are written anew.
"""

import json
import os
import pathlib

import pytest
from support.admin_traces import TRACES
from support.apache_kafka import ApacheKafka
from support.traces import GOLDEN, Tracer, differences, recorded

pytestmark = pytest.mark.real_kafka
ORIGIN = "recorded from Apache Kafka 4.3.1"
GROUPS = sorted({tuple(sorted(trace.settings.items())) for trace in TRACES.values()})


@pytest.mark.parametrize("settings", GROUPS, ids=lambda settings: f"{len(settings)}-settings")
def test_apache_kafka_answers_the_traces_as_recorded(
    tmp_path: pathlib.Path, settings: tuple[tuple[str, str], ...]
) -> None:
    kafka = ApacheKafka(tmp_path, settings=dict(settings))
    kafka.start()
    try:
        for name, trace in TRACES.items():
            if tuple(sorted(trace.settings.items())) != settings:
                continue
            tracer = Tracer(kafka.bootstrap)
            answers = json.loads(json.dumps(tracer.ask(trace.steps)))
            tracer.close()
            if os.environ.get("KT_RECORD"):
                text = json.dumps({"origin": ORIGIN, "answers": answers}, indent=1, sort_keys=False)
                (GOLDEN / f"trace-{name}.json").write_text(text + "\n")
            assert differences(answers, recorded(f"trace-{name}")) == []
    finally:
        kafka.stop()
