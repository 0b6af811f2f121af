"""XXH3 with 64 bits and seed 0, the hash of a topic in group metadata (hash4j, Utils.computeTopicHash).

Plain Python is fast enough: a topic is hashed only when its partitions change. Source: XXH3 specification (xxHash 0.8).
"""

from __future__ import annotations

from struct import Struct

_MASK = 0xFFFFFFFFFFFFFFFF
_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1, _PRIME64_2, _PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME64_4, _PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_PRIME_MX1, _PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE, _ACC_LANES = 64, 8
_STRIPES_PER_BLOCK = (len(_SECRET) - _STRIPE) // 8
_U32, _U64, _LANES = Struct("<I"), Struct("<Q"), Struct("<8Q")
_MIDSIZE_MAX, _SMALL_MAX, _MEDIUM_MAX = 240, 16, 128


def xxh3_64(data: bytes) -> int:
    """Hash bytes with XXH3, seed 0; returns an unsigned 64-bit number."""
    if len(data) <= _SMALL_MAX:
        return _small(data)
    if len(data) <= _MEDIUM_MAX:
        return _medium(data)
    return _midsize(data) if len(data) <= _MIDSIZE_MAX else _long(data)


def _u32(data: bytes, position: int) -> int:
    return int(_U32.unpack_from(data, position)[0])


def _u64(data: bytes, position: int) -> int:
    return int(_U64.unpack_from(data, position)[0])


def _fold(left: int, right: int) -> int:
    product = left * right
    return (product ^ product >> 64) & _MASK


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _PRIME_MX1 & _MASK
    return value ^ value >> 32


def _avalanche_64(value: int) -> int:
    value = (value ^ value >> 33) * _PRIME64_2 & _MASK
    value = (value ^ value >> 29) * _PRIME64_3 & _MASK
    return value ^ value >> 32


def _small(data: bytes) -> int:
    length = len(data)
    if length > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, length - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((length + swapped + high + _fold(low, high)) & _MASK)
    if length >= 4:
        value = _u32(data, length - 4) + (_u32(data, 0) << 32)
        value ^= _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        value ^= ((value << 49 | value >> 15) ^ (value << 24 | value >> 40)) & _MASK
        value = value * _PRIME_MX2 & _MASK
        value ^= (value >> 35) + length
        value = value * _PRIME_MX2 & _MASK
        return value ^ value >> 28
    if length:
        combined = data[0] << 16 | data[length >> 1] << 24 | data[-1] | length << 8
        return _avalanche_64(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _avalanche_64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _mix(data: bytes, position: int, secret: int) -> int:
    return _fold(_u64(data, position) ^ _u64(_SECRET, secret), _u64(data, position + 8) ^ _u64(_SECRET, secret + 8))


def _medium(data: bytes) -> int:
    length = len(data)
    value = length * _PRIME64_1
    for pair in range((length - 1) // 32, -1, -1):
        value += _mix(data, 16 * pair, 32 * pair) + _mix(data, length - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(value & _MASK)


def _midsize(data: bytes) -> int:
    length = len(data)
    value = length * _PRIME64_1
    for index in range(8):
        value += _mix(data, 16 * index, 16 * index)
    value = _avalanche(value & _MASK)
    for index in range(8, length // 16):
        value += _mix(data, 16 * index, 16 * (index - 8) + 3)
    value += _mix(data, length - 16, 136 - 17)
    return _avalanche(value & _MASK)


def _accumulate(lanes: list[int], data: bytes, position: int, secret: int) -> None:
    values, keys = _LANES.unpack_from(data, position), _LANES.unpack_from(_SECRET, secret)
    for index in range(_ACC_LANES):
        keyed = values[index] ^ keys[index]
        lanes[index ^ 1] = (lanes[index ^ 1] + values[index]) & _MASK
        lanes[index] = (lanes[index] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _MASK


def _scramble(lanes: list[int]) -> None:
    keys = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    for index in range(_ACC_LANES):
        value = lanes[index]
        lanes[index] = (value ^ value >> 47 ^ keys[index]) * _PRIME32_1 & _MASK


def _long(data: bytes) -> int:
    lanes = [_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1]
    length = len(data)
    for stripe in range((length - 1) // _STRIPE):
        _accumulate(lanes, data, stripe * _STRIPE, stripe % _STRIPES_PER_BLOCK * 8)
        if stripe % _STRIPES_PER_BLOCK == _STRIPES_PER_BLOCK - 1:
            _scramble(lanes)
    _accumulate(lanes, data, length - _STRIPE, len(_SECRET) - _STRIPE - 7)
    value = length * _PRIME64_1
    for pair in range(4):
        low = lanes[2 * pair] ^ _u64(_SECRET, 11 + 16 * pair)
        high = lanes[2 * pair + 1] ^ _u64(_SECRET, 19 + 16 * pair)
        value += _fold(low, high)
    return _avalanche(value & _MASK)
