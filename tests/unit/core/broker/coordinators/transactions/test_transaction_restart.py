"""A broker that stopped between the decision and the markers finishes on its next start; and what becomes of
transactions when their topic is deleted."""

from __future__ import annotations

import pathlib

import pytest
from support.embedded import embedded_broker
from support.transaction_teller import Teller

from kafkatools.core.broker.coordinators.transactions import markers
from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.protocol.api_versions import ApiKey

SETTINGS = {"transaction_state_log_num_partitions": "2", "offsets_topic_num_partitions": "2"}


def test_markers_that_were_not_written_are_written_by_the_next_start(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KafkaStorageError("no markers today")

    with monkeypatch.context() as patched, embedded_broker(tmp_path / "data", **SETTINGS) as bootstrap:
        patched.setattr(markers.MarkerWriter, "write", broken)
        s = Teller(bootstrap, "restart")
        with s.client:
            s.find_coordinator("x")
            t = s.topic(2)
            p = s.init("x")
            s.produce("x", p, (t, 0), 0, version=12)
            s.produce("x", p, (t, 1), 0, version=12)
            s.commit_offset("x", p, "g", (t, 0, 7), version=5)
            fields = {"transactional_id": "x", "producer_id": p[0], "producer_epoch": p[1], "committed": True}
            assert int(s.client.call(ApiKey.END_TXN, 5, fields).error_code) == 0
            s.answers.clear()
            s.describe("x")
            s.read((t, 0))
            assert s.answers == [
                ["describe", "OK", "PrepareCommit", "P0", 1, ["__consumer_offsets [1]", "t [0, 1]"]],
                ["read", "OK", 1, 0, [], []],
            ]
    with embedded_broker(tmp_path / "data", **SETTINGS) as bootstrap:
        s = Teller(bootstrap, "restart")
        with s.client:
            s.describe("x")
            s.read((t, 0))
            s.read((t, 1))
            s.offset("g", (t, 0))
            s.end("x", p, commit=True, version=5)  # the answer may have been lost
            marker = [1, "control", "P0", 1, -1, ["000000000000"]]
            data = [0, "data", "P0", 0, 0, ["v"]]
            assert s.answers == [
                ["describe", "OK", "CompleteCommit", "P0", 1, []],
                ["read", "OK", 2, 2, [], [data, marker]],
                ["read", "OK", 2, 2, [], [data, marker]],
                ["offset", "OK", 7],
                ["end", "OK", "P0", 1],
            ]


def test_without_its_topic_the_coordinator_forgets_and_begins_anew(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data", **SETTINGS) as bootstrap:
        s = Teller(bootstrap, "anew")
        with s.client:
            s.find_coordinator("x")
            s.init("x")
            s.init("x")
            s.delete_topic("__transaction_state")
            s.find_coordinator("x")
            s.init("x")
            assert s.answers == [
                ["init", "OK", "P0", 0],
                ["init", "OK", "P0", 1],
                ["delete", "OK"],
                ["init", "OK", "P1", 0],
            ]
