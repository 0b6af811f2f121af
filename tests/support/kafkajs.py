"""kafkajs for the tests of other people's clients, fetched once with npm into the user's cache."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess

from support.apache_kafka import CACHE, Unavailable

VERSION = "2.2.4"


def node_modules() -> str:
    """The directory that has kafkajs, for NODE_PATH (KT_CLIENTS_NODE_MODULES overrides); raises Unavailable."""
    given = os.environ.get("KT_CLIENTS_NODE_MODULES")
    home = CACHE / f"kafkajs-{VERSION}"
    modules = pathlib.Path(given) if given else home / "node_modules"
    if not shutil.which("node"):
        raise Unavailable("Node.js was not found: install it (Debian: apt-get install nodejs npm)")
    if not (modules / "kafkajs").is_dir():
        npm = shutil.which("npm")
        if npm is None:
            raise Unavailable("npm was not found: install it (Debian: apt-get install npm)")
        home.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(home), f"kafkajs@{VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"npm could not fetch kafkajs {VERSION}: {done.stderr[-500:]}")
    return str(modules)


if __name__ == "__main__":  # before the tests, of which several may want it at once
    with contextlib.suppress(Unavailable):
        node_modules()
