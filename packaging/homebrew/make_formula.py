"""Print the Homebrew formula for a source distribution: `make_formula.py kafkatools-1.2.0.tar.gz URL`."""

from __future__ import annotations

import hashlib
import pathlib
import sys

TEMPLATE = pathlib.Path(__file__).parent / "kafkatools.rb.in"


def main(archive: pathlib.Path, url: str) -> None:
    """Fill the template in. The page of the project is what stands before /releases/ in the address."""
    values = {
        "HOMEPAGE": url.partition("/releases/")[0],
        "URL": url,
        "VERSION": archive.name.removeprefix("kafkatools-").removesuffix(".tar.gz"),
        "SHA256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    print(text, end="")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2])
