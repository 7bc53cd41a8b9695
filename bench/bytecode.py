"""Reading bytecode: operations per second, for one large entry and for the files that front ends write."""

from __future__ import annotations

from pathlib import Path

from .calibration import best

TARGET = 50_000
"""Operations per second that are aimed at, on a quiet machine."""

OPERATIONS = 4000
REPEATS = 200

EXAMPLE = Path(__file__).parent.parent / "examples" / "bytecode" / "matmul_f16.tileirbc"


def large_file(operations: int = OPERATIONS) -> bytes:
    """One entry of additions and multiplications, each of the two values before it."""
    tile = b"\x0d\x00\x02" + (64).to_bytes(8, "little") * 2
    types = [b"\x07", tile, b"\x0c\x00", b"\x0d\x02\x00", b"\x10\x01\x03\x00"]
    body = bytearray(b"\x10\x01\x00" * 2)
    for number in range(operations - 3):
        opcode = (0x02, 0x4C)[number % 2]
        body += bytes([opcode, 1, 0, 0]) + _varint(number + 1) + _varint(number + 2)
    body += b"\x5c\x00\x00"
    row = b"\x00\x04\x02\x00" + _varint(len(body)) + bytes(body)
    data = b"\x7fTileIR\0\x0d\x01\0\0"
    data += _section(2, b"\x01" + row, 8, len(data))
    data += _section(4, _table([b"\x04\0\0\x80\x3f"], 8), 8, len(data))
    data += _section(5, _table(types, 4), 4, len(data))
    data += _section(1, _table([b"large"], 4), 4, len(data))
    return data + b"\0"


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _table(items: list[bytes], width: int) -> bytes:
    out = _varint(len(items))
    out += b"\xcb" * (-len(out) % width)
    offset = 0
    for item in items:
        out += offset.to_bytes(width, "little")
        offset += len(item)
    return out + b"".join(items)


def _section(number: int, payload: bytes, alignment: int, at: int) -> bytes:
    header = bytes([number | 0x80]) + _varint(len(payload)) + _varint(alignment)
    return header + b"\xcb" * (-(at + len(header)) % alignment) + payload


def main() -> None:
    from tileiras.bytecode import read_module
    from tileiras.ir import verify

    print(f"bytecode (target {TARGET:,} operations/s)")
    large = large_file()
    verify(read_module(large))
    small = EXAMPLE.read_bytes()
    for name, data, repeats in (("one large entry", large, 1), (EXAMPLE.name, small, REPEATS)):
        count = sum(1 for _ in read_module(data).walk()) * repeats

        def read(data: bytes = data, repeats: int = repeats) -> None:
            for _ in range(repeats):
                read_module(data)

        print(f"  {name:<32} {count / best(read):>12,.0f} operations/s")


if __name__ == "__main__":
    main()
