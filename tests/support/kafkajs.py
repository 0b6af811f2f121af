"""kafkajs for the tests of other people's clients: its archive, fetched once into the user's cache.

It depends on no other package, so npm, which not every installation of Node.js has, is not needed. A registry other
than the public one is named in npm's own variable NPM_CONFIG_REGISTRY.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import os
import pathlib
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request

from support.apache_kafka import CACHE, Unavailable

VERSION = "2.2.4"
SHA512 = "j/YeapB1vfPT2iOIUn/vxdyKEuhuY2PxMBvf5JWux6iSaukAccrMtXEY/Lb7OvavDhOWME589bpLrEdnVHjfjA=="
REGISTRY = "https://registry.npmjs.org"


def node_modules() -> str:
    """The directory that has kafkajs, for NODE_PATH (KT_CLIENTS_NODE_MODULES overrides); raises Unavailable."""
    given = os.environ.get("KT_CLIENTS_NODE_MODULES")
    modules = pathlib.Path(given) if given else CACHE / f"kafkajs-{VERSION}" / "node_modules"
    if not shutil.which("node"):
        raise Unavailable("Node.js was not found: install it (Debian: apt-get install nodejs)")
    if not (modules / "kafkajs").is_dir():
        _unpack(_archive(), modules)
    return str(modules)


def _archive() -> bytes:
    registry = os.environ.get("NPM_CONFIG_REGISTRY") or REGISTRY
    url = f"{registry.rstrip('/')}/kafkajs/-/kafkajs-{VERSION}.tgz"
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            archive: bytes = response.read()
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise Unavailable(f"kafkajs {VERSION} could not be fetched from {url}: {error}") from None
    if hashlib.sha512(archive).digest() != base64.b64decode(SHA512):
        raise Unavailable(f"{url} is not kafkajs {VERSION}: its SHA-512 digest differs from {SHA512}")
    return archive


def _unpack(archive: bytes, modules: pathlib.Path) -> None:
    modules.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=modules) as directory:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            if hasattr(tarfile, "data_filter"):  # not in Python 3.11.2; the digest is the proof
                tar.extraction_filter = tarfile.data_filter
            tar.extractall(directory)
        with contextlib.suppress(OSError):  # another process was faster
            (pathlib.Path(directory) / "package").rename(modules / "kafkajs")
    if not (modules / "kafkajs").is_dir():
        raise Unavailable(f"kafkajs {VERSION} could not be unpacked into {modules}")


if __name__ == "__main__":  # before the tests, of which several may want it at once
    with contextlib.suppress(Unavailable):
        node_modules()
