"""The logins of docs/security.md against one broker: each mechanism, by kt and by Apache Kafka's tools."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable, Mapping
from typing import Protocol

from support import apache_kafka
from support.kt import run_kt
from support.secure_broker import LOGINS, MODULES
from support.waiting import PATIENCE_S, eventually

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
from kafkatools.core.protocol.api_versions import ApiKey

CLIENTS = ("kt", "Java")
CASES = (*LOGINS, "delegation token", "mTLS")


class Secured(Protocol):
    """A broker with the listeners and users of SecureKafka and SecureBroker."""

    @property
    def trust(self) -> dict[str, str]: ...
    def bootstrap(self, listener: str) -> str: ...
    def client_file(self, name: str, values: Mapping[str, str]) -> str: ...


def logins_that_work(secure: Secured, identity: Mapping[str, str]) -> dict[tuple[str, str], bool]:
    """Whether each client sees the topic `seen` with each login; `identity`: the settings of a client's certificate."""
    cases = {name: ("SASL_SSL", _sasl(secure, name, login)) for name, login in LOGINS.items()}
    cases["delegation token"] = "SASL_SSL", _delegation_token(secure)
    cases["mTLS"] = "MTLS", {"security.protocol": "SSL", **secure.trust, **identity}
    running: dict[str, Callable[[], str]] = {}
    found = {}
    for name, (listener, values) in cases.items():
        file = secure.client_file(name.replace(" ", "-"), values)
        where = ("--list", "--bootstrap-server", secure.bootstrap(listener), "--command-config", file)
        running[name] = _started(*where)
        eventually(lambda where=where: run_kt("topics", *where).status == 0)  # a new token takes a moment to arrive
        found["kt", name] = "seen" in run_kt("topics", *where).out.split()
    return found | {("Java", name): "seen" in output().split() for name, output in running.items()}


def _started(*where: str) -> Callable[[], str]:
    process = subprocess.Popen(
        apache_kafka.command("topics", *where), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return lambda: process.communicate(timeout=PATIENCE_S)[0]


def _sasl(secure: Secured, mechanism: str, login: str) -> dict[str, str]:
    return {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": login, **secure.trust}


def _delegation_token(secure: Secured) -> dict[str, str]:
    scram = _sasl(secure, "SCRAM-SHA-256", LOGINS["SCRAM-SHA-256"])
    with AdminClient(secure.bootstrap("SASL_SSL"), scram, SystemClock()) as client:
        fields = {"renewers": (), "max_lifetime": 600_000}
        made = client.send(ApiKey.CREATE_DELEGATION_TOKEN, fields, max_version=2)
    secret = base64.b64encode(made.hmac).decode()
    login = f'username="{made.token_id}" password="{secret}" tokenauth="true"'
    return {**scram, "sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required {login};"}
