"""IAM of Amazon MSK: tokens of the vendor's signer with fixed credentials, and when they are renewed."""

from __future__ import annotations

import base64
import datetime
import http.server
import threading
from urllib.parse import parse_qs, urlsplit

import pytest
from support.manual_clock import ManualClock
from support.sasl_rig import Rig

from kafkatools.core import config as tables
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import Config
from kafkatools.core.errors import AuthenticationFailed, ConfigError
from kafkatools.core.net.security.login import login_of
from kafkatools.core.net.security.msk import msk_source
from kafkatools.core.protocol.api_versions import ApiKey

pytest.importorskip("aws_msk_iam_sasl_signer")

PACKAGE = "software.amazon.msk.auth.iam"
SERVERS = ("b-1.payments.abc123.c2.kafka.eu-west-1.amazonaws.com:9098",)
JAVAS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": f"{PACKAGE}.IAMLoginModule required;",
    "sasl.client.callback.handler.class": f"{PACKAGE}.IAMClientCallbackHandler",
    "bootstrap.servers": ",".join(SERVERS),
}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret-canary",
        "AWS_SESSION_TOKEN": "session-token",
        "AWS_CONFIG_FILE": f"{tmp_path}/config",
        "AWS_SHARED_CREDENTIALS_FILE": f"{tmp_path}/credentials",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.delenv("AWS_PROFILE", raising=False)


def query_of(token: str) -> tuple[str, dict[str, str]]:
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    return f"{url.scheme}://{url.netloc}{url.path}", {name: value[0] for name, value in parse_qs(url.query).items()}


def test_token_is_a_signed_url() -> None:
    before_ms = SystemClock().wall_ms()
    token = msk_source({}, SERVERS)()
    address, fields = query_of(token.value)
    assert address == "https://kafka.eu-west-1.amazonaws.com/"
    signed_at = datetime.datetime.strptime(fields["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    signed_ms = int(signed_at.timestamp() * 1000)
    assert before_ms - 1000 <= signed_ms <= SystemClock().wall_ms()
    assert token.expires_ms == signed_ms + 900_000
    assert fields.pop("X-Amz-Signature").isalnum()
    assert fields.pop("User-Agent").startswith("aws-msk-iam-sasl-signer-python/")
    assert fields == {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"AKIDEXAMPLE/{signed_at:%Y%m%d}/eu-west-1/kafka-cluster/aws4_request",
        "X-Amz-Date": fields["X-Amz-Date"],
        "X-Amz-Expires": "900",
        "X-Amz-Security-Token": "session-token",
        "X-Amz-SignedHeaders": "host",
    }


@pytest.mark.parametrize(
    ("server", "options", "region"),
    [
        ("boot-a.c3.kafka-serverless.us-east-2.amazonaws.com:9098", {}, "us-east-2"),
        ("b-1.x.c2.kafka.cn-north-1.amazonaws.com.cn:9098", {}, "cn-north-1"),
        ("msk.internal:9098", {"awsRegion": "ap-south-1"}, "ap-south-1"),
        ("msk.internal:9098", {"awsProfileName": "jobs"}, "sa-east-1"),
    ],
)
def test_region(
    server: str, options: dict[str, str], region: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(f"{tmp_path}/config", "w") as file:
        file.write("[profile jobs]\nregion = sa-east-1\naws_access_key_id = AKIDJOBS\naws_secret_access_key = x\n")
    address, fields = query_of(msk_source(options, [server])().value)
    assert address == f"https://kafka.{region}.amazonaws.com/"
    assert fields["X-Amz-Credential"].startswith("AKIDJOBS" if options.get("awsProfileName") else "AKIDEXAMPLE")


@pytest.mark.parametrize(
    "settings",
    [
        JAVAS,
        {
            **JAVAS,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
            "sasl.client.callback.handler.class": None,
            "sasl.login.callback.handler.class": f"{PACKAGE}.IAMOAuthBearerLoginCallbackHandler",
        },
    ],
    ids=["AWS_MSK_IAM", "OAUTHBEARER"],
)
def test_settings_of_java_give_a_token_that_is_renewed_in_time(settings: dict[str, str | None]) -> None:
    clock, done = ManualClock(), threading.Semaphore(0)
    clock.set_wall_ms(SystemClock().wall_ms())
    config = Config(tables.ADMIN, {name: value for name, value in settings.items() if value is not None})
    login = login_of(config, clock, done.release)
    assert login.mechanism == "OAUTHBEARER"
    assert not login.is_ready("host")
    assert done.acquire(timeout=20)
    assert login.is_ready("host")
    message = login.start("host").initial().decode()
    assert query_of(message.removeprefix("n,,\x01auth=Bearer ").rstrip("\x01"))[0].startswith("https://kafka.eu-west-1")
    clock.advance_ms(700_000)  # 80 % of 15 minutes are 720 s
    assert login.is_ready("host")
    clock.advance_ms(30_000)
    assert not login.is_ready("host")
    assert done.acquire(timeout=20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"awsRoleExternalId": "x"}, "not supported: awsRoleExternalId; those with an effect are awsProfileName"),
        ({"awsProfileName": "a", "awsRoleArn": "b"}, "both awsProfileName and awsRoleArn"),
    ],
)
def test_options_that_cannot_be_had_are_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        msk_source(options, SERVERS)


def test_what_the_signer_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AuthenticationFailed, match="no AWS region: bootstrap.servers names none"):
        msk_source({}, ["localhost:9092"])()
    with pytest.raises(AuthenticationFailed, match=r"no IAM token: .*profile.*nowhere"):
        msk_source({"awsProfileName": "nowhere"}, SERVERS)()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(AuthenticationFailed, match="no AWS credentials were found"):
        msk_source({}, SERVERS)()


@pytest.mark.slow
def test_broker_gets_the_token_as_oauthbearer() -> None:
    rig = Rig({**JAVAS, "security.protocol": "SASL_PLAINTEXT"})
    try:
        rig.connect()
        handshake = next(request for header, request in rig.broker.requests if header.api_key == ApiKey.SASL_HANDSHAKE)
        assert handshake.mechanism == "OAUTHBEARER"
        message = rig.broker.tokens[0].decode()
    finally:
        rig.close()
    address, fields = query_of(message.removeprefix("n,,\x01auth=Bearer ").rstrip("\x01"))
    assert address == "https://kafka.eu-west-1.amazonaws.com/"
    assert fields["Action"] == "kafka-cluster:Connect"


class _Sts(http.server.BaseHTTPRequestHandler):
    """AWS STS, which gives everyone the role's credentials."""

    requests: list[dict[str, list[str]]]

    def do_POST(self) -> None:
        self.requests.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        answer = (
            b'<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
            b"<AccessKeyId>AKIDROLE</AccessKeyId><SecretAccessKey>role-canary</SecretAccessKey>"
            b"<SessionToken>role-session</SessionToken><Expiration>2040-01-01T00:00:00Z</Expiration>"
            b"</Credentials></AssumeRoleResult></AssumeRoleResponse>"
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        pass


def test_role_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = type("Handler", (_Sts,), {"requests": []})
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    role = "arn:aws:iam::123456789012:role/reader"
    try:
        token = msk_source({"awsRoleArn": role, "awsRoleSessionName": "reports"}, SERVERS)()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    fields = query_of(token.value)[1]
    assert fields["X-Amz-Credential"].startswith("AKIDROLE/") and fields["X-Amz-Security-Token"] == "role-session"
    assert (handler.requests[0]["RoleArn"], handler.requests[0]["RoleSessionName"]) == ([role], ["reports"])
