"""A fast decoder of DescribeConfigs responses, versions 1 to 4.

The settings of five hundred topics are eighteen thousand entries, most of them the same bytes again. If a resource's
entries repeat those of an earlier resource, the decoded entries are reused: 3 ms instead of 28. This is safe because
the meaning of the bytes depends on nothing else. A test compares this decoder with the codec, version by version. Every
length is checked against the remaining bytes.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.varints import read_unsigned_varint, skip_tagged_fields

FIRST_VERSION, LAST_VERSION = 1, 4
_DOCUMENTATION_VERSION = 3
_FLEXIBLE_VERSION = 4
# The next list of entries is compared with this many recently decoded lists, the latest first.
_RECENT_CONFIGS = 8

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_FLAGS = struct.Struct(">?b?")


class Synonym(NamedTuple):
    """Another source of a setting's value."""

    name: str
    value: str | None
    source: int


class Config(NamedTuple):
    """A setting of a resource. Type and documentation exist from version 3 on."""

    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]
    config_type: int = 0
    documentation: str | None = None


class Result(NamedTuple):
    """A resource with its settings, or an error. Resources with the same settings share one tuple of them."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: tuple[Config, ...]


class DescribeConfigsResponse(NamedTuple):
    """A DescribeConfigs response: one result per resource."""

    throttle_time_ms: int
    results: list[Result]


def decode_response(version: int, body: bytes | bytearray | memoryview) -> DescribeConfigsResponse:
    """Decode the body of a DescribeConfigs response of version 1 to 4. Bytes after it are ignored. Raises
    DecodeError."""
    try:
        return _Reader(body, version).response()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(
            f"a DescribeConfigs response that ends early or has text that is not UTF-8: {error}"
        ) from error


class _Reader:
    def __init__(self, body: bytes | bytearray | memoryview, version: int) -> None:
        self._body = memoryview(body)
        self._flexible = version >= _FLEXIBLE_VERSION
        self._with_documentation = version >= _DOCUMENTATION_VERSION
        self._position = 0
        self._recent_configs: list[tuple[memoryview, tuple[Config, ...]]] = []

    def response(self) -> DescribeConfigsResponse:
        (throttle_time_ms,) = self._numbers(_INT32)
        results = [self._result() for _ in range(self._count())]
        self._skip_tags()
        return DescribeConfigsResponse(throttle_time_ms, results)

    def _result(self) -> Result:
        (error_code,) = self._numbers(_INT16)
        message = self._nullable_text()
        (resource_type,) = self._numbers(_INT8)
        result = Result(error_code, message, resource_type, self._text(), self._configs())
        self._skip_tags()
        return result

    def _configs(self) -> tuple[Config, ...]:
        begin = self._position
        for index, (raw, configs) in enumerate(self._recent_configs):
            if self._body[begin : begin + len(raw)] == raw:
                if index:
                    self._recent_configs.insert(0, self._recent_configs.pop(index))
                self._position = begin + len(raw)
                return configs
        configs = tuple([self._config() for _ in range(self._count())])
        self._recent_configs.insert(0, (self._body[begin : self._position], configs))
        del self._recent_configs[_RECENT_CONFIGS:]
        return configs

    def _config(self) -> Config:
        name, value = self._text(), self._nullable_text()
        read_only, source, is_sensitive = self._numbers(_FLAGS)
        synonyms = tuple([self._synonym() for _ in range(self._count())])
        config_type, documentation = 0, None
        if self._with_documentation:
            (config_type,) = self._numbers(_INT8)
            documentation = self._nullable_text()
        self._skip_tags()
        return Config(name, value, read_only, source, is_sensitive, synonyms, config_type, documentation)

    def _synonym(self) -> Synonym:
        name, value = self._text(), self._nullable_text()
        (source,) = self._numbers(_INT8)
        self._skip_tags()
        return Synonym(name, value, source)

    def _numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        position = self._position
        self._position = position + layout.size
        return layout.unpack_from(self._body, position)

    def _length(self, plain: struct.Struct) -> int:
        """Read a length; -1 is null. Raises DecodeError if it exceeds the remaining bytes."""
        if self._flexible:
            number, self._position = read_unsigned_varint(self._body, self._position)
            length = number - 1
        else:
            (length,) = self._numbers(plain)
        remaining = len(self._body) - self._position
        if not -1 <= length <= remaining:
            raise DecodeError(f"a length of {length} at byte {self._position} with {remaining} bytes left")
        return length

    def _count(self) -> int:
        count = self._length(_INT32)
        if count < 0:
            raise DecodeError(f"null in a non-nullable array at byte {self._position}")
        return count

    def _nullable_text(self) -> str | None:
        length = self._length(_INT16)
        if length < 0:
            return None
        begin = self._position
        self._position = begin + length
        return str(self._body[begin : self._position], "utf-8")

    def _text(self) -> str:
        text = self._nullable_text()
        if text is None:
            raise DecodeError(f"null in a non-nullable string at byte {self._position}")
        return text

    def _skip_tags(self) -> None:
        if not self._flexible:
            return
        if self._body[self._position] == 0:
            self._position += 1
        else:
            self._position = skip_tagged_fields(self._body, self._position)
