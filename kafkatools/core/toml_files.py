"""Read TOML files."""

from __future__ import annotations

from typing import Any


def read_toml(path: str) -> dict[str, Any]:
    """Parse a TOML file. Raises ValueError that names the file and the problem if it cannot be read or parsed."""
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.loads(file.read().decode("utf-8-sig"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
