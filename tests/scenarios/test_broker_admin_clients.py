"""Admin clients of other people change and describe a broker with an authorizer; each checks the result itself."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.requirements import require

CLIENTS = pathlib.Path(__file__).parent / "clients"
PYTHON = os.environ.get("KT_CLIENTS_PYTHON", sys.executable)
AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow_everyone_if_no_acl_found": "true",
}
pytestmark = pytest.mark.clients


@pytest.mark.parametrize(
    ("module", "script"), [("confluent_kafka", "confluent_admin.py"), ("kafka", "kafka_python_admin.py")]
)
def test_admin_clients_get_what_they_ask_for(make_broker: Callable[[], Any], module: str, script: str) -> None:
    if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        require(f"{PYTHON} has no {module}")
    broker = make_broker()
    settings = {name.replace("_", "."): value for name, value in AUTHORIZER.items()}
    broker.start(**settings)
    done = subprocess.run(
        [PYTHON, str(CLIENTS / script), broker.bootstrap, "admin-topic"], capture_output=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert done.stdout.decode() == "ok\n"
