"""Masks and depth: numbers that must come through as the files have them."""

from __future__ import annotations

import struct
import warnings
import zlib

import numpy
import pytest

import stoker


def png(samples: numpy.ndarray, bits: int, kind: int, palette: bytes = b"") -> bytes:
    """A PNG of (height, width, channels) samples of 8 or 16 bits, without filters."""
    height, width, _ = samples.shape
    rows = samples.astype(">u2" if bits == 16 else "u1").reshape(height, -1)
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    head = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    chunks = [(b"IHDR", head), *([(b"PLTE", palette)] if palette else []), (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content)) for name, content in chunks
    )


NUMBERS = numpy.arange(48).reshape(6, 8, 1) % 21
PALETTE = bytes(v for i in range(256) for v in (i * 10 % 256, 255 - i, i))
MASK = png(NUMBERS, 8, 3, PALETTE)
DEPTH = png(NUMBERS * 1000 + 7, 16, 0)


def one(data: bytes, **options: object) -> numpy.ndarray:
    return stoker.source([{"m": data}]).decode_image("m", **options).batch(1, pad=True).first()["m"][0]  # type: ignore[arg-type]


def test_class_numbers_of_a_palette() -> None:
    found = one(MASK, mode="index")
    assert found.dtype == numpy.uint8 and found.shape == (6, 8, 1)
    assert (found == NUMBERS).all()
    assert one(MASK).shape == (6, 8, 3)
    with pytest.raises(stoker.InvalidError, match="mode=index .* mode=color"):
        one(MASK, channels=1)


def test_depth_of_16_bits() -> None:
    found = one(DEPTH, channels=1, dtype="uint16")
    assert found.dtype == numpy.uint16
    assert (found == NUMBERS * 1000 + 7).all()
    with pytest.raises(stoker.InvalidError, match="dtype=uint16 .* dtype=uint8"):
        one(DEPTH, channels=1)
    assert (one(DEPTH, channels=1, dtype="uint8") == (NUMBERS * 1000 + 7) >> 8).all()


def test_masks_are_not_mixed() -> None:
    pipe = stoker.source([{"m": MASK}]).decode_image("m", mode="index")
    with pytest.raises(stoker.InvalidError, match="say filter=nearest"):
        pipe.resize("m", 3, 4).batch(1).first()
    assert (pipe.resize("m", 3, 4, filter="nearest").batch(1).first()["m"][0] == NUMBERS[1::2, 1::2]).all()


def test_a_cut_of_colours_is_told_once() -> None:
    photo = png(numpy.repeat(NUMBERS * 1000, 3, 2), 16, 2)
    pipe = stoker.source([{"m": photo}] * 4).decode_image("m").batch(2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert sum(1 for _ in pipe) == 2
    assert [str(w.message) for w in told if "16 bits" in str(w.message)] == [
        "decode_image: field 'm' has a PNG of 16 bits of colour, of which the high 8 are kept; dtype=uint16 keeps all, "
        "dtype=uint8 says that 8 are meant"
    ]
