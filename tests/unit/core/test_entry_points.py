"""Entry points of installed distributions: one that is found twice counts once."""

from __future__ import annotations

import pathlib
import sys

import pytest

from kafkatools.core.entry_points import entry_points

POINTS = "[kafkatools.formatters]\nlogfmt = demo:FORMATTER\n"


@pytest.mark.parametrize("second", ["demo.egg-info", "demo-1.0.egg-info", "Demo-1.0.dist-info"])
def test_a_distribution_in_two_forms_is_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    """As after `pip install -e` of a package with a folder src."""
    for place, name in (("src", second), ("site-packages", "demo-1.0.dist-info")):
        directory = tmp_path / place / name
        directory.mkdir(parents=True)
        (directory / "entry_points.txt").write_text(POINTS)
        for file in ("METADATA", "PKG-INFO"):
            (directory / file).write_text("Name: demo\nVersion: 1.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "src"), str(tmp_path / "site-packages")])
    assert [(point.name, point.distribution) for point in entry_points("kafkatools.formatters")] == [
        ("logfmt", "demo 1.0")
    ]
