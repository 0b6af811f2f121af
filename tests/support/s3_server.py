"""S3 in this process, served by moto."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import pytest


class S3Server(NamedTuple):
    """Its address, and the variables of the environment that name it and its credentials."""

    endpoint: str
    environ: dict[str, str]


@contextlib.contextmanager
def s3_server(bucket: str) -> Iterator[S3Server]:
    """A server with an empty bucket; skips without moto or boto3."""
    boto3, moto = pytest.importorskip("boto3"), pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    environ = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
    }
    try:
        with pytest.MonkeyPatch.context() as patched:
            for name, value in environ.items():
                patched.setenv(name, value)
            boto3.client("s3").create_bucket(Bucket=bucket)
        yield S3Server(endpoint, environ)
    finally:
        server.stop()
