"""Make one executable file of a directory from site_tree.py: `build_pyz.py TREE kt.pyz`.

The packages are an archive inside the archive. Python reads the directory of the outer one at every start, which takes
long with thousands of entries; it has three.
"""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import sys
import zipfile

LAUNCHER = pathlib.Path(__file__).parent / "pyz" / "__main__.py"
EPOCH = (1980, 1, 1, 0, 0, 0)


def main(tree: pathlib.Path, target: pathlib.Path) -> None:
    """Write the file. The same tree gives the same bytes."""
    packages = io.BytesIO()
    with zipfile.ZipFile(packages, "w") as archive:
        for path in sorted(path for path in (tree / "site").rglob("*") if path.is_file()):
            _add(archive, str(path.relative_to(tree / "site")), path.read_bytes(), zipfile.ZIP_DEFLATED)
    versions = (tree / "pythons").read_text().split()
    modules = sorted((tree / "site/kafkatools/core").glob("_cyutility.*"))
    suffixes = [path.name.removeprefix("_cyutility") for path in modules]
    system, machine = os.uname().sysname, os.uname().machine
    made_for = f"Python {', '.join(versions)} on {system} {machine}\n{machine} {' '.join(suffixes)}\n"
    build = hashlib.sha256(packages.getvalue() + LAUNCHER.read_bytes()).hexdigest()[:16]
    with target.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "a") as archive:
            _add(archive, "__main__.py", LAUNCHER.read_bytes(), zipfile.ZIP_STORED)
            _add(archive, "build", f"{build}\n{made_for}".encode(), zipfile.ZIP_STORED)
            _add(archive, "site.zip", packages.getvalue(), zipfile.ZIP_STORED)
    os.chmod(target, 0o755)


def _add(archive: zipfile.ZipFile, name: str, data: bytes, compression: int) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data, compression, 9)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
