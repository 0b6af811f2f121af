"""kt schemas against the recorded answers of a real registry, and against servers that are no registry."""

from __future__ import annotations

import json
import pathlib
import ssl

import pytest
from support.certificates import Authority
from support.kt import Ran, run_kt
from support.schema_registry import Answer, Request, recorded, serving
from support.schema_stories import ORDER, Story


def run(url: str, *words: str, cwd: pathlib.Path | None = None, status: int = 1) -> Ran:
    ran = run_kt("schemas", *words, "--schema-registry", url, cwd=cwd)
    assert ran.status == status, ran
    assert ran.err.count("\n") <= 2, "an error is one line, and perhaps one of advice"
    return ran


@pytest.mark.slow
def test_subjects_of_a_recorded_registry(tmp_path: pathlib.Path) -> None:
    with recorded("subjects") as registry:
        Story(registry.url, tmp_path).subjects()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(401, '{"error_code": 401, "message": "Unauthorized"}'), "401 Unauthorized: Unauthorized"),
        (Answer(403, "no", "text/plain"), "403 Forbidden"),
        (Answer(404, "<html>", "text/html"), "404 Not Found: is this the address of a schema registry?"),
        (Answer(200, "<html>", "text/html"), "answers with text/html, not with JSON: it is not a schema registry"),
        (Answer(200, "[" * 100_000), "not with JSON: it is not a schema registry"),
        (Answer(404, "[" * 100_000), "404 Not Found: is this the address of a schema registry?"),
        (Answer(200, '{"a": 1}'), "answers with JSON that is not a list of subjects"),
        (Answer(302, "", headers={"Location": "http://elsewhere/"}), "redirects to http://elsewhere/"),
        (Answer(503, '{"message": "starting"}'), "503 Service Unavailable: starting"),
    ],
    ids=["401", "403", "404", "html", "nested", "nested-404", "other-json", "redirect", "503"],
)
def test_a_server_that_is_no_usable_registry_is_one_line(answer: Answer, error: str) -> None:
    with serving(lambda request: answer) as server:
        ran = run(server.url, "list")
        assert error in ran.err.splitlines()[0]
        assert len(server.requests) == (3 if answer.status == 503 else 1)


@pytest.mark.parametrize("reply", ['{"id": "x"}', "7", '{"id": 1, "schema": "x", "references": [1]}', '["x"]'])
@pytest.mark.parametrize("words", [("show", "s"), ("show", "--id", "1"), ("versions", "s"), ("compatibility",)])
def test_json_of_another_kind_is_one_line(reply: str, words: tuple[str, ...]) -> None:
    with serving(lambda request: Answer(200, reply)) as server:
        assert "answers with JSON that a schema registry does not send" in run(server.url, *words).err


def test_a_registry_that_is_down_ends_at_once() -> None:
    assert "http://127.0.0.1:1 does not answer: Connection refused" in run("http://127.0.0.1:1", "list").err


def test_the_second_address_answers_when_the_first_is_down() -> None:
    with serving(lambda request: Answer(200, '["a"]')) as server:
        assert run(f"http://127.0.0.1:1,{server.url}", "list", status=0).out == "a\n"


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://x", "http://", "http://h:x", "http://u:secret@h:0/", "/"])
def test_an_invalid_address_is_a_usage_error_without_the_password(url: str) -> None:
    ran = run(url, "list", status=2)
    assert "must be http://HOST:PORT or https://HOST:PORT" in ran.err and "secret" not in ran.err


def test_user_token_and_profile_settings_log_in(tmp_path: pathlib.Path) -> None:
    def respond(request: Request) -> Answer:
        return Answer(200, json.dumps([request.headers.get("Authorization", "none")]))

    with serving(respond) as server:
        for name, text in (
            ("user.properties", "basic.auth.credentials.source=USER_INFO\nbasic.auth.user.info=Ada:pass:word\n"),
            ("token.properties", "bearer.auth.credentials.source=STATIC_TOKEN\nbearer.auth.token=tok-en-1\n"),
            ("url.properties", f"schema.registry.url={server.url}\nschema.registry.basic.auth.user.info=a:b\n"),
            ("other.properties", "schema.registry.url=http://127.0.0.1:2\nbasic.auth.user.info=a:b\n"),
        ):
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o600)

        def sent(*words: str, url: str | None = server.url) -> str:
            address = ("--schema-registry", url) if url else ()
            ran = run_kt("schemas", "list", *address, *words, cwd=tmp_path)
            assert ran.status == 0, ran
            return ran.out.strip()

        assert sent() == "none"
        assert sent(url=server.url.replace("//", "//Ada:pass%3Aword@")) == "Basic QWRhOnBhc3M6d29yZA=="
        assert sent("--command-config", "user.properties") == "Basic QWRhOnBhc3M6d29yZA=="
        assert sent("--command-config", "token.properties") == "Bearer tok-en-1"
        assert sent("--command-config", "url.properties", url=None) == "Basic YTpi"
        assert sent("--command-config", "other.properties") == "none", "a password of another registry stays here"


def test_wrong_command_lines(tmp_path: pathlib.Path) -> None:
    with serving(lambda request: Answer(200, json.dumps({"id": 1, "schema": json.dumps(ORDER)}))) as server:
        (tmp_path / "order.txt").write_text("{}")
        (tmp_path / "a.avsc").write_text("{}")
        (tmp_path / "broken.avsc").write_text('{"type": ')
        for words, error, status in (
            (("versions",), "kt schemas versions needs a subject", 2),
            (("show",), "needs either SUBJECT[:VERSION] or --id ID", 2),
            (("check", "s", "--schema", "none.avsc"), "none.avsc cannot be read: No such file or directory", 1),
            (
                ("check", "s", "--schema", "order.txt"),
                "the name of a schema file must end with .avsc, .proto or .json",
                2,
            ),
            (("check", "s", "--schema", "broken.avsc"), "broken.avsc is not JSON: Expecting value at line 1", 1),
            (("register", "s", "--schema", "order.txt", "--type", "xml"), "--type", 2),
            (("register", "s", "--schema", "a.avsc", "--reference", "x"), "NAME=SUBJECT:VERSION, not 'x'", 2),
            (("set-compatibility", "s"), "needs either --level LEVEL or --inherit", 2),
            (("set-compatibility", "--inherit"), "--inherit needs a subject", 2),
            (("set-compatibility", "--level", "most"), "--level", 2),
        ):
            assert error in run(server.url, *words, cwd=tmp_path, status=status).err
        assert not server.requests
    missing = run_kt("schemas", "list")
    assert missing.status == 2 and "give --schema-registry URL or set schema.registry.url" in missing.err


def test_latest_deletes_one_version_and_zero_is_no_version() -> None:
    newest = json.dumps({"subject": "s", "version": 7, "id": 3, "schema": "{}"})

    def respond(request: Request) -> Answer:
        if request.method == "DELETE":
            return Answer(200, "7")
        if request.path.startswith("/subjects/s/versions/"):
            return Answer(200, newest) if request.path.endswith("/latest") else Answer(422, '{"message": "invalid"}')
        return Answer(200, '["s"]' if request.path == "/subjects" else "[1, 7]")

    with serving(respond) as server:

        def deletions(*words: str) -> list[str]:
            server.requests.clear()
            ran = run(server.url, "delete", "s:latest", *words, status=0)
            assert "version 7" in ran.out and "1" not in ran.out
            return [request.path for request in server.requests if request.method == "DELETE"]

        assert deletions("--dry-run") == []
        assert deletions() == ["/subjects/s/versions/7"]
        assert deletions("--permanent") == ["/subjects/s/versions/7", "/subjects/s/versions/7?permanent=true"]
        assert "/subjects/s/versions/0: 422" in run(server.url, "show", "s:0").err


def test_an_unknown_certificate_is_refused_with_advice(tmp_path: pathlib.Path) -> None:
    key, certificate = Authority(tmp_path).issue("registry", "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    settings = tmp_path / "tls.properties"
    settings.write_text(
        f"schema.registry.ssl.truststore.location={tmp_path}/ca.pem\nschema.registry.ssl.truststore.type=PEM\n"
    )
    with serving(lambda request: Answer(200, '["a"]')) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        url = server.url.replace("http:", "https:")
        refused = run(url, "list").err.splitlines()
        assert refused[0] == f"{url}: TLS failed: unable to get local issuer certificate"
        assert "Set schema.registry.ssl.truststore.location to a file" in refused[1]
        assert run(url, "list", "--command-config", str(settings), status=0).out == "a\n"
        other = run(url.replace("127.0.0.1", "localhost"), "list", "--command-config", str(settings))
        assert "certificate is not valid for 'localhost'" in other.err and other.err.count("\n") == 1


def test_a_check_against_a_subject_without_versions_says_so(tmp_path: pathlib.Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    with serving(lambda request: Answer(404, '{"error_code": 40401, "message": "Subject not found"}')) as server:
        words = ("check", "typo-value", "--schema", "order.avsc")
        ran = run(server.url, *words, cwd=tmp_path, status=0)
        assert ran.out == "The registry has no subject typo-value yet, so any valid schema can be registered.\n"
        row = json.loads(run(server.url, *words, "--json", cwd=tmp_path, status=0).out)
        assert row == {"subject": "typo-value", "compatible": True, "messages": []}
        old = run(server.url, "check", "typo-value:2", *words[2:], cwd=tmp_path)
        assert "The registry has no version 2 of typo-value" in old.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    ['{"error_code": 404, "message": "HTTP 404 Not Found"}', '{"detail": "Not Found"}', '{"status": 404}'],
)
def test_a_404_of_a_web_server_is_not_a_missing_subject(tmp_path: pathlib.Path, body: str) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    with serving(lambda request: Answer(404, body), "/wrong/path") as server:
        for words in (("list",), ("show", "s"), ("check", "s", "--schema", "order.avsc"), ("compatibility", "s")):
            assert "is this the address of a schema registry?" in run(server.url, *words, cwd=tmp_path).err
    early = Answer(404, '{"error_code": 404, "message": "No artifact s was found."}')
    with serving(lambda request: early) as server:
        assert run(server.url, "show", "s").err.startswith("The registry has no subject s: No artifact s")


def test_versions_are_a_table_with_their_references() -> None:
    def respond(request: Request) -> Answer:
        reference = {"name": "line.proto", "subject": "line", "version": 2}
        versions = {
            "/subjects/s/versions": [1, 7],
            "/subjects/s/versions/1": {"subject": "s", "version": 1, "id": 3, "schema": "{}"},
            "/subjects/s/versions/7": {
                "subject": "s", "version": 7, "id": 12, "schema": "x", "schemaType": "PROTOBUF",
                "references": [reference],
            },
        }  # fmt: skip
        return Answer(200, json.dumps(versions[request.path]))

    with serving(respond) as server:
        lines = run(server.url, "versions", "s", status=0).out.splitlines()
    assert [line.split() for line in lines] == [
        ["VERSION", "ID", "TYPE", "REFERENCES"],
        ["1", "3", "AVRO", "-"],
        ["7", "12", "PROTOBUF", "line.proto=line:2"],
    ]


def test_a_level_of_a_subject_is_removed_once() -> None:
    own = ["BACKWARD"]

    def respond(request: Request) -> Answer:
        if request.method == "DELETE":
            return Answer(200, json.dumps(own.pop()))
        return Answer(200, f'{{"compatibilityLevel": "{own[0]}"}}') if own else Answer(404, '{"error_code": 40408}')

    with serving(respond) as server:
        words = ("set-compatibility", "s", "--inherit")
        assert "would become that of the registry (was BACKWARD)" in run(server.url, *words, "--dry-run", status=0).out
        assert own == ["BACKWARD"]
        assert "is that of the registry (was BACKWARD)" in run(server.url, *words, status=0).out
        assert [request.path for request in server.requests if request.method == "DELETE"] == ["/config/s"]
        assert "is that of the registry (was none)" in run(server.url, *words, status=0).out


@pytest.mark.parametrize(
    ("own", "registry", "error"),
    [
        ("BACKWARD_TRANSITIVE", "NONE", "Not compatible with s: version 1: field id"),
        (None, "FULL_TRANSITIVE", "Not compatible with s: version 1: field id"),
        ("BACKWARD", "FULL_TRANSITIVE", None),
        (None, "FORWARD", None),
    ],
)
def test_a_dry_registration_compares_as_the_level_says(
    tmp_path: pathlib.Path, own: str | None, registry: str, error: str | None
) -> None:
    """Only the oldest of three versions does not fit, which matters with a transitive level."""
    (tmp_path / "s.avsc").write_text('"string"')

    def respond(request: Request) -> Answer:
        if request.path == "/config/s":
            return Answer(200, json.dumps({"compatibilityLevel": own})) if own else Answer(404, '{"error_code": 40408}')
        if request.path == "/config":
            return Answer(200, json.dumps({"compatibilityLevel": registry}))
        if request.path == "/subjects/s/versions":
            return Answer(200, "[1, 2, 3]")
        if request.path.startswith("/compatibility/subjects/s/versions/1"):
            return Answer(200, '{"is_compatible": false, "messages": ["field id"]}')
        if request.path.startswith("/compatibility/subjects/s/versions/"):
            return Answer(200, '{"is_compatible": true}')
        return Answer(404, '{"error_code": 40403, "message": "Schema not found"}')

    with serving(respond) as server:
        words = ("register", "s", "--schema", "s.avsc", "--dry-run")
        ran = run(server.url, *words, cwd=tmp_path, status=0 if error is None else 1)
        assert ran.err.rstrip() == (error or ""), ran
