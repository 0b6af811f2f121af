"""packaging/debian/format: what the service runs before each start."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

DEBIAN = pathlib.Path(__file__).parents[3] / "packaging" / "debian"
ADVICE = "ReadWritePaths="


def _format(directory: pathlib.Path, kt: str) -> subprocess.CompletedProcess[str]:
    """Runs the script with its state in `directory`, and shell lines in place of `kt storage format`."""
    (directory / "bin").mkdir()
    program = directory / "bin" / "kt"
    program.write_text(f'#!/bin/sh\n[ "$2" = format ] || exec echo an-id\necho "$@" >>{directory}/arguments\n{kt}\n')
    program.chmod(0o755)
    script = directory / "format"
    script.write_text((DEBIAN / "format").read_text().replace("id=/var/lib/kafkatools/", f"id={directory}/"))
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(["sh", script], env={**os.environ, "PATH": path}, capture_output=True, text=True)


def test_the_directories_are_formatted_with_the_kept_id(tmp_path: pathlib.Path) -> None:
    ran = _format(tmp_path, "echo Formatting; echo a warning >&2")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "a warning\n")
    assert (tmp_path / "cluster.id").read_text() == "an-id\n"
    expected = "storage format --ignore-formatted --config /etc/kafkatools/server.properties --cluster-id an-id\n"
    assert (tmp_path / "arguments").read_text() == expected


@pytest.mark.parametrize("reason", ["Read-only file system", "Permission denied"])
def test_a_directory_that_cannot_be_written_names_the_drop_in(tmp_path: pathlib.Path, reason: str) -> None:
    ran = _format(tmp_path, f"echo '/srv/kafka: {reason}' >&2; exit 1")
    error, advice = ran.stderr.splitlines()
    assert (ran.returncode, ran.stdout, error) == (1, "", f"/srv/kafka: {reason}")
    assert ADVICE in advice and advice.endswith("/etc/kafkatools/server.properties")


def test_another_error_is_shown_alone(tmp_path: pathlib.Path) -> None:
    ran = _format(tmp_path, "echo 'log.dirs is empty' >&2; exit 2")
    assert (ran.returncode, ran.stderr) == (2, "log.dirs is empty\n")


def test_the_settings_name_the_drop_in_while_the_unit_protects_the_system() -> None:
    assert "\nProtectSystem=strict\n" in (DEBIAN / "kafkatools.service").read_text()
    assert ADVICE in (DEBIAN / "server.properties").read_text()
