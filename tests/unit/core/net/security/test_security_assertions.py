"""Assertions for a token endpoint: the JWT-bearer grant, and client credentials without a secret."""

from __future__ import annotations

import base64
import pathlib
import threading
from collections.abc import Iterator

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from support.manual_clock import ManualClock
from support.token_endpoint import TokenEndpoint, parts_of

from kafkatools.core import config as tables
from kafkatools.core.config import Config
from kafkatools.core.errors import AuthenticationFailed, ConfigError
from kafkatools.core.net.security.login import login_of

BEARER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
NOW_S = 1_700_000_000
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
PASSPHRASE = "passphrase-canary"
PKCS8 = serialization.PrivateFormat.PKCS8
PLAIN = serialization.NoEncryption()
LOCKED = serialization.BestAvailableEncryption(PASSPHRASE.encode())
PEM, DER = serialization.Encoding.PEM, serialization.Encoding.DER
TEMPLATE = '{"header": {"kid": "k1", "alg": "none"}, "payload": {"sub": "of-template", "animals": ["cat"], "exp": 1}}'


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint(lambda: (200, {"access_token": "abc.def.ghi", "expires_in": 300})) as made:
        yield made


def config(url: str, retriever: str = BEARER, **assertion: object) -> Config:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.jwt.retriever.class": retriever,
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.scope": "read write",
    }
    more = {f"sasl.oauthbearer.assertion.{name.replace('_', '.')}": str(value) for name, value in assertion.items()}
    return Config(tables.ADMIN, {**settings, **more})


def fetch(settings: Config) -> bytes:
    clock, done = ManualClock(), threading.Event()
    clock.set_wall_ms(NOW_S * 1000)
    login = login_of(settings, clock, done.set)
    if not login.is_ready("host"):
        assert done.wait(20)
        assert login.is_ready("host")
    return login.start("host").initial()


def key_file(directory: pathlib.Path, data: bytes) -> pathlib.Path:
    path = directory / "key"
    path.write_bytes(data)
    return path


def test_claims_of_settings_and_template_and_the_times(endpoint: TokenEndpoint, tmp_path: pathlib.Path) -> None:
    template = tmp_path / "template.json"
    template.write_text(TEMPLATE)
    key = key_file(tmp_path, RSA_KEY.private_bytes(PEM, PKCS8, PLAIN))
    claims = {"claim_aud": "idp", "claim_iss": "me", "claim_sub": "of-settings", "claim_jti_include": "true"}
    more = {"claim_exp_seconds": 120, "claim_nbf_seconds": 5}
    token = fetch(config(endpoint.url, private_key_file=key, template_file=template, **claims, **more))
    assert token == b"n,,\x01auth=Bearer abc.def.ghi\x01\x01"
    fields = endpoint.requests[0].fields
    assert "Authorization" not in endpoint.requests[0].headers
    assertion = fields.pop("assertion")
    assert fields == {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "scope": "read write"}
    header, payload, signature = parts_of(assertion)
    assert header == {"kid": "k1", "alg": "RS256", "typ": "JWT"}
    assert len(payload.pop("jti")) == 32
    expected = {"aud": "idp", "iss": "me", "sub": "of-template", "animals": ["cat"]}
    assert payload == {**expected, "iat": NOW_S, "exp": NOW_S + 120, "nbf": NOW_S - 5}
    content = assertion.rpartition(".")[0].encode()
    RSA_KEY.public_key().verify(signature, content, padding.PKCS1v15(), hashes.SHA256())
    with pytest.raises(InvalidSignature):
        RSA_KEY.public_key().verify(signature, content + b"x", padding.PKCS1v15(), hashes.SHA256())


def test_every_assertion_is_new(endpoint: TokenEndpoint, tmp_path: pathlib.Path) -> None:
    key = key_file(tmp_path, RSA_KEY.private_bytes(PEM, PKCS8, PLAIN))
    for _ in range(2):
        fetch(config(endpoint.url, private_key_file=key, claim_jti_include="true"))
    first, second = (parts_of(request.fields["assertion"])[1]["jti"] for request in endpoint.requests)
    assert first != second


def test_es256_has_a_signature_of_two_numbers(endpoint: TokenEndpoint, tmp_path: pathlib.Path) -> None:
    key = key_file(tmp_path, EC_KEY.private_bytes(PEM, PKCS8, PLAIN))
    fetch(config(endpoint.url, private_key_file=key, algorithm="ES256"))
    assertion = endpoint.requests[0].fields["assertion"]
    header, _, signature = parts_of(assertion)
    numbers = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    assert header["alg"] == "ES256" and len(signature) == 64
    content = assertion.rpartition(".")[0].encode()
    EC_KEY.public_key().verify(utils.encode_dss_signature(*numbers), content, ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize(
    ("data", "passphrase"),
    [
        (RSA_KEY.private_bytes(DER, PKCS8, PLAIN), None),
        (base64.b64encode(RSA_KEY.private_bytes(DER, PKCS8, PLAIN)) + b"\n", None),
        (RSA_KEY.private_bytes(DER, PKCS8, LOCKED), PASSPHRASE),
        (RSA_KEY.private_bytes(PEM, PKCS8, LOCKED), PASSPHRASE),
    ],
    ids=["DER", "base64", "encrypted DER", "encrypted PEM"],
)
def test_forms_of_the_private_key(
    endpoint: TokenEndpoint, tmp_path: pathlib.Path, data: bytes, passphrase: str | None
) -> None:
    more = {} if passphrase is None else {"private_key_passphrase": passphrase}
    fetch(config(endpoint.url, private_key_file=key_file(tmp_path, data), **more))
    assertion = endpoint.requests[0].fields["assertion"]
    content, _, _ = assertion.rpartition(".")
    RSA_KEY.public_key().verify(parts_of(assertion)[2], content.encode(), padding.PKCS1v15(), hashes.SHA256())


def test_assertion_of_a_file(endpoint: TokenEndpoint, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "assertion"
    path.write_text("aaa.bbb.ccc\n")
    fetch(config(endpoint.url, file=path))
    assert endpoint.requests[0].fields["assertion"] == "aaa.bbb.ccc"


@pytest.mark.parametrize("retriever", ["DefaultJwtRetriever", "ClientCredentialsJwtRetriever"])
def test_client_credentials_with_an_assertion_need_no_secret(
    endpoint: TokenEndpoint, tmp_path: pathlib.Path, retriever: str
) -> None:
    key = key_file(tmp_path, RSA_KEY.private_bytes(PEM, PKCS8, PLAIN))
    settings = config(
        endpoint.url, BEARER.replace("JwtBearerJwtRetriever", retriever), private_key_file=key, claim_iss="me"
    )
    fetch(settings.replace({"sasl.oauthbearer.client.credentials.client.id": "my-app"}))
    fields = endpoint.requests[0].fields
    assert parts_of(fields.pop("client_assertion"))[1]["iss"] == "me"
    assert fields == {
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "grant_type": "client_credentials",
        "client_id": "my-app",
        "scope": "read write",
    }


@pytest.mark.parametrize(
    ("data", "assertion", "message"),
    [
        (None, {}, "private.key.file /.*/key: No such file"),
        (b"no key", {}, "holds no private key"),
        (RSA_KEY.private_bytes(PEM, PKCS8, LOCKED), {}, "private.key.passphrase is not set"),
        (RSA_KEY.private_bytes(PEM, PKCS8, PLAIN), {"private_key_passphrase": "x"}, "but the key is not encrypted"),
        (RSA_KEY.private_bytes(PEM, PKCS8, LOCKED), {"private_key_passphrase": "wrong"}, "or the passphrase is wrong"),
        (RSA_KEY.private_bytes(PEM, PKCS8, PLAIN), {"algorithm": "ES256"}, "ES256 needs a key on the curve P-256"),
        (EC_KEY.private_bytes(PEM, PKCS8, PLAIN), {}, "RS256 needs an RSA key"),
    ],
    ids=["absent", "no key", "locked", "not locked", "wrong passphrase", "wrong algorithm", "wrong kind"],
)
def test_keys_that_do_not_do(
    endpoint: TokenEndpoint, tmp_path: pathlib.Path, data: bytes | None, assertion: dict[str, str], message: str
) -> None:
    path = tmp_path / "key" if data is None else key_file(tmp_path, data)
    with pytest.raises(AuthenticationFailed, match=message) as caught:
        fetch(config(endpoint.url, private_key_file=path, **assertion))
    assert "canary" not in str(caught.value) and not endpoint.requests


@pytest.mark.parametrize("text", ["{", "[]", '{"header": 1}', pytest.param("[" * 100_000, id="nested")])
def test_template_that_is_none(endpoint: TokenEndpoint, tmp_path: pathlib.Path, text: str) -> None:
    template = tmp_path / "template.json"
    template.write_text(text)
    key = key_file(tmp_path, RSA_KEY.private_bytes(PEM, PKCS8, PLAIN))
    with pytest.raises(AuthenticationFailed, match="template.json is no JSON object with"):
        fetch(config(endpoint.url, private_key_file=key, template_file=template))


def test_assertion_needs_a_file_or_a_key() -> None:
    with pytest.raises(ConfigError, match=r"assertion.file nor sasl.oauthbearer.assertion.private.key.file is set"):
        login_of(config("http://localhost/token"), ManualClock(), lambda: None)


def test_refused_assertion_is_final_and_in_no_error(endpoint: TokenEndpoint, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "assertion"
    path.write_text("aaaaaaaaaa.canarycanary.ccccccc")
    endpoint.answers.append((400, {"error": "invalid_grant", "error_description": f"got {path.read_text()}"}))
    with pytest.raises(AuthenticationFailed, match=r"status 400 \(invalid_grant: got \[hidden\]\)") as caught:
        fetch(config(endpoint.url, file=path))
    assert "canary" not in str(caught.value) and len(endpoint.requests) == 1
