"""Our listing of a bytecode file equals that of the vendor's disassembler, where that is installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tileiras.bytecode import read_module
from tileiras.codegen import toolkit
from tileiras.ir import parse_module, print_op

FILES = sorted((Path(__file__).parents[2] / "examples" / "bytecode").glob("*.tileirbc"))


@pytest.fixture(scope="module")
def disassembler() -> str:
    path = toolkit.find_program("tileirdisasm")
    if path is None:
        pytest.skip("no tileirdisasm")
    return path


@pytest.mark.parametrize("debug", [False, True], ids=["plain", "debug"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_text_is_the_disassemblers(disassembler, path, debug):
    command = [disassembler, *(["-g"] if debug else []), str(path)]
    expected = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    (entry,) = read_module(path.read_bytes(), path.name).body.block.operations
    assert print_op(entry, locations=debug, default_dialect="cuda_tile").strip() == expected
    # ... and that text, which has no module around it, reads back as the same entry.
    (again,) = parse_module(expected).body.block.operations
    assert print_op(again, locations=debug, default_dialect="cuda_tile").strip() == expected
