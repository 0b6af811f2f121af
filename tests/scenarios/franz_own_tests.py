"""Runs tests of franz-go's own package kgo against the embedded broker: share groups plainly, by TLS and with a
certificate of the client, SCRAM and OAUTHBEARER. `make franz-tests`; no part of the suite, as it needs Go and a minute.

Usage: franz_own_tests.py [RECORDS] [kafka] (default: 20000, franz-go's own default is 500000). `kafka`: against Apache
Kafka, to compare.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from support.kt import run_kt
from support.secure_broker import SecureBroker
from support.secure_kafka import SecureKafka

MODULE = pathlib.Path(__file__).parent / "clients" / "franz_tests"
PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
SHARE = "TestShareGroup$|TestShareGroupETL|TestShareGroupAckOnClose|TestShareGroupOffsetsAdmin|TestConsumeRegexShare"


def build(directory: pathlib.Path) -> tuple[str, str]:
    """Compile the tests; return the program and the directory of the package, in which it runs."""
    program = str(directory / "kgo.test")
    subprocess.run(["go", "test", "-c", "-o", program, PACKAGE], cwd=MODULE, check=True)
    listed = subprocess.run(
        ["go", "list", "-f", "{{.Dir}}", PACKAGE], cwd=MODULE, check=True, capture_output=True, text=True
    )
    return program, listed.stdout.strip()


def secured(home: pathlib.Path, against: str) -> SecureBroker | SecureKafka:
    """The started broker."""
    if against == "kafka":
        kafka = SecureKafka(home)
        key, made = kafka.authority.issue("client")
        (kafka.directory / "client-both.pem").write_text(key.read_text() + made.read_text())
        kafka.cluster.start()
        return kafka
    broker = SecureBroker(home)
    broker.broker.start()
    return broker


def runs(broker: SecureBroker | SecureKafka) -> dict[str, tuple[dict[str, str], str]]:
    """Name of a run -> its environment and the pattern of its tests."""
    authority, both = f"ca:{broker.authority.certificate}", broker.directory / "client-both.pem"
    plain = {"KGO_SEEDS": broker.bootstrap("PLAINTEXT")}
    sasl = {
        "KGO_TEST_SCRAM_SEEDS": broker.bootstrap("SASL_PLAINTEXT"),
        "KGO_TEST_OAUTH_SEEDS": broker.bootstrap("SASL_PLAINTEXT"),
    }
    tls = {"KGO_SEEDS": broker.bootstrap("SSL"), "KGO_TEST_TLS": authority}
    mutual = {"KGO_SEEDS": broker.bootstrap("MTLS"), "KGO_TEST_TLS": f"{authority},cert:{both},key:{both}"}
    return {
        "share groups": (plain, SHARE),
        "share groups by TLS": (tls, SHARE),
        "share groups with a certificate": (mutual, "TestShareGroup$|TestShareGroupETL"),
        "SCRAM-SHA-256, OAUTHBEARER": ({**plain, **sasl, "KGO_TEST_SCRAM": "bob:bob-canary:256"}, "SCRAM|OAuth"),
        "SCRAM-SHA-512": ({**plain, **sasl, "KGO_TEST_SCRAM": "bob:bob-canary:512"}, "SCRAMAuth$"),
    }


def main() -> int:
    """Print the outcome of each test; return 1 if one failed."""
    records = sys.argv[1] if len(sys.argv) > 1 else "20000"
    against = sys.argv[2] if len(sys.argv) > 2 else "embedded"
    is_good = True
    with tempfile.TemporaryDirectory() as name:
        program, package = build(pathlib.Path(name))
        broker = secured(pathlib.Path(name) / "broker", against)
        server = ("--bootstrap-server", broker.bootstrap("PLAINTEXT"))
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            run_kt("configs", *server, "--alter", "--user", "bob", "--add-config", f"{mechanism}=[password=bob-canary]")
        resources = ("--topic", "*", "--group", "*", "--cluster", "--transactional-id", "*")
        if isinstance(broker, SecureBroker):  # Apache Kafka's has no authorizer
            run_kt("acls", *server, "--add", "--allow-principal", "User:*", "--operation", "All", *resources)
        for title, (environment, pattern) in runs(broker).items():
            environ = {**os.environ, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": records, **environment}
            command = [program, "-test.run", pattern, "-test.v", "-test.timeout", "300s"]
            done = subprocess.run(command, cwd=package, env=environ, capture_output=True, text=True, check=False)
            is_good = is_good and done.returncode == 0
            lines = done.stdout.splitlines()
            shown = lines if done.returncode else [line for line in lines if line.startswith("---")]
            print(f"{title}: {'failed' if done.returncode else 'passed'}", *shown[-200:], sep="\n  ", flush=True)
        broker.broker.close() if isinstance(broker, SecureBroker) else broker.cluster.stop()
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
