"""Modules read from the front end's files print as the vendor's disassembler prints the same files."""

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
from tileiras.ir import parse_module, print_op, verify  # noqa: E402

VERSIONS = ("13.1", "13.2", "13.3", "13.4", "13.5")
CASES = [(name, v) for name, (_, since, *_) in kernels.EXPORTS.items() for v in VERSIONS if v >= since]


@pytest.mark.sampled(85)
@pytest.mark.skipif(disassembler() is None, reason="needs tileirdisasm (nvidia-cuda-tileiras)")
@pytest.mark.parametrize(("name", "version"), CASES)
def test_a_module_prints_as_the_disassembler_prints_its_file(name, version, tmp_path):
    prints_as_disassembled(name, kernels.export(name, version), tmp_path)


def prints_as_disassembled(name, data, tmp_path):
    path = tmp_path / f"{name}.tileirbc"
    path.write_bytes(data)
    expected = subprocess.run([disassembler(), str(path)], capture_output=True, text=True, check=True).stdout
    module = bytecode.read_module(data, path.name)
    verify(module)
    printed = "".join(print_op(op, default_dialect="cuda_tile") for op in module.regions[0].block.operations)
    assert lines(printed) == lines(expected)
    reads_back(expected, module, locations=False)


def test_the_kernels_cover_the_front_ends_operations():
    import cuda.tile

    package = Path(cuda.tile.__file__).parent
    encoders = package / "_bytecode" / "encodings.py"
    source = "".join(path.read_text() for path in sorted(package.rglob("*.py")) if path != encoders)
    known = re.findall(r"^def encode_(\w+)Op\(", encoders.read_text(), re.MULTILINE)
    # Only a package of its own, cuda.tile_preview, makes the operations that call the front end's preview functions.
    written = {name for name in known if re.search(rf"\bencode_{name}Op\b", source)} - {"PreviewCall"}
    result = set()
    for name, version in CASES:
        module = bytecode.read_module(kernels.export(name, version), name)
        result |= {op.name.partition(".")[2].replace("_", "") for op in module.walk()}
    assert len(written) > 90
    assert sorted(name for name in written if name.lower() not in result) == []


def spelled_out(text):
    """The operations with every alias replaced by its definition: numbers of aliases depend on the context."""
    aliases = dict(re.findall(r"^(#\w+) = (.*)$", text, re.MULTILINE))
    operations = [line for line in lines(text) if not line.startswith("#")]

    def expand(line):
        # `%1#0` is the first of several results, `#cuda_tile.x` an attribute.
        expanded = re.sub(r"#[a-z]\w*(?![\w.])", lambda found: aliases[found[0]], line)
        return expanded if expanded == line else expand(expanded)

    return [expand(line).strip() for line in operations]


@pytest.mark.skipif(disassembler() is None, reason="needs tileirdisasm (nvidia-cuda-tileiras)")
@pytest.mark.parametrize("name", ["calls", "control_flow", "softmax_f16"])
def test_locations_are_those_that_the_disassembler_shows(name, tmp_path):
    path = tmp_path / f"{name}.tileirbc"
    path.write_bytes(kernels.export(name, "13.3"))
    command = [disassembler(), "-g", str(path)]
    expected = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    module = bytecode.read_module(path.read_bytes(), path.name)
    entry = print_op(module.regions[0].block.first, locations=True, default_dialect="cuda_tile")
    assert spelled_out(entry) == spelled_out(expected)
    assert "calls" not in name or any("callsite(" in line for line in spelled_out(entry))


def test_a_verified_module_survives_its_text():
    for name in ("matmul_f16", "control_flow", "reductions_f32", "atomics"):
        module = bytecode.read_module(kernels.export(name, "13.4"), name)
        text = print_op(module)
        again = parse_module(text, name)
        verify(again)
        assert print_op(again) == text
