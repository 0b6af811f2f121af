"""The program of franz-go for the tests of other people's clients: built once into the user's cache."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess

from support.apache_kafka import CACHE, Unavailable

SOURCE = pathlib.Path(__file__).parents[1] / "history" / "clients" / "franz"


def executable() -> str:
    """The path of the program; raises Unavailable when there is no Go, or its modules cannot be fetched."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCE.iterdir()))).hexdigest()
    built = CACHE / f"franz-{digest[:16]}"
    if not built.exists():
        go = shutil.which("go")
        if go is None:
            raise Unavailable("Go was not found: install it (Debian: apt-get install golang-go)")
        CACHE.mkdir(parents=True, exist_ok=True)
        made = CACHE / f"{built.name}.{os.getpid()}"
        command = [go, "build", "-gcflags=all=-l", "-o", str(made), "."]  # inlining takes a third of the time
        done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"the program of franz-go was not built: {done.stderr[-500:]}")
        made.replace(built)
    return str(built)
