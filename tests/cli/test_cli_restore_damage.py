"""kt restore from a place without a backup or with damaged files: the file is named, and no topic is left."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from support.kt import Ran, run_kt

from kafkatools import Producer
from kafkatools.exit_status import ExitStatus

VERIFY = "kt backup verify names all damage."
LOG, MANIFEST = "logs/orders-0/00000000000000000000.log", "manifest-000001.json"


@pytest.fixture(scope="module")
def kept(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("kept") / "backup"
    with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:  # one batch: all or nothing is restored
        for _ in range(3):
            producer.send("orders", b"value")
    assert run_kt("backup", "--to", str(directory), "--topic", "orders", "--bootstrap-server", bootstrap).status == 0
    return directory


def restore(bootstrap: str, directory: pathlib.Path) -> Ran:
    words = ("restore", "--from", str(directory), "--rename", "orders=restored", "--bootstrap-server", bootstrap)
    ran = run_kt(*words)
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert "restored" not in run_kt("topics", "--list", "--bootstrap-server", bootstrap).out.split()
    return ran


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        (LOG, lambda data: data[:-5], f"{LOG} has SIZE-5 bytes, and the manifest says SIZE"),
        (LOG, lambda data: data[:70] + b"\xff" + data[71:], f"{LOG} is damaged at offset 0: Record is corrupt"),
        (LOG, lambda data: b"", f"{LOG} has 0 bytes, and the manifest says SIZE"),
        (LOG, lambda data: None, f"{LOG} is missing in the backup"),
        (MANIFEST, lambda data: data[:50], f"DIRECTORY/{MANIFEST} is damaged: its content does not have the checksum"),
        (MANIFEST, lambda data: b"", f"DIRECTORY/{MANIFEST} is damaged: its content does not have the checksum"),
        (MANIFEST, lambda data: b"[]", f"DIRECTORY/{MANIFEST} is damaged: its content does not have the checksum"),
    ],
)
def test_damage(bootstrap: str, kept: pathlib.Path, tmp_path: pathlib.Path, name: str, damage, message: str) -> None:  # type: ignore[no-untyped-def]
    directory = shutil.copytree(kept, tmp_path / "copy")
    data = (directory / name).read_bytes()
    changed = damage(data)
    (directory / name).unlink() if changed is None else (directory / name).write_bytes(changed)
    lines = restore(bootstrap, directory).err.splitlines()
    size = len(data)
    message = message.replace("SIZE-5", str(size - 5)).replace("SIZE", str(size)).replace("DIRECTORY", str(directory))
    assert lines[-2].startswith(message)
    assert lines[-1] == (
        VERIFY
        if name == LOG
        else "Move it away to use the generation before it. The next kt backup finds its objects again."
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty", "DIRECTORY is no backup: it has no manifest"),
        ("absent", "DIRECTORY does not exist: it is no backup"),
        ("file", "DIRECTORY is not a directory: it is no backup"),
    ],
)
def test_a_place_without_a_backup(bootstrap: str, tmp_path: pathlib.Path, name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    assert restore(bootstrap, tmp_path / name).err.splitlines()[0] == message.replace("DIRECTORY", str(tmp_path / name))
