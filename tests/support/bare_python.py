"""A Python of an executor that has what Spark needs, and not this package."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from importlib.metadata import distribution

SPARKS = ("numpy", "pandas", "pyarrow", "python-dateutil", "six", "tzdata", "pytz")


def bare_python(directory: pathlib.Path, *more: str) -> str:
    """Make a virtual environment whose packages are links to those here: Spark's, and the distributions `more`. Return
    the path of its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    (packages,) = directory.glob("lib/python3*/site-packages")
    for name in (*SPARKS, *more):
        try:
            files = distribution(name).files or ()
        except ModuleNotFoundError:
            continue
        for top in {file.parts[0] for file in files if ".." not in file.parts and not file.parts[0].endswith(".pyc")}:
            source = pathlib.Path(str(distribution(name).locate_file(top)))
            if source.exists() and not (packages / top).exists():
                (packages / top).symlink_to(source)
    return str(directory / "bin" / "python")
