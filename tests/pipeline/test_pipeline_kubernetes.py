"""Kubernetes on paper: the manifests of packaging/kubernetes and the pod that Spark makes of them match the schema of
Kubernetes, and the image's program starts what Spark asks for. No cluster runs them."""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

validation = pytest.importorskip("kubernetes_validate")
yaml = pytest.importorskip("yaml")
pyspark = pytest.importorskip("pyspark")

FILES = pathlib.Path(__file__).parents[2] / "packaging" / "kubernetes"
VERSION = "1.34"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def check(manifest: dict[str, Any]) -> None:
    """Raise an exception unless the manifest matches the schema, which knows no other fields."""
    validation.validate(manifest, VERSION, strict=True)


@pytest.mark.parametrize("name", ["pod.yaml", "reports.yaml", "rights.yaml"])
def test_manifests_match_the_schema(name: str) -> None:
    manifests = list(yaml.safe_load_all((FILES / name).read_text()))
    assert manifests
    for manifest in manifests:
        check(manifest)
        wrong = json.loads(json.dumps(manifest)) | {"specification": {}}
        with pytest.raises(validation.ValidationError):
            check(wrong)


class Server(http.server.BaseHTTPRequestHandler):
    """An API server that accepts each object and keeps it in `created`."""

    created: list[dict[str, Any]] = []
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.created.append(body)
        stored = body | {"metadata": body["metadata"] | {"uid": "1", "resourceVersion": "1"}}
        self._reply(201, stored)

    do_PATCH = do_PUT = do_POST

    def do_GET(self) -> None:
        self._reply(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})

    def _reply(self, code: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield f"k8s://http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join(10)


def test_spark_submits_a_driver_that_matches_the_schema(server: str, tmp_path: pathlib.Path) -> None:
    """With the command of docs/pipeline.md."""
    home = pathlib.Path(pyspark.__file__).parent
    template = FILES / "pod.yaml"
    settings = {
        "spark.kubernetes.namespace": "data",
        "spark.kubernetes.container.image": "registry/kafkatools-spark",
        "spark.kubernetes.authenticate.driver.serviceAccountName": "kafkatools-spark",
        "spark.kubernetes.driver.podTemplateFile": str(template),
        "spark.kubernetes.driver.podTemplateContainerName": "spark",
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.kubernetes.executor.podTemplateContainerName": "spark",
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.executor.instances": "4",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    job = ["local:///opt/kafkatools/kt.py", "pipeline", "count", "topic:orders", "--report-path", "/reports/orders"]
    environ = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "KUBECONFIG": str(tmp_path / "none"),
    }
    command = [
        f"{home}/bin/spark-submit",
        "--master",
        server,
        "--deploy-mode",
        "cluster",
        "--name",
        "orders",
        *words,
        *job,
    ]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kinds = {manifest["kind"]: manifest for manifest in Server.created}
    assert {"Pod", "ConfigMap", "Service"} <= set(kinds)
    for manifest in Server.created:
        check(manifest)
    pod = kinds["Pod"]["spec"]
    (container,) = pod["containers"]
    assert (container["name"], container["image"]) == ("spark", "registry/kafkatools-spark")
    assert container["args"][0] == "driver" and container["args"][-4:] == job[-4:]
    assert {"/reports", "/etc/kafkatools"} <= {mount["mountPath"] for mount in container["volumeMounts"]}
    assert pod["securityContext"]["runAsUser"] == 10001 and pod["serviceAccountName"] == "kafkatools-spark"


EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://driver:7078", "SPARK_EXECUTOR_ID": "1", "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1g", "SPARK_APPLICATION_ID": "app", "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
    "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "pod-1", "SPARK_HOME": "/opt/spark",
    "SPARK_JAVA_OPT_0": "-Dtext=a \"b\" \\c", "SPARK_JAVA_OPT_10": "-Xss4m",
}  # fmt: skip


def started(directory: pathlib.Path, *words: str) -> list[str]:
    """The words that the image's program passes to `java`, with its file of options resolved."""
    fake = directory / "java"
    fake.write_text('#!/bin/sh\ncase $1 in @*) cat "${1#@}"; shift ;; esac\nprintf "%s\\n" "$@"\n')
    fake.chmod(0o755)
    environ = {"PATH": f"{directory}:/usr/bin:/bin", "TMPDIR": str(directory), **EXECUTOR}
    done = subprocess.run([str(FILES / "entrypoint"), *words], env=environ, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_image_starts_an_executor_with_the_variables_of_spark(tmp_path: pathlib.Path) -> None:
    words = started(tmp_path, "executor")
    assert {'"-Dtext=a \\"b\\" \\\\c"', '"-Xss4m"'} == set(words[:2])
    assert words[2:6] == ["-Xms1g", "-Xmx1g", "-cp", "/opt/spark/conf:/opt/spark/jars/*"]
    assert words[6] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    assert dict(zip(words[7::2], words[8::2], strict=True)) == {
        "--driver-url": "spark://driver:7078", "--executor-id": "1", "--cores": "2", "--app-id": "app",
        "--hostname": "10.0.0.2", "--resourceProfileId": "0", "--podName": "pod-1",
    }  # fmt: skip


def test_the_image_runs_any_other_command(tmp_path: pathlib.Path) -> None:
    assert started(tmp_path, "echo", "kt") == ["kt"]
