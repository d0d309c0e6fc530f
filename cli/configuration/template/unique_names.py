"""
Makes the names that ARM's functions guid() and uniqueString() derive from texts.

Azure documents neither. Source: what Microsoft's Bicep compiler answers for the same texts.
"""

from __future__ import annotations

import base64
import struct
import uuid

_NAMESPACE = uuid.UUID("11fb06fb-712d-4ddd-98c7-e71bbd588830")
_BLOCK = struct.Struct("<II")
_ONE, _OTHER = 0x239B961B, 0xAB0E9789  # multipliers of MurmurHash3's variant x86_128
_LENGTH = 13  # characters that hold 64 bits


def guid(*texts: str) -> str:
    """Return the UUID of *texts*, such as ``7b8e0df1-…``: version 5, of all joined by ``-``."""
    return str(uuid.uuid5(_NAMESPACE, "-".join(texts)))


def unique_string(*texts: str) -> str:
    """Return 13 lower-case letters and digits of *texts*: the Base32 of their 64-bit hash."""
    digest = _hash("-".join(texts).encode())
    return base64.b32encode(digest).decode().lower()[:_LENGTH]


def _hash(data: bytes) -> bytes:
    """Return the hash of *data*: MurmurHash3 with two lanes of 32 bits instead of four."""
    one = other = 0
    whole = len(data) - len(data) % _BLOCK.size
    for block in _BLOCK.iter_unpack(data[:whole]):
        first, second = _scrambled(*block)
        one = _bits((_rotated(one ^ first, 19) + other) * 5 + 0x561CCD1B)
        other = _bits((_rotated(other ^ second, 13) + one) * 5 + 0x0BCAA747)
    first, second = _scrambled(*_BLOCK.unpack(data[whole:].ljust(_BLOCK.size, b"\0")))
    other ^= second ^ len(data)
    one = _bits((one ^ first ^ len(data)) + other)
    one, other = _avalanched(one), _avalanched(_bits(other + one))
    one = _bits(one + other)
    return struct.pack(">II", _bits(other + one), one)


def _scrambled(first: int, second: int) -> tuple[int, int]:
    return (
        _bits(_rotated(_bits(first * _ONE), 15) * _OTHER),
        _bits(_rotated(_bits(second * _OTHER), 17) * _ONE),
    )


def _avalanched(lane: int) -> int:
    lane = _bits((lane ^ lane >> 16) * 0x85EBCA6B)
    lane = _bits((lane ^ lane >> 13) * 0xC2B2AE35)
    return lane ^ lane >> 16


def _rotated(lane: int, bits: int) -> int:
    return _bits(lane << bits | lane >> 32 - bits)


def _bits(number: int) -> int:
    """Return the lowest 32 bits."""
    return number & 0xFFFFFFFF
