"""Print the Homebrew formula for a source distribution: `make_formula.py kafkatools-1.2.0.tar.gz URL`."""

from __future__ import annotations

import hashlib
import pathlib
import re
import sys

TEMPLATE = pathlib.Path(__file__).parent / "kafkatools.rb.in"


def main(archive: pathlib.Path, url: str) -> None:
    """Fill the template in. The page of the project is what stands before /releases/ in the address."""
    version = archive.name.removeprefix("kafkatools-").removesuffix(".tar.gz")
    values = {
        "HOMEPAGE": url.partition("/releases/")[0],
        "URL": url,
        "VERSION": version,
        "SHA256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    if re.fullmatch(
        r"[0-9]+(\.[0-9]+)*", version
    ):  # Homebrew reads it from the address, and its audit refuses it twice
        text = text.replace('  version "@VERSION@"\n', "")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    print(text, end="")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2])
