"""Writes small bytecode files from their parts, right or wrong, for the reader's tests."""

MAGIC = b"\x7fTileIR\x00"
STRING, FUNCTION, DEBUG, CONSTANT, TYPE, GLOBAL, PRODUCER = range(1, 8)

# Numbers of the types that every file built here starts with.
I1, I32, F32, TILE_I32, TILE_F32X4, ENTRY, TOKEN = range(7)
BASE_TYPES = [
    b"\x00",
    b"\x03",
    b"\x07",
    b"\x0d\x01\x00",  # tile<i32>
    b"\x0d\x02\x01" + (4).to_bytes(8, "little"),  # tile<4xf32>
    b"\x10\x01\x03\x00",  # (tile<i32>) -> ()
    b"\x11",
]
RETURN = b"\x5c\x00\x00"


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def pad(data, alignment):
    return data + b"\xcb" * (-len(data) % alignment)


def table(items, width):
    out = pad(varint(len(items)), width)
    offset = 0
    for item in items:
        out += offset.to_bytes(width, "little")
        offset += len(item)
    return out + b"".join(items)


def section(number, payload, alignment, at):
    """`payload` as a section that begins at offset `at` of the file."""
    header = bytes([number | (0x80 if alignment > 1 else 0)]) + varint(len(payload))
    if alignment > 1:
        header += varint(alignment)
        header += b"\xcb" * (-(at + len(header)) % alignment)
    return header + payload


def function(body, name=0, signature=ENTRY, flags=2, location=0, hints=b""):
    return varint(name) + varint(signature) + bytes([flags]) + varint(location) + hints + varint(len(body)) + body


def build(
    *bodies,
    version=(13, 1, 0),
    types=(),
    strings=("kernel",),
    constants=(),
    functions=None,
    global_rows=None,
    debug=None,
    producer=None,
):
    """One function per body (which gets its `return`), or the given rows of the function table."""
    if functions is None:
        functions = [function(body + RETURN) for body in bodies or (b"",)]
    data = MAGIC + bytes([version[0], version[1], version[2] & 0xFF, version[2] >> 8])
    data += section(FUNCTION, varint(len(functions)) + b"".join(functions), 8, len(data))
    if global_rows is not None:
        data += section(GLOBAL, varint(len(global_rows)) + b"".join(global_rows), 1, len(data))
    if constants:
        data += section(CONSTANT, table([varint(len(c)) + c for c in constants], 8), 8, len(data))
    if debug is not None:
        data += section(DEBUG, debug_info(*debug), 8, len(data))
    if producer is not None:
        data += section(PRODUCER, varint(producer), 1, len(data))
    data += section(TYPE, table([*BASE_TYPES, *types], 4), 4, len(data))
    data += section(STRING, table([s.encode() for s in strings], 4), 4, len(data))
    return data + b"\0"


def debug_info(per_function, entries):
    out = pad(varint(len(per_function)), 4)
    start = 0
    for indices in per_function:
        out += start.to_bytes(4, "little")
        start += len(indices)
    out = pad(out + varint(start), 8)
    for indices in per_function:
        for index in indices:
            out += index.to_bytes(8, "little")
    # The reader aligns from the start of the section.
    out = pad(out + varint(len(entries)), 4)
    offset = 0
    for entry in entries:
        out += offset.to_bytes(4, "little")
        offset += len(entry)
    return out + b"".join(entries)
