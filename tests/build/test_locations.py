import random

import pytest

from tileiras.diagnostics import Diagnostic, Severity
from tileiras.dialects.cuda_tile import DICompileUnitAttr, DIFileAttr, DILoc, DISubprogramAttr
from tileiras.ir import UNKNOWN_LOC, BytecodeLoc, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from tileiras.stages.locations import (
    LocationEncoder,
    LocationTable,
    OpLoc,
    decode,
    decode_diagnostics,
    encode_diagnostics,
)

HERE = FileLineColLoc("k.mlir", 12, 3)
THERE = FileLineColLoc("lib/other.py", 4, 1)
FILE = DIFileAttr("k.mlir", 'a "folder"')
SCOPE = DISubprogramAttr(FILE, 3, "k", "k", DICompileUnitAttr(FILE), 4)


@pytest.mark.parametrize(
    "location, text",
    [
        (UNKNOWN_LOC, "-"),
        (HERE, "f0:12:3"),
        (THERE, "f1:4:1"),
        (NameLoc("value", HERE), "f0:12:3"),
        (FusedLoc((HERE, UNKNOWN_LOC, THERE)), "f0:12:3,f1:4:1"),
        (CallSiteLoc(THERE, HERE), "f1:4:1@f0:12:3"),
        (CallSiteLoc(UNKNOWN_LOC, HERE), "-@f0:12:3"),
        (CallSiteLoc(UNKNOWN_LOC, UNKNOWN_LOC), "-"),
        (CallSiteLoc(CallSiteLoc(THERE, HERE), THERE), "f1:4:1@f0:12:3@f1:4:1"),
        (FusedLoc((CallSiteLoc(THERE, HERE), FusedLoc((HERE, THERE)))), "(f1:4:1@f0:12:3),f0:12:3,f1:4:1"),
        (DILoc(HERE, SCOPE), "f0:12:3/0"),
        (CallSiteLoc(DILoc(THERE, SCOPE), DILoc(HERE, SCOPE)), "f1:4:1/0@f0:12:3/0"),
        (BytecodeLoc("k.mlir", "Func", 184), "bFunc:184"),
    ],
)
def test_a_location_is_written_and_read_back(location, text):
    encoder = LocationEncoder("k.mlir")
    assert encoder.encode(location) == text
    back = decode(text, encoder.files, "k.mlir", None, encoder.scopes)
    assert back.resolve() == location.resolve()
    assert LocationEncoder("k.mlir").encode(back) == text


def test_numbers_map_through_tables_to_the_present_source():
    def resolved(line: int):
        read = LocationTable(["-", f"f0:{line}:5"], source_name="k.mlir")
        tileaa = LocationTable(["-", "1", "0,1"], parent=read, source_name="k.mlir")
        return OpLoc(tileaa, 2).resolve()

    assert resolved(7)[:3] == ("k.mlir", 7, 5)
    assert resolved(19)[:3] == ("k.mlir", 19, 5)


def test_a_table_survives_its_file():
    table = LocationTable(["-", "f1:4:1/0"], ["lib/other.py"], unit=1, scopes=[str(SCOPE)])
    back = LocationTable.from_bytes(table.to_bytes(), source_name="k.mlir")
    assert (list(back.rows), list(back.files), back.unit) == (["-", "f1:4:1/0"], ["lib/other.py"], 1)
    assert back.location(1) == DILoc(THERE, SCOPE)
    assert back.unit_location.resolve()[:2] == ("lib/other.py", 4)


@pytest.mark.parametrize("data", [b"", b"tileiras-loc 9 0\n-\n", b"something else\n"])
def test_a_foreign_file_is_refused(data):
    with pytest.raises(ValueError):
        LocationTable.from_bytes(data)


def test_stored_diagnostics_are_relocated_to_the_present_source():
    before = LocationTable(["-", "f0:7:5"], source_name="k.mlir")
    note = Diagnostic.note(OpLoc(before, 1), "defined here")
    stored = encode_diagnostics([Diagnostic(Severity.WARNING, OpLoc(before, 1), "slow", [note])], "k.mlir")
    after = LocationTable(["-", "f0:9:5"], source_name="k.mlir")
    (result,) = decode_diagnostics(stored, "k.mlir", after)
    assert str(result) == "k.mlir:9:5: warning: slow"
    assert str(result.notes[0]) == "k.mlir:9:5: note: defined here"


@pytest.mark.parametrize("seed", range(3))
def test_an_invalid_row_is_an_unknown_location(seed):
    """The table is damaged, or invented by a server."""
    choice = random.Random(seed)
    parts = ["f0:1:1", "f9:1:1", "f0:1", "/0", "/1", "/7", *"@,()-xb", "12", "bFunc:3", "", "\udcff"]
    rows = ["".join(choice.choices(parts, k=choice.randrange(6))) for _ in range(2000)]
    rows += ["(" * 5000 + ")" * 5000, "9" * 5000, "f0:" + "9" * 5000 + ":1"]
    parent = LocationTable(["f0:7:1", "f9:1:1"])
    table = LocationTable(rows, ["other.mlir"], parent=parent, scopes=[str(SCOPE), "#cuda_tile.no_such<"])
    table = LocationTable.from_bytes(table.to_bytes(), parent)
    for number in range(len(rows)):
        OpLoc(table, number).resolve()
    assert [table.location(number) for number in range(len(rows) - 3, len(rows))] == [UNKNOWN_LOC] * 3
