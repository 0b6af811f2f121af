"""Each setting, changed on the embedded broker and on Apache Kafka: both accept it, or refuse it in the same words.

With KT_RECORD=1 what Apache Kafka answered for dynamic settings is recorded for the unit tests.
"""

import json
import os
import pathlib

import pytest
from support.apache_kafka import ApacheKafka
from support.dynamic_settings import BROKER_KIND, TOPIC_NAME, Alteration, alterations, answers
from support.embedded import embedded_broker
from support.raw_client import RawClient

from kafkatools.core.config import BROKER
from kafkatools.core.config.setting import READ_ONLY

pytestmark = pytest.mark.real_kafka
RECORDED = pathlib.Path(__file__).parents[1] / "golden/config/dynamic_changes.jsonl"


def is_recorded(alteration: Alteration) -> bool:
    """Whether the unit tests repeat an alteration: those of dynamic settings without a listener's prefix."""
    name = alteration.changes[0][0]
    is_fixed = name in BROKER and BROKER[name].update_mode == READ_ONLY
    is_single = len(alteration.changes) == 1 and name.startswith("listener.name.")
    return alteration.kind != BROKER_KIND or not (is_fixed or is_single)


def test_both_brokers_accept_and_refuse_the_same(real_kafka: ApacheKafka, tmp_path: pathlib.Path) -> None:
    asked = list(alterations())
    with embedded_broker(tmp_path) as bootstrap:
        for address in (bootstrap, real_kafka.bootstrap):
            with RawClient(address) as client:
                client.create_topic(TOPIC_NAME)
        ours, theirs = answers(bootstrap, asked), answers(real_kafka.bootstrap, asked)
    if os.environ.get("KT_RECORD"):
        lines = [json.dumps([*a, *t]) for a, t in zip(asked, theirs, strict=True) if is_recorded(a)]
        RECORDED.write_text("\n".join(lines) + "\n")
    differences = [entry for entry in zip(asked, ours, theirs, strict=True) if entry[1] != entry[2]]
    assert differences == []
    assert len({code for code, _ in theirs}) >= 3
