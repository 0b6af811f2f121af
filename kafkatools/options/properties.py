"""Read Java's .properties files, by `core/java/properties_text.py`. The encoding is UTF-8, unlike Kafka's
Utils.loadProps, and ISO-8859-1 (Kafka's) for files that are not valid UTF-8. A byte order mark, as editors of Windows
write it, is ignored.
"""

from __future__ import annotations

from kafkatools.exit_status import CommandError
from kafkatools.options.secret_files import warn_if_others_can_read, warn_if_others_can_read_keys


def read_properties(path: str) -> dict[str, str]:
    """Return a file's settings; log a warning when every user can read secrets or private keys in it or named by it.
    Raises CommandError when the file cannot be read or has a malformed escape."""
    data = read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    settings = parse_properties(text, path)
    warn_if_others_can_read(path, settings)
    warn_if_others_can_read_keys(settings)
    return settings


def read_bytes(path: str) -> bytes:
    """Return the content of a properties file. Raises CommandError when the file cannot be read, and for UTF-16, in
    which no line would be a known setting."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        name = path or "''"
        raise CommandError(f"{name}: no such properties file") from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CommandError(f"{path}: the file is UTF-16 text", hint="Save it as UTF-8.")
    return data


def parse_properties(text: str, path: str = "properties") -> dict[str, str]:
    r"""Return a text's settings; a key's last line wins. Raises CommandError for a malformed \u escape."""
    from kafkatools.core.java import properties_text  # the help needs nothing of core

    try:
        return properties_text.parse_properties(text)
    except properties_text.MalformedEscape as error:
        raise CommandError(f"{path}: {error}") from None
