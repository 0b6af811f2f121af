"""What kt pipeline verify refuses before Spark starts."""

from __future__ import annotations

import json
import pathlib

import pytest
from support.kt import run_kt

from kafkatools.exit_status import ExitStatus
from kafkatools.pipeline.run.manifest import _KEYS, VERSION


def _verify(clusters: dict[str, str | None], directory: pathlib.Path) -> str:
    sources = [{"name": name, "uri": f"topic:{name}"} for name in ("orders", "users")]
    content = {"manifest": VERSION, "pipeline": {"clusters": clusters}, "runs": 1, "sources": sources, "sink": {}}
    (directory / "m.json").write_text(json.dumps(content | dict.fromkeys(_KEYS - content.keys())))
    ran = run_kt("pipeline", "verify", "m.json", "--bootstrap-server", "127.0.0.1:1", cwd=directory)
    assert ran.status is not ExitStatus.OK and ran.out == ""
    return ran.err


@pytest.mark.parametrize("clusters", [{"orders": "first", "users": "first"}, {"orders": "first", "users": None}, {}])
def test_topics_of_one_cluster_are_looked_for(clusters: dict[str, str | None], tmp_path: pathlib.Path) -> None:
    assert "127.0.0.1:1" in _verify(clusters, tmp_path)


def test_topics_of_several_clusters_are_refused(tmp_path: pathlib.Path) -> None:
    message = _verify({"orders": "first", "users": "second"}, tmp_path)
    assert message.startswith("m.json has topics of several clusters")
    assert message.endswith(": orders of first, users of second\n")
