"""Places that are no storage of backups: the error names the place and what to write instead."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import fsspec
import pytest
from fsspec.registry import _registry
from support.kt import Ran, run_kt

from kafkatools.exit_status import ExitStatus

NOBODY = ("--bootstrap-server", "127.0.0.1:1")


class CredentialError(Exception):
    """As botocore's NoCredentialsError: no OSError, and no ValueError."""


class ClosedStorage(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A storage whose package finds no credentials."""

    protocol = "closed"
    cachable = False

    def ls(self, path: str, detail: bool = True, **options: object) -> list[object]:
        raise CredentialError("Unable to locate credentials")


@pytest.fixture
def closed_storage() -> Iterator[str]:
    fsspec.register_implementation("closed", ClosedStorage, clobber=True)
    yield "closed://bucket/kept"


def backup(url: str, cwd: pathlib.Path) -> Ran:
    return run_kt("backup", "--to", url, *NOBODY, cwd=cwd)


@pytest.mark.parametrize(
    ("url", "message", "hint"),
    [
        ("nosuch://x", "nosuch://x: there is no storage 'nosuch'", "s3://BUCKET/PATH"),
        ("s4://bucket/x", "s4://bucket/x: there is no storage 's4'", "s3://BUCKET/PATH"),
        ("://x", "://x has no name of a storage before ://", "s3://BUCKET/PATH"),
        ("s3:bucket/x", "'s3:bucket/x' is neither a directory nor a URL", "Write s3://bucket/x"),
        ("gs:/bucket", "'gs:/bucket' is neither a directory nor a URL", "Write gs://bucket"),
        ("file:x", "'file:x' is neither a directory nor a URL", "Write file:///x"),
        ("file://other/x", "file://other/x names another machine", "Write file:///x"),
        ("", "The directory or URL of the backup is empty", ""),
    ],
)
def test_a_mistyped_place(tmp_path: pathlib.Path, url: str, message: str, hint: str) -> None:
    for ran in (
        backup(url, tmp_path),
        run_kt("restore", "--from", url, *NOBODY, cwd=tmp_path),
        run_kt("backup", "verify", url, cwd=tmp_path),
        run_kt("migrate", "--through", url, "--to-bootstrap-server", "127.0.0.1:2", *NOBODY, cwd=tmp_path),
    ):
        assert ran.status is ExitStatus.USAGE, ran.err
        assert ran.err.splitlines()[0] == message
        assert hint in ran.err
    assert not list(tmp_path.iterdir())


def test_an_existing_directory_with_a_colon_is_a_directory(tmp_path: pathlib.Path) -> None:
    (tmp_path / "s3:kept").mkdir()
    assert run_kt("backup", "list", "s3:kept", cwd=tmp_path).err.startswith(f"{tmp_path}/s3:kept is no backup")


def test_a_storage_whose_package_is_missing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)  # its import fails, installed or not
    for name in ("s3", "s3a"):
        monkeypatch.delitem(_registry, name, raising=False)
    ran = backup("s3://bucket/x", tmp_path)
    assert ran.status is ExitStatus.FAILED
    assert ran.err.splitlines() == [
        "s3://bucket/x: Install s3fs to access S3",
        "Install the package of the storage beside kafkatools: pip install s3fs",
    ]


def test_errors_of_a_storage_name_the_place(tmp_path: pathlib.Path, closed_storage: str) -> None:
    for ran in (run_kt("restore", "--from", closed_storage, *NOBODY), run_kt("backup", "verify", closed_storage)):
        assert ran.status is ExitStatus.FAILED
        line, hint = ran.err.splitlines()
        assert line == "bucket/kept: Unable to locate credentials (CredentialError)"
        assert hint == "The package of the storage reads its address and credentials from its own variables and files."
