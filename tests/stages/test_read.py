"""The read stage: bytecode or text in, a verified cuda_tile module out."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "bytecode"))

from building import TILE_I32, build, varint  # noqa: E402

from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.ir import print_op  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402
from tileiras.pipeline import stage  # noqa: E402
from tileiras.stages import StageContext, read  # noqa: E402

ADD = b"\x03" + varint(TILE_I32) + b"\x00\x00\x00"
TEXT = """\
cuda_tile.module @kernels {
  entry @kernel(%a: tile<i32>) {
    %0 = addi %a, %a : tile<i32>
    return
  }
}
"""


def run(source):
    options = stage("read").select(CompileOptions({"gpu-name": "sm_90"}))
    return read.run(source, options, StageContext(source_name="k")).output


def failure(source):
    with pytest.raises(CompileError) as caught:
        run(source)
    assert caught.value.code == 3
    return caught.value.render()


def test_bytecode_and_its_text_give_the_same_module():
    assert print_op(run(build(ADD))) == print_op(run(TEXT.encode()))


def test_a_builtin_module_around_it_is_taken_off():
    assert run(b"module {\n" + TEXT.encode() + b"}\n").name == "cuda_tile.module"


@pytest.mark.parametrize("inner", ["", TEXT + TEXT.replace("@kernels", "@more")])
def test_there_must_be_one_module_inside(inner):
    assert "expected one cuda_tile.module, found" in failure(f"module {{\n{inner}}}\n".encode())


def test_an_error_in_text_is_located_with_its_line():
    rendered = failure(TEXT.replace("addi %a, %a", "addi %a, %b").encode())
    assert rendered.startswith("k:3:19: error: ")
    assert "    %0 = addi %a, %b : tile<i32>\n                  ^" in rendered


def test_invalid_operations_are_refused_at_their_location():
    # extract needs one index per dimension of the source.
    rendered = failure(TEXT.replace("addi %a, %a : tile<i32>", "iota : tile<i32>").encode())
    assert rendered.startswith("k:3:10: error: 'cuda_tile.iota' op ")


def test_unknown_bytes_are_refused_by_their_magic_number():
    assert "offset 0: error: invalid magic number at position 0, got 255 expected 127" in failure(b"\xff\xfe\x00\x00")


def test_damaged_bytecode_names_section_and_offset():
    rendered = failure(build(b"\x19"))
    assert rendered.startswith("k: offset 22 in function section: error: unknown or unimplemented opcode: 25")
