"""Formats and files of kt console-consumer: --format beside kcat -f on one broker, --output-format, --output."""

from __future__ import annotations

import hmac
import io
import json
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import fastavro
import pyarrow.parquet as pq
import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.kt_process import start_kt
from support.raw_client import RawClient
from support.requirements import require
from support.waiting import PATIENCE_S, eventually

from kafkatools.core.install_command import install_command

START = 1_700_000_000_000
ROWS = [
    (START, b"k1", b"plain", ()),
    (START + 1, None, None, ()),
    (START + 2, b"", b"", ((b"empty", b""), (b"null", None))),
    (-1, b"\xff\xfe", bytes(range(256)), ((b"twice", b"1"), (b"twice", b"2"))),
    (START + 4, "ключ".encode(), b"%s %d\\n", (("имя".encode(), b"\xff"), (b"", b"no name"))),
]
SECRET = b"alice@example.org"
LARGE = b"x" * 40_000


@pytest.fixture(scope="module")
def log_directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The broker's log directory."""
    return tmp_path_factory.mktemp("formats")


@pytest.fixture(scope="module")
def broker(log_directory: pathlib.Path) -> Iterator[str]:
    """A broker with the topic `odd.topic-1`: ROWS in partition 1, nothing in partition 0."""
    with embedded_broker(log_directory) as bootstrap:
        with RawClient(bootstrap) as client:
            client.create_topic("odd.topic-1", 2)
            client.create_topic("people")
            client.produce_rows(
                "people", 0, [(START, SECRET, b'{"user":"%s","n":1}' % SECRET, named(((b"h", SECRET),)))]
            )
            client.create_topic("rows")
            client.create_topic("large")
            client.produce_rows("large", 0, [(START, None, LARGE, ())] * 4)
            client.produce_rows("odd.topic-1", 1, [row[:3] + (named(row[3]),) for row in ROWS])
        yield bootstrap


def named(headers: tuple[tuple[bytes, bytes | None], ...]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name.decode(), value) for name, value in headers)


def by_kcat(bootstrap: str, form: str) -> subprocess.CompletedProcess[bytes]:
    if not shutil.which("kcat"):
        require("no kcat")
    command = ["kcat", "-C", "-q", "-e", "-b", bootstrap, "-t", "odd.topic-1", "-o", "beginning", "-f", form]
    return subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_S)


def by_kt(bootstrap: str, form: str, *options: str) -> bytes:
    arguments = ["--topic", "odd.topic-1", *(options or ("--from-beginning", "--exit-at-end")), "-f", form]
    ran = run_kt("console-consumer", "--bootstrap-server", bootstrap, *arguments)
    assert ran.status == 0, ran.err
    return ran.stdout


@pytest.mark.parametrize(
    "form",
    [
        "%t|%p|%o|%k|%K|%s|%S|%R|%T|%h|%%\n",
        r"%k\t%k%k\r\\%K\%%o\q\"\;é%%",
        r"%o \x41\x0Afoo\x4 \xA0\xg\x0x42z\065\65\0x43g\0101\300\x \1 %p\\",
        "",
        "\\",
    ],
)
def test_bytes_of_kcat(broker: str, form: str) -> None:
    theirs = by_kcat(broker, form)
    assert theirs.returncode == 0, theirs.stderr
    assert by_kt(broker, form) == theirs.stdout


@pytest.mark.parametrize("form", ["%s%", "%v", "%s%q"])
def test_wrong_token_is_refused_by_both_before_reading(form: str) -> None:
    assert by_kcat("127.0.0.1:1", form).returncode == 1
    ran = run_kt("console-consumer", "--bootstrap-server", "127.0.0.1:1", "--topic", "odd", "--format", form)
    assert (ran.status, ran.out) == (2, "")
    assert f"character {form.rindex('%') + 1}" in ran.err.splitlines()[0]


def test_nul_bytes_are_written(broker: str) -> None:
    """kcat takes text as a C string: it would end with a write error here."""
    assert by_kt(broker, r"%o\0") == b"0\x001\x002\x003\x004\x00"


def test_limit_and_deserializer(broker: str) -> None:
    string = "org.apache.kafka.common.serialization.StringDeserializer"
    options = ("--from-beginning", "--max-messages", "2", "--key-deserializer", string)
    assert by_kt(broker, "%k/%s;", *options) == b"k1/plain;/;"


# -- files and other formats --


def consume(bootstrap: str, *options: str, topic: str = "odd.topic-1", terminal: bool = False) -> Ran:
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, *options]
    return run_kt("console-consumer", *arguments, terminal=terminal)


TO_END = ("--from-beginning", "--exit-at-end")


@pytest.mark.parametrize("form", ["text", "json", "csv", "parquet", "avro"])
def test_file_has_the_bytes_of_stdout(broker: str, tmp_path: pathlib.Path, form: str) -> None:
    path = tmp_path / "records"
    printed = consume(broker, *TO_END, "--output-format", form)
    filed = consume(broker, *TO_END, "--output-format", form, "--output", str(path))
    assert (printed.status, filed.status, filed.stdout) == (0, 0, b""), filed.err
    if form in ("parquet", "avro"):
        assert values(printed.stdout) == values(path.read_bytes()) == [row[2] for row in ROWS]
    else:
        assert path.read_bytes() == printed.stdout != b""
    again = consume(broker, *TO_END, "--output-format", form, "-o", str(path))
    assert (again.status, again.err.splitlines()[0]) == (1, f"The file {path} exists already")
    assert consume(broker, *TO_END, "--output-format", form, "-o", str(path), "--force").status == 0
    assert [name.name for name in tmp_path.iterdir()] == ["records"]


def values(data: bytes) -> list[bytes | None]:
    stream = io.BytesIO(data)
    rows = list(fastavro.reader(stream)) if data[:3] == b"Obj" else pq.read_table(stream).to_pylist()
    return [row["value"] for row in rows]


def test_directory_has_a_file_for_each_partition_with_records(broker: str, tmp_path: pathlib.Path) -> None:
    ran = consume(broker, *TO_END, "--output-format", "parquet", "-o", f"{tmp_path}/out/")
    assert ran.status == 0, ran.err
    [path] = (tmp_path / "out").iterdir()
    assert (path.name, values(path.read_bytes())) == ("odd.topic-1-1.parquet", [row[2] for row in ROWS])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output-format", "cvs"], "Invalid value of --output-format: 'cvs'"),
        (["--output-format", "csv", "--json"], "--json and --output-format csv contradict each other"),
        (["--output-format", "avro", "--formatter", "default"], "--output-format avro cannot be used with --formatter"),
        (["--output-format", "json", "-f", "%s"], "--output-format json cannot be used with --format"),
        (["-o", "beginning"], "--output (-o) takes a file, not 'beginning'"),
        (["--force"], "--force needs --output"),
        (["--group", "g", "-o", "file"], "With --group, offsets would be committed before the output file is complete"),
        (["-f", "%s%", "-o", "file"], "The format ends with % at character 3; write %% for a percent sign"),
    ],
)
def test_wrong_output_is_refused_before_anything_is_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = consume("127.0.0.1:1", *options)
    assert ran.status == 2
    assert message in ran.err.splitlines()[0]
    assert list(tmp_path.iterdir()) == []


def test_binary_is_not_shown_on_a_terminal() -> None:
    ran = consume("127.0.0.1:1", "--output-format", "parquet", terminal=True)
    assert (ran.status, "is binary and cannot be shown on a terminal" in ran.err) == (2, True)


@pytest.mark.parametrize(("form", "package"), [("parquet", "pyarrow"), ("avro", "fastavro")])
def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, form: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    ran = consume("127.0.0.1:1", "--output-format", form)
    line = f"--output-format {form} needs the Python package {package}: {install_command(form)}"
    assert (ran.status, ran.err) == (1, line + "\n")


def test_failed_run_leaves_a_partial_file(broker: str, tmp_path: pathlib.Path) -> None:
    """The third key does not have two bytes, the run ends there."""
    short = "org.apache.kafka.common.serialization.ShortDeserializer"
    path = tmp_path / "out"
    ran = consume(broker, *TO_END, "-f", "%o=%k;", "--key-deserializer", short, "-o", str(path))
    assert (ran.status, (tmp_path / "out.partial").read_bytes()) == (1, b"0=27441;1=;")
    assert f"The run ended early; the records so far are in {path}.partial" in ran.err
    assert not path.exists()


@pytest.mark.parametrize("has_end", [False, True])
def test_ctrl_c_completes_the_file_of_a_run_without_other_end(
    broker: str, tmp_path: pathlib.Path, has_end: bool
) -> None:
    path = tmp_path / "out"
    partial = tmp_path / "out.partial"
    arguments = ["--bootstrap-server", broker, "--topic", "large", "--from-beginning", "-o", str(path)]
    child = start_kt(tmp_path, "console-consumer", *arguments, *(["--max-messages", "100"] if has_end else []))
    try:
        eventually(lambda: partial.exists() and partial.stat().st_size > 0)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=PATIENCE_S)
    finally:
        child.kill()
    assert child.returncode == 130, err
    kept, gone = (partial, path) if has_end else (path, partial)
    assert (kept.read_bytes(), gone.exists()) == ((LARGE + b"\n") * 4, False)


def test_closed_stdout_does_not_end_a_run_that_writes_a_file(broker: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out"
    arguments = ["--bootstrap-server", broker, "--topic", "large", "--from-beginning", "-o", str(path)]
    child = start_kt(tmp_path, "console-consumer", *arguments, "--timeout-ms", "1500")
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait(PATIENCE_S) == 0
    assert child.stderr is not None
    assert child.stdin is not None
    child.stderr.close()
    child.stdin.close()
    assert path.stat().st_size == 4 * len(LARGE + b"\n")


# -- masks --

MASKS = ("--mask", "key", "--mask", "value.user=null", "--mask", "headers.h=last4")


@pytest.mark.parametrize(
    "options",
    [
        ["--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"],
        ["--format", "%k %s %h"],
        ["--json"],
        ["--output-format", "csv"],
        ["--output-format", "avro"],
        ["--output-format", "parquet"],
        ["--formatter", "logging"],
    ],
)
def test_masked_contents_leave_in_no_format(broker: str, options: list[str]) -> None:
    key = {"MASK_KEY": "of hashes"}
    arguments = ["--bootstrap-server", broker, "--topic", "people", *TO_END, *MASKS, "--mask-key", "env:MASK_KEY"]
    ran = run_kt("console-consumer", *arguments, *options, environ=key)
    assert ran.status == 0, ran.err
    text = ran.stdout
    if options[-1] in ("avro", "parquet"):
        stream = io.BytesIO(text)
        rows = list(fastavro.reader(stream)) if options[-1] == "avro" else pq.read_table(stream).to_pylist()
        assert [row["value"] for row in rows] == [b'{"user":null,"n":1}']
        text = repr(rows).encode()
    assert SECRET not in text + ran.stderr
    if "logging" not in options:
        assert hmac.new(b"of hashes", SECRET, "sha256").hexdigest().encode() in text
        assert b"****.org" in text


def test_hashes_of_two_runs_differ_without_a_key(broker: str) -> None:
    runs = {consume(broker, *TO_END, "--mask", "key", "-f", "%k", topic="people").stdout for _ in range(2)}
    assert len(runs) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mask", "vlaue"], "Invalid value of --mask: 'vlaue' is none of key, value, headers.NAME"),
        (["--mask", "key", "--mask", "key=null"], "--mask key is given twice"),
        (["--mask-key", "env:X"], "--mask-key needs --mask"),
        (["--mask", "key", "--mask-key", "secret"], "--mask-key takes file:PATH or env:NAME"),
        (["--mask", "key", "--mask-key", "env:X"], "--mask-key: the environment variable X is not set"),
    ],
)
def test_wrong_mask_is_refused(options: list[str], message: str) -> None:
    ran = consume("127.0.0.1:1", *options)
    assert (ran.status, ran.err.startswith(message)) == (2, True), ran.err
    assert "secret" not in ran.err


def test_value_that_is_no_json_is_masked_whole_and_counted(broker: str) -> None:
    ran = consume(broker, *TO_END, "--mask", "value.user=null", "--formatter-property", "null.literal=-")
    assert (ran.status, ran.stdout) == (1, b"-\n" * len(ROWS))
    assert "4 values were masked whole" in ran.err


def test_error_of_a_condition_does_not_quote_what_is_masked(broker: str) -> None:
    options = ("--where", "value::INT > 3 OR key::INT > 3", "--mask", "key", "--mask", "value")
    ran = consume(broker, *TO_END, *options, topic="people")
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.count("the condition failed on 1 records") == 1
    assert SECRET.decode() not in ran.err


@pytest.mark.parametrize("form", ["text", "json", "csv", "avro"])
def test_files_of_the_log_give_the_bytes_of_the_broker(
    broker: str, log_directory: pathlib.Path, tmp_path: pathlib.Path, form: str
) -> None:
    options = ["--topic", "people", "--output-format", form, "--mask", "key=null", "--mask", "value.user=last4"]
    of_broker = consume(broker, *TO_END, *options[2:], topic="people")
    of_files = run_kt("console-consumer", "--from", f"log:{log_directory}", *options)
    assert (of_broker.status, of_files.status) == (0, 0), of_files.err
    if form == "avro":  # each file has a random marker between its blocks
        assert values(of_broker.stdout) == values(of_files.stdout) == [b'{"user":"****.org","n":1}']
    else:
        assert of_broker.stdout == of_files.stdout != b""


# -- the same files back into a topic --


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "avro"])
@pytest.mark.parametrize("is_pipe", [False, True])
def test_records_go_from_topic_to_file_to_topic(broker: str, tmp_path: pathlib.Path, form: str, is_pipe: bool) -> None:
    path, copy = tmp_path / "records", f"copy-{form}-{is_pipe}"
    with RawClient(broker) as client:
        client.create_topic(copy, 2)
    assert consume(broker, *TO_END, "--output-format", form, "-o", str(path)).status == 0
    options = ["--bootstrap-server", broker, "--topic", copy, "--input-format", form]
    with path.open("rb") as file:
        ran = run_kt("console-producer", *options, stdin=path.read_bytes() if is_pipe else file)
    assert (ran.status, ran.err) == (0, "5 sent, 0 failed\n")
    assert rows_of(broker, copy) == rows_of(broker, "odd.topic-1")


@pytest.mark.parametrize("extension", ["csv", "PARQUET", "avro"])
def test_extension_of_a_file_is_its_format_in_both_directions(
    broker: str, tmp_path: pathlib.Path, extension: str
) -> None:
    path, copy = tmp_path / f"records.{extension}", f"extension-{extension}"
    with RawClient(broker) as client:
        client.create_topic(copy, 2)
    assert consume(broker, *TO_END, "-o", str(path)).status == 0
    assert path.read_bytes().startswith({"csv": b"topic,", "PARQUET": b"PAR1", "avro": b"Obj\1"}[extension])
    ran = run_kt("console-producer", "--bootstrap-server", broker, "--topic", copy, "--input", str(path))
    assert (ran.status, ran.err) == (0, "5 sent, 0 failed\n")
    assert rows_of(broker, copy) == rows_of(broker, "odd.topic-1")


def test_options_of_text_and_lines_go_before_the_extension(broker: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "keys.csv"
    assert consume(broker, *TO_END, "-f", "%o;", "-o", str(path)).status == 0
    assert path.read_bytes() == b"0;1;2;3;4;"
    path.write_bytes(b"k,v\n")
    with RawClient(broker) as client:
        client.create_topic("lines-of-csv", 1)
    options = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=,", "--input", str(path)]
    ran = run_kt("console-producer", "--bootstrap-server", broker, "--topic", "lines-of-csv", *options)
    assert (ran.status, ran.err) == (0, "1 sent, 0 failed\n")
    assert [(row["key"], row["value"]) for row in rows_of(broker, "lines-of-csv")] == [("k", "v")]


@pytest.mark.parametrize("extension", ["csv", "parquet", "avro", "txt"])
def test_a_full_disk_names_the_output_file(broker: str, tmp_path: pathlib.Path, extension: str) -> None:
    path = tmp_path / f"records.{extension}"
    words = ("--bootstrap-server", broker, "--topic", "odd.topic-1", *TO_END, "--output", str(path))
    ran = subprocess.run(
        [sys.executable, "-B", "-m", "kafkatools", "console-consumer", *words], capture_output=True, check=False,
        timeout=PATIENCE_S, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY)),
    )  # fmt: skip
    assert ran.returncode == 1
    assert ran.stderr.decode().splitlines()[-1] == f"{path}.partial: File too large", ran


def rows_of(bootstrap: str, topic: str) -> list[dict[str, object]]:
    """The records of a topic; one without a timestamp gets that of its sending, so that one is left out."""
    rows = [json.loads(line) for line in consume(bootstrap, *TO_END, "--json", topic=topic).out.splitlines()]
    return [{**row, "topic": "", "timestamp": None if row["offset"] == 3 else row["timestamp"]} for row in rows]


def produce(bootstrap: str, *options: str, stdin: bytes = b"") -> Ran:
    return run_kt("console-producer", "--bootstrap-server", bootstrap, "--topic", "rows", *options, stdin=stdin)


def test_wrong_row_of_a_file_is_found_before_any_is_sent(broker: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("value,partition\na,0\nb,zero\n")
    message = "line 3, partition: 'zero' is not a whole number from 0 to 2147483647"
    ran = produce(broker, "--input-format", "csv", "--input", str(path))
    assert (ran.status, ran.err.splitlines()) == (1, [f"{path}, {message}", "0 sent, 0 failed"])
    ran = produce(broker, "--input-format", "csv", stdin=path.read_bytes())
    assert (ran.status, ran.err.splitlines()) == (1, [f"Standard input, {message}", "1 sent, 0 failed"])
    path.write_text("value,partition\na,0\nb,7\n")
    ran = produce(broker, "--input-format", "csv", "--input", str(path))
    assert (ran.status, ran.err.splitlines()) == (
        1,
        [f"{path}, row 2 is for partition 7, but topic rows has only partition 0", "0 sent, 0 failed"],
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input-format", "xml"], "Invalid value of --input-format: 'xml'"),
        (["--input-format", "csv", "--json"], "--json and --input-format csv contradict each other"),
        (
            ["--input-format", "csv", "--reader-property", "parse.key=true"],
            "With --input-format csv there are no reader",
        ),
    ],
)
def test_wrong_input_options_are_refused(options: list[str], message: str) -> None:
    ran = produce("127.0.0.1:1", *options)
    assert (ran.status, message in ran.err) == (2, True), ran.err


@pytest.mark.parametrize(("form", "package"), [("parquet", "pyarrow"), ("avro", "fastavro")])
def test_missing_package_of_an_input_names_the_extra(monkeypatch: pytest.MonkeyPatch, form: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    ran = produce("127.0.0.1:1", "--input-format", form)
    line = f"--input-format {form} needs the Python package {package}: {install_command(form)}"
    assert (ran.status, ran.err) == (1, line + "\n")


def test_input_file_of_lines(broker: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "lines").write_text("a\nb\n")
    with RawClient(broker) as client:
        client.create_topic("lines")
    options = ["--bootstrap-server", broker, "--topic", "lines", "--input", str(tmp_path / "lines")]
    assert run_kt("console-producer", *options).err == "2 sent, 0 failed\n"
    assert consume(broker, *TO_END, topic="lines").out == "a\nb\n"
