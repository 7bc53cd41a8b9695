"""Modules that the reader makes of well-formed files, and the wording and places of its diagnostics for others."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from building import (  # noqa: E402
    F32,
    RETURN,
    STRING,
    TILE_F32X4,
    TILE_I32,
    TOKEN,
    build,
    function,
    section,
    varint,
)

import tileiras  # noqa: E402
from tileiras import bytecode  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.ir import BytecodeLoc, print_op, verify  # noqa: E402

SPLAT_1 = (1).to_bytes(4, "little")
ADDI = b"\x03" + varint(TILE_I32) + b"\x00"  # addi, result type, overflow none; operands follow


def entry(data, **named):
    """The first entry of a file, verified."""
    module = bytecode.read_module(data, "k.tileirbc", **named)
    verify(module)
    return module.regions[0].block.first


def text(data):
    return print_op(bytecode.read_module(data, "k.tileirbc"))


def refused(data):
    """The message and location with which a file is refused."""
    with pytest.raises(CompileError) as caught:
        bytecode.read_module(data, "k.tileirbc")
    assert caught.value.code == 3
    (diagnostic,) = caught.value.diagnostics
    assert isinstance(diagnostic.location, BytecodeLoc)
    return diagnostic


def body_of(data):
    return [op.name.partition(".")[2] for op in entry(data).regions[0].block.operations]


# ---- well-formed files -----------------------------------------------------------------------------------------------


def test_operands_count_arguments_first_and_then_results():
    op = entry(build(ADDI + b"\x00\x00" + ADDI + b"\x01\x00"))
    first, second, _ = op.regions[0].block.operations
    assert second.operands == (first.results[0], op.regions[0].block.arguments[0])


def test_operations_without_debug_info_have_an_offset():
    data = build(ADDI + b"\x00\x00")
    location = entry(data).regions[0].block.first.location
    assert (location.filename, location.section) == ("k.tileirbc", "function")
    assert data[location.offset] == 0x03


def test_debug_information_becomes_positions_in_the_source():
    file = b"\x02\x01\x02"
    unit = b"\x01\x01"
    subprogram = b"\x05\x01\x07\x00\x00\x02\x07"
    places = [b"\x04\x03\x03" + bytes([line, 4]) for line in (7, 9)]
    data = build(
        functions=[function(ADDI + b"\x00\x00" + RETURN, location=1)],
        strings=("kernel", "k.py", "src", "src/k.py"),
        debug=([[4, 5, 0]], [file, unit, subprogram, *places]),
    )
    op = entry(data)
    position = op.regions[0].block.first.location.resolve()
    # The file says 4: Python's columns count from 0.
    assert (position.filename, position.line, position.column) == ("src/k.py", 9, 5)
    assert op.location.resolve().line == 7


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(b"\xff", "true"), (b"\x00", "false"), (b"\x05", "[true, false, true, false]")],
)
def test_booleans_are_a_splat_byte_or_packed_bits(raw, expected):
    tile = b"\x0d\x00\x01" + (4).to_bytes(8, "little")
    data = build(b"\x10" + varint(7) + b"\x00", types=[tile], constants=[raw])
    assert f"constant <i1: {expected}>" in text(data)


def test_results_newer_than_the_file_exist_but_have_no_number():
    # print_tko returns a token since 13.2; in 13.1 the next operation's result still is value 1.
    printed = b"\x55\x00" + varint(1) + varint(1) + b"\x00"
    op = entry(build(printed + ADDI + b"\x00\x00" + ADDI + b"\x01\x01", strings=("kernel", "x %d")))
    first, second, third, _ = op.regions[0].block.operations
    assert first.results[0].type.name == "cuda_tile.token"
    assert third.operands == (second.results[0], second.results[0])


def test_attributes_newer_than_the_file_have_their_default():
    negi = b"\x50" + varint(TILE_I32)
    for version, overflow in (((13, 1, 0), b""), ((13, 2, 0), b"\x01")):
        (op, _) = entry(build(negi + overflow + b"\x00", version=version)).regions[0].block.operations
        assert op.overflow.value == ("no_signed_wrap" if overflow else "none")


def test_previews_are_announced_by_the_header():
    call = varint(0x4002) + b"\x00\x00\x01\x00\x00"  # no results, no flags, callee, no constants, no operands

    def read(tag):
        row = function(call + RETURN, hints=b"\x0b\x00\x06\x00")  # no hints, no attributes of arguments
        return build(functions=[row], strings=("kernel", "f"), version=(13, 5, tag))

    (op, _) = entry(read(1)).regions[0].block.operations
    assert op.name == "cuda_tile.preview$call" and op.callee.root == "f"
    assert "encountered public-preview opcode 16386 but the header does not advertise" in refused(read(0)).message


def test_only_the_named_entries_are_read():
    data = build(functions=[function(RETURN), function(b"\x7e", name=1)], strings=("good", "broken"))
    assert bytecode.entry_names(data) == ["good", "broken"]
    assert entry(data, entries={"good"}).sym_name.value == "good"
    assert "opcode 126" in refused(data).message


def test_globals_and_the_producer_are_read():
    row = varint(1) + varint(TILE_F32X4) + varint(0) + varint(16) + b"\x01" + b"\x01"
    data = build(
        version=(13, 3, 0), strings=("kernel", "table", "someone"), constants=[b"\0\0\x80\x3f"], global_rows=[row],
        producer=2,
    )  # fmt: skip
    module = bytecode.read_module(data)
    first = module.regions[0].block.first
    assert (first.sym_name.value, first.alignment.value, first.symbol_visibility.value) == ("table", 16, "private")
    assert first.constant is not None
    assert module.producer.value == "someone"


def test_the_order_of_sections_does_not_matter():
    strings = section(STRING, b"\x01" + b"\xcb" * 3 + bytes(4) + b"kernel", 4, 12)
    # Sections are aligned in the file, so the rest must move by a multiple of 8.
    strings += section(7, bytes(1) * (-(len(strings) + 2) % 8), 1, 0)
    rest = build()[12:]
    rest = rest[: rest.rindex(bytes([STRING | 0x80]))]
    assert bytecode.entry_names(build()[:12] + strings + rest + b"\0") == ["kernel"]


def test_a_newer_version_is_refused_with_its_unknown_sections():
    from tileiras.stages import units

    for extra, result in ((b"", "it has no section unknown here"), (b"\x09\x01\x00", "sections unknown here: 9"),
                        (b"\x09\x7f", "its sections are framed in another way")):  # fmt: skip
        data = build(version=(13, 6, 0))[:-1] + extra + b"\0"
        (note,) = refused(data).notes
        assert note.message == f"the file is of a newer version, 13.6; {result}; write it as 13.5 or older"
        with pytest.raises(CompileError) as caught:
            units.bytecode_version(data)
        assert caught.value.diagnostics[0].notes[0].message == note.message
    assert refused(build(version=(14, 0, 0))).notes == []


# ---- refused files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "section_name", "message"),
    [
        (b"", "", "invalid magic number at position 0, got 0 expected 127"),
        (b"ML\xefR\x01MLIR22\0", "", "got 77 expected 127 (it looks like MLIR bytecode instead)"),
        (build()[:10], "", "failed to read bytecode version: unexpected end of data"),
        (build(version=(13, 9, 0)), "", "unsupported Tile version 13.9.0, this reader supports versions [13.1 - 13.5]"),
        (build(version=(13, 1, 7)), "", "unsupported Tile version 13.1.7"),
        (build(version=(13, 4, 1)), "", "public-preview bytecode at version 13.4.1 is not readable; preview content is "
         "only valid at the current version 13.5"),
        (build()[:-1], "", "unexpected end of data while reading section header"),
        (build() + b"\0", "", "end section is not the last section"),
        (build()[:-1] + b"\x80", "", "end section should not have alignment flag set"),
        (build()[:-1] + b"\x09\x00\x00", "", "unknown section ID: 9"),
        (build()[:-1] + b"\x07\x7f\x00", "", "section length 127 exceeds remaining data size 1"),
        (build()[:12] + b"\0", "", "string section is mandatory"),
        (build()[:12] + section(STRING, b"\x00", 4, 12) + b"\0", "", "function section is mandatory"),
        (build()[:12] + section(STRING, b"\x00", 1, 12) + b"\0", "", "section 1 must have alignment"),
        (build()[:12] + b"\x81\x01\x03\x00\x00", "", "invalid alignment value: 3"),
    ],
)
def test_a_broken_frame_is_refused(data, section_name, message):
    diagnostic = refused(data)
    assert message in diagnostic.message
    assert diagnostic.location.section == section_name


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\x19", "unknown or unimplemented opcode: 25"),
        (b"\x6e", "unsupported opcode 110 for bytecode version 13.1"),
        (b"\x83\x00", "non-canonical VarInt"),
        (b"\xff" * 11, "VarInt longer than 64 bits"),
        (ADDI + b"\x00\x07", "operand index 7 out of bounds (size=1) for addi"),
        (b"\x03" + varint(TILE_I32) + b"\x04\x00\x00", "invalid integer value for enum type: 4"),
        (b"\x03\x63\x00\x00\x00", "type index 99 out of bounds"),
        (b"\x02" + varint(TILE_F32X4) + b"\x02\x00\x00\x00", "unknown flags 0x2 for addf"),
        (b"\x06" + varint(TILE_I32) + b"\x1f\x00", "unsupported AttributeTag 31 for self-contained attribute"),
        (b"\x10" + varint(TILE_I32) + b"\x00", "constant index 0 out of bounds"),
        (b"\x32\x00\x00\x01", "cuda_tile.if op expected 2 regions, got 1"),
        (b"\x44" + varint(TOKEN) + b"\x55\x01" + varint(TOKEN), "result count mismatch for print_tko"),
    ],
)
def test_a_broken_operation_is_refused_in_the_function_section(body, message):
    diagnostic = refused(build(body))
    assert message in diagnostic.message
    assert diagnostic.location.section == "function"


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([b"\x13"], "type 'Float4E2M1FN' requires bytecode version 13.3+, file version is 13.1"),
        ([b"\x12"], "type 'Float8E8M0FNU' requires bytecode version 13.2+, file version is 13.1"),
        ([b"\x63"], "unknown type tag: 99"),
        ([b"\x0c\x07"], "type 7 contains itself"),
        ([b"\x07\x00"], "1 bytes are left over after type 7"),
        ([b"\x0d\x02\x01" + (3).to_bytes(8, "little")], "all dimensions must be powers of two, got 3"),
    ],
)
def test_a_broken_type_is_refused_where_it_stands(types, message):
    diagnostic = refused(build(b"\x03" + varint(7) + b"\x00\x00\x00", types=types))
    assert message in diagnostic.message
    assert diagnostic.location.section in ("type", "function")


def test_parameters_impossible_in_a_launch_are_refused_later():
    takes_a_token = b"\x10\x01" + varint(TOKEN) + b"\x00"
    data = build(types=[takes_a_token], functions=[function(RETURN, signature=TOKEN + 1)])
    assert str(entry(data).body.block.arguments[0].type) == "!cuda_tile.token"
    with pytest.raises(CompileError) as refusal:
        tileiras.compile(data, gpu_name="sm_90")
    assert refusal.value.code == 5
    assert "entry argument #0 has type '!cuda_tile.token'" in refusal.value.diagnostics[0].message


def test_counts_are_checked_before_anything_is_allocated():
    huge = varint(2**40)
    assert "exceeds the maximum" in refused(build(b"\x5c\x00" + huge)).message


def test_deep_nesting_is_refused_before_it_exhausts_the_stack():
    nested = b"\x41\x00\x00\x01\x01\x00\x01"  # loop: no results, no operands, one region, one block, one operation
    assert "nested more than 100 deep" in refused(build(nested * 5000)).message


def test_lines_and_columns_have_32_bits():
    file, unit = b"\x02\x01\x02", b"\x01\x01"
    subprogram = b"\x05\x01" + varint(2**32 + 7) + b"\x00\x00\x02\x00"
    entries = [file, unit, subprogram, b"\x04\x03\x01" + varint(2**32 + 5) + varint(2**33 + 6)]
    data = build(
        functions=[function(RETURN, location=1)], strings=("kernel", "k.py", "src"), debug=([[4, 4]], entries)
    )
    located = entry(data).body.block.first.location
    assert (located.source.line, located.source.column, located.scope.line) == (5, 6, 7)


def test_a_location_without_a_debug_section_is_refused():
    data = build(functions=[function(RETURN, location=1)])
    assert refused(data).message == "failed to read function location for 'kernel'"


def test_a_cycle_of_scopes_is_refused():
    block = b"\x03\x01\x02\x01\x01"
    data = build(
        functions=[function(RETURN, location=1)],
        strings=("kernel", "k.py", "src"),
        debug=([[3, 0]], [block, b"\x02\x01\x02", b"\x04\x01\x01\x01\x01"]),
    )
    assert "contains itself" in refused(data).message


def test_every_truncation_of_a_file_is_refused():
    data = build(ADDI + b"\x00\x00", strings=("kernel", "k.py"), constants=[SPLAT_1], debug=([[0, 0, 0]], [b"\0"]))
    assert body_of(data) == ["addi", "return"]
    for size in range(len(data)):
        assert re.match(r"\w", refused(data[:size]).message)


def test_a_float_may_use_every_bit():
    # The identity of a reduction is a zigzag integer of the bit pattern.
    reduce = b"\x58\x01" + varint(7) + b"\x00\x01" + b"\x02" + varint(F32) + varint(0xFF800000 << 1) + b"\x01\x01"
    region = b"\x01\x01\x02" + varint(8) * 2 + b"\x02" + b"\x02" + varint(8) + b"\x00\x00\x02\x03"
    region += b"\x6d\x00\x01\x04"
    scalar = b"\x0d\x02\x00"
    constant = b"\x10" + varint(TILE_F32X4) + b"\x00"
    data = build(constant + reduce + region, types=[scalar, scalar], constants=[b"\0\0\x80\x3f"])
    assert "identities=[0xFF800000 : f32]" in text(data)


def test_bits_beyond_those_of_an_element_do_not_count():
    tile = b"\x0d" + varint(7) + b"\x01" + (2).to_bytes(8, "little")
    constant = b"\x10" + varint(8) + b"\x00"
    data = build(constant, types=[b"\x13", tile], constants=[b"\x82\x04"], version=(13, 3, 0))
    assert "constant <f4E2M1FN: [1.000000e+00, 2.000000e+00]>" in text(data)
