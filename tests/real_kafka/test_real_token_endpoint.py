"""Token endpoints: kt and Apache Kafka's tools with the same settings send the same requests, and get in."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from support import apache_kafka
from support.kt import run_kt
from support.secure_broker import MODULES, SecureBroker
from support.token_endpoint import Request, TokenEndpoint, parts_of
from support.waiting import PATIENCE_S

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

BEARER = f"{MODULES}.oauthbearer.JwtBearerJwtRetriever"
ASSERTION = "sasl.oauthbearer.assertion"
CLAIMS = {f"{ASSERTION}.claim.iss": "me", f"{ASSERTION}.claim.aud": "idp", f"{ASSERTION}.claim.sub": "erin"}
CASES: dict[str, dict[str, str]] = {
    "JWT bearer": {"sasl.oauthbearer.jwt.retriever.class": BEARER, **CLAIMS},
    "client assertion": {**CLAIMS, "sasl.oauthbearer.client.credentials.client.id": "my-app"},
    "client secret": {
        "sasl.oauthbearer.client.credentials.client.id": "my app",
        "sasl.oauthbearer.client.credentials.client.secret": "secret/canary",
    },
}


@pytest.fixture(scope="module")
def secure(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    assert kafka_jars
    made = SecureBroker(tmp_path_factory.mktemp("secure-broker"))
    made.broker.start()
    try:
        plain = ("--bootstrap-server", made.bootstrap("PLAINTEXT"))
        assert run_kt("topics", *plain, "--create", "--topic", "seen").status == 0
        rights = ("--add", "--topic", "seen", "--operation", "all", "--allow-principal", "User:erin")
        assert run_kt("acls", *plain, *rights).status == 0
        yield made
    finally:
        made.broker.close()


def steady(request: Request, secure: SecureBroker) -> dict[str, Any]:
    """A request without what differs each time; an assertion with a right signature is replaced by what it holds."""
    fields: dict[str, Any] = request.fields
    for name in ("assertion", "client_assertion"):
        if name in fields:
            text = fields[name]
            header, claims, signature = parts_of(text)
            content = text.rpartition(".")[0].encode()
            secure.key.public_key().verify(signature, content, padding.PKCS1v15(), hashes.SHA256())
            times = {claim: claims.pop(claim) for claim in ("iat", "exp", "nbf")}
            fields[name] = header, claims, times["exp"] - times["iat"], times["iat"] - times["nbf"]
    headers = {name.lower(): value for name, value in request.headers.items()}
    kept = ("authorization", "accept", "cache-control", "content-type")
    return {"path": request.path, "fields": fields, "headers": {name: headers.get(name) for name in kept}}


@pytest.mark.parametrize("case", CASES)
def test_requests_are_those_of_apache_kafka(secure: SecureBroker, tmp_path: pathlib.Path, case: str) -> None:
    key = tmp_path / "key"  # base64 of DER is the form that Kafka reads
    encoding, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    lines = secure.key.private_bytes(encoding, kind, serialization.NoEncryption()).decode().splitlines()
    key.write_text("".join(lines[1:-1]))
    key.chmod(0o600)
    with TokenEndpoint(lambda: (200, {"access_token": secure.token()})) as endpoint:
        values = {
            **secure.sasl("OAUTHBEARER", tls=False, login=f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"),
            "sasl.login.callback.handler.class": f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "sasl.oauthbearer.scope": "read write",
            **CASES[case],
        }
        if case != "client secret":
            values[f"{ASSERTION}.private.key.file"] = str(key)
        where = ("--bootstrap-server", secure.bootstrap("SIGNED"), "--command-config", secure.client_file(case, values))
        ours = run_kt("topics", "--list", *where)
        of_kt = list(endpoint.requests)
        allowed = (
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint.url}",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={key}",
        )
        command = apache_kafka.command("topics", "--list", *where, jvm=(*apache_kafka.QUICK_START, *allowed))
        java = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        of_java = endpoint.requests[len(of_kt) :]
    assert (ours.status, ours.out.split(), ours.err) == (0, ["seen"], "")
    assert java.stdout.split() == ["seen"], java.stdout + java.stderr
    assert steady(of_kt[0], secure) == steady(of_java[0], secure)
