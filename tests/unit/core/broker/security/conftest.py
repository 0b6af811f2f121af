"""One embedded broker with every kind of listener for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.kt import run_kt
from support.secure_broker import SecureBroker
from support.waiting import eventually


@pytest.fixture(scope="package")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    made = SecureBroker(tmp_path_factory.mktemp("secure-broker"))
    made.broker.start()
    try:
        plain = ("--bootstrap-server", made.bootstrap("PLAINTEXT"))
        credentials = ",".join(f"SCRAM-SHA-{size}=[password=bob-canary]" for size in (256, 512))
        users = ("--alter", "--entity-type", "users", "--entity-name", "bob", "--add-config", credentials)
        assert run_kt("configs", *plain, *users).status == 0
        assert run_kt("topics", *plain, "--create", "--topic", "seen").status == 0
        rights = ("--add", "--topic", "seen", "--group", "*", "--operation", "all")
        for name in ("bob", "carol", "erin", "CLIENT"):
            assert run_kt("acls", *plain, *rights, "--allow-principal", f"User:{name}").status == 0
        eventually(lambda: "CLIENT" in run_kt("acls", *plain, "--list").out)
        yield made
    finally:
        made.broker.close()
