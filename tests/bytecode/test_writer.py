"""Written modules read back unchanged, in every version that can express them, and the vendor's reader agrees."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.tile")
sys.path.insert(0, str(Path(__file__).parent))

import kernels  # noqa: E402
from disassembled import disassembler, lines, reads_back  # noqa: E402

from tileiras import bytecode  # noqa: E402
from tileiras.bytecode import Version  # noqa: E402
from tileiras.cli import tileiras_translate  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.dialects.cuda_tile import testing  # noqa: E402
from tileiras.ir import parse_module, print_op, verify  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
VERSIONS = ("13.1", "13.2", "13.3", "13.4", "13.5")
CASES = [(name, v) for name, (_, since, *_) in kernels.EXPORTS.items() for v in VERSIONS if v >= since]


@pytest.mark.sampled(85)
@pytest.mark.parametrize(("name", "version"), CASES)
def test_a_file_of_the_front_end_is_written_again(name: str, version: str, tmp_path: Path) -> None:
    module = bytecode.read_module(kernels.export(name, version), "k.tileirbc")
    data = bytecode.write_module(module, Version.parse(version))
    again = bytecode.read_module(data, "k.tileirbc")
    verify(again)
    assert print_op(again, locations=True) == print_op(module, locations=True)
    assert bytecode.write_module(again, Version.parse(version)) == data
    if disassembler() is not None:
        path = tmp_path / "k.tileirbc"
        path.write_bytes(data)
        shown = subprocess.run([disassembler(), "-g", str(path)], capture_output=True, text=True, check=True).stdout
        path.write_bytes(kernels.export(name, version))
        expected = subprocess.run([disassembler(), "-g", str(path)], capture_output=True, text=True, check=True).stdout
        assert lines(shown) == lines(expected)
        reads_back(expected, module, locations=True)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.mlir")), ids=lambda path: path.stem)
@pytest.mark.parametrize("version", VERSIONS)
def test_text_goes_through_bytecode_unchanged(path: Path, version: str) -> None:
    module = parse_module(path.read_text(), path.name)
    data = bytecode.write_module(module, Version.parse(version))
    # The format keeps no module name.
    expected = print_op(module).replace(f"@{module.sym_name.value}", "@kernels", 1)
    assert print_op(bytecode.read_module(data)) == expected


ALL_CONSTANTS = """cuda_tile.module @kernels {
  cuda_tile.entry @k() {
    %0 = constant <i1: [true, false, true, true, false, false, true, false]> : tile<8xi1>
    %1 = constant <i1: true> : tile<4xi1>
    %2 = constant <i8: -3> : tile<i8>
    %3 = constant <f64: [-1.5, 2.0]> : tile<2xf64>
    %4 = constant <tf32: [1.0, -2.0]> : tile<2xtf32>
    %5 = constant <f8E4M3FN: 1.5> : tile<4xf8E4M3FN>
    %6 = constant <f16: 0x7E01> : tile<f16>
    return
  }
}
"""


def test_constants_of_every_width_keep_their_bits() -> None:
    module = parse_module(ALL_CONSTANTS, "c.mlir")
    assert print_op(bytecode.read_module(bytecode.write_module(module))) == print_op(module)


@pytest.mark.parametrize(
    ("body", "version", "message"),
    [
        (
            "%x = constant <f32: 1.0> : tile<f32>\n%y = atan2 %x, %x : tile<f32>",
            "13.1",
            "operation 'cuda_tile.atan2' is not available in bytecode version 13.1",
        ),
        (
            "%x = constant <f32: 1.0> : tile<f32>\n%y = tanh %x rounding<approx> : tile<f32>",
            "13.1",
            "attribute 'rounding_mode' requires bytecode version 13.2+, but targeting 13.1",
        ),
        (
            "%x = constant <f4E2M1FN: 1.0> : tile<2xf4E2M1FN>",
            "13.2",
            "type 'Float4E2M1FN' requires bytecode version 13.3+, targeting 13.2",
        ),
    ],
)
def test_constructs_of_newer_versions_are_refused_in_place(body: str, version: str, message: str) -> None:
    text = f"cuda_tile.module @m {{\ncuda_tile.entry @k() {{\n{body}\nreturn\n}}\n}}"
    with pytest.raises(CompileError) as caught:
        bytecode.write_module(parse_module(text, "m.mlir"), Version.parse(version))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == message
    assert diagnostic.position.line == 2 + len(body.split("\n"))


def test_translate_goes_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    binary, text = tmp_path / "s.tileirbc", tmp_path / "s.mlir"
    source = EXAMPLES / "saxpy.mlir"
    arguments = ["--mlir-to-cudatilebc", str(source), "-o", str(binary), "--bytecode-version=13.2"]
    assert tileiras_translate.main(arguments) == 0
    assert binary.read_bytes()[8:10] == bytes((13, 2))
    assert tileiras_translate.main(["--cudatilebc-to-mlir", str(binary), "-o", str(text)]) == 0
    assert "entry @saxpy" in text.read_text()
    assert tileiras_translate.main(["--mlir-to-cudatilebc", str(source), "--bytecode-version=12.0"]) == 2
    assert "Invalid argument '12.0': the supported versions are [13.1 - 13.5]" in capsys.readouterr().err
    assert tileiras_translate.main(["--cudatilebc-to-mlir", str(source)]) == 3
    assert tileiras_translate.main([str(source)]) == 1


def test_the_function_section_may_have_the_reference_padding() -> None:
    from building import RETURN, build, function

    row = function(RETURN)
    plain = build(functions=[row])
    # One row and its count; a multiple of 8 bytes with the padding.
    padded = build(functions=[row + b"\xcb" * (-(1 + len(row)) % 8)])
    assert len(padded) > len(plain)
    assert print_op(bytecode.read_module(padded)) == print_op(bytecode.read_module(plain))
    with pytest.raises(CompileError, match="bytes are left over after the last function"):
        bytecode.read_module(build(functions=[row + b"\x01" * (-(1 + len(row)) % 8)]))


@pytest.mark.parametrize("name", ["vector_add_f32", "matmul_f16", "view_atomics"])
def test_flags_of_indices_survive_the_text(name: str) -> None:
    data = kernels.export(name, "13.4")
    module = bytecode.read_module(data, "k.tileirbc")
    again = parse_module(print_op(module, locations=True), "k.mlir")
    assert print_op(again, generic=True) == print_op(module, generic=True)


def test_sizes_beyond_64_bits_are_refused() -> None:
    text = "cuda_tile.module @m {\n  entry @k(%v: tile<ptr<f32>>) {\n    return\n  }\n"
    text += "  entry @l(%v: tensor_view<4xf32, strides=[9223372036854775808]>) {\n    return\n  }\n}\n"
    with pytest.raises(CompileError, match="integer value too large"):
        parse_module(text, "k.mlir")


@pytest.mark.parametrize("location", ["unknown", '"cuda_tile.div_by"("k.py":1:2)'])
def test_a_location_among_the_hints_is_refused(location: str) -> None:
    hints = f"<sm_90 = {{a = loc({location})}}>"
    text = f"cuda_tile.module @m {{\n  entry @k() optimization_hints={hints} {{\n    return\n  }}\n}}\n"
    with pytest.raises(CompileError, match="unsupported attribute type encountered during serialization"):
        bytecode.write_module(parse_module(text, "k.mlir"))


ATTRIBUTED = """cuda_tile.module @kernels {
  entry @k(%a: tile<ptr<f32>> {tt.align = 16 : i32, tt.name = "a"}, %n: tile<i32>) {
    return
  }
}
"""


def test_attributes_of_parameters_go_through_13_5(tmp_path: Path) -> None:
    module = parse_module(ATTRIBUTED, "k.mlir")
    data = bytecode.write_module(module, Version(13, 5))
    again = bytecode.read_module(data)
    (entry,) = again.regions[0].block.operations
    assert [dict(each.items).keys() for each in entry.arg_attrs.elements] == [{"tt.align", "tt.name"}, set()]
    assert "%arg0: tile<ptr<f32>> {tt.align = 16 : i32, tt.name = \"a\"}, %arg1: tile<i32>)" in print_op(again)
    assert bytecode.write_module(parse_module(print_op(again), "k.mlir"), Version(13, 5)) == data
    with pytest.raises(CompileError, match="'arg_attrs' requires bytecode version 13.5., but targeting 13.4") as caught:
        bytecode.write_module(module, Version(13, 4))
    assert caught.value.diagnostics[0].position.line == 2
    if disassembler() is not None:
        (tmp_path / "k.tileirbc").write_bytes(data)
        command = [disassembler(), str(tmp_path / "k.tileirbc")]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert '{tt.align = 16 : i32, tt.name = "a"}' in shown


def test_only_modules_with_previews_are_marked_as_such() -> None:
    data = bytecode.write_module(parse_module(ATTRIBUTED, "k.mlir"), Version(13, 5))
    assert data[8:12] == bytes((13, 5, 0, 0))
    text = """cuda_tile.module @m {
  entry @k(%n: tile<i32>) {
    %r = "cuda_tile.preview$call"(%n) <{callee = @f, const_args = []}> : (!cuda_tile.tile<i32>) -> !cuda_tile.tile<i32>
    return
  }
}
"""
    module = parse_module(text, "k.mlir")
    data = bytecode.write_module(module, Version(13, 5))
    assert data[8:12] == bytes((13, 5, 1, 0))
    assert print_op(bytecode.read_module(data), generic=True).count("preview$call") == 1
    with pytest.raises(CompileError, match="not available in bytecode version 13.4"):
        bytecode.write_module(module, Version(13, 4))


TEXTS = sorted((Path(__file__).resolve().parents[1] / "dialects" / "cuda_tile").glob("*.mlir"))


@pytest.mark.skipif(disassembler() is None, reason="needs tileirdisasm (nvidia-cuda-tileiras)")
@pytest.mark.parametrize("path", [path for path in TEXTS if "_invalid" not in path.stem], ids=lambda path: path.stem)
def test_the_vendors_reader_accepts_the_text_tests(path: Path, tmp_path: Path) -> None:
    text = re.sub(r"^// -----.*$", "", path.read_text(), flags=re.MULTILINE)
    with testing.loaded():
        whole = parse_module(text, path.name)
    entries = [op for op in whole.walk() if op.name in ("cuda_tile.entry", "cuda_tile.global")]
    shown = 0
    for entry in entries:
        module = parse_module('cuda_tile.module @kernels {}')
        for needed in (*[op for op in entries if op.name == "cuda_tile.global" and op is not entry], entry):
            module.body.block.append(needed.clone())
        try:
            data = bytecode.write_module(module)
        except CompileError as refusal:  # newer than all versions that are written
            assert "not available" in refusal.diagnostics[0].message
            continue
        (tmp_path / "k.tileirbc").write_bytes(data)
        previews = ["--preview=simt"] if bytecode.versions.has_previews(data) else []
        command = [disassembler(), *previews, str(tmp_path / "k.tileirbc")]
        expected = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        printed = "".join(print_op(op, default_dialect="cuda_tile") for op in module.body.block.operations)
        assert lines(printed) == lines(expected)
        shown += 1
    assert shown or path.stem == "testing"
