"""The emulator decodes every instruction that the compiler can print: LLVM's code for each row of the table of
intrinsics, each atomic form, access and order, the lowering's inline PTX, and the forms that LLVM selected for the
conformance kernels (`selected_instructions.txt`, made by `python tests/conformance --instructions`)."""

from __future__ import annotations

import ast
import itertools
import re
import sys
from pathlib import Path

import pytest

import tileiras
from tileiras.codegen import llvm_pipeline
from tileiras.codegen.target_machine import processor
from tileiras.dialects import llvm, nvvm
from tileiras.dialects.nvvm.atomics import FORMS
from tileiras.ir import Block, IntegerType, bf16, f16, f32, f64
from tileiras.lowering.tileas_to_llvm.memory import access
from tileiras.sim.emulator.errors import EmulationError
from tileiras.sim.emulator.instructions import decode
from tileiras.sim.emulator.ptx import parser
from tileiras.sim.emulator.ptx.decoder import DECODERS
from tileiras.targets.nvptx import MODULE_HEADER

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "codegen"))

from intrinsic_kernels import INTRINSICS, by_target, declare, kernel, lowest_chip  # noqa: E402

LISTED = (HERE / "selected_instructions.txt").read_text().splitlines()

FRAME = """.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 16 .b8 smem[];
.visible .entry k() .reqntid 32
{{
.reg .pred %p<40>;
.reg .b16 %rs<40>;
.reg .b32 %r<160>;
.reg .b64 %rd<40>;
.reg .b128 %rq<8>;
.reg .b64 %SP, %SPL;
.reg .b8 %e2m1x2_in, %e2m1x2_out;
{}
ret;
}}
"""


def refused(instruction: str) -> str | None:
    """The emulator's error for an unknown instruction."""
    try:
        decode(parser.parse(FRAME.format(instruction)), "k")
    except EmulationError as error:
        return f"{instruction} {error}"
    return None


@pytest.mark.parametrize("chip, ptx", by_target())
def test_every_intrinsic(chip, ptx):
    rows = [r for r in INTRINSICS.values() if lowest_chip(r) == chip and max(r.ptx, processor(chip).ptx) == ptx]
    ir = MODULE_HEADER + "\n".join([declare(row) for row in rows] + [kernel(n, row) for n, row in enumerate(rows)])
    module = parser.parse(llvm_pipeline.compile_to_ptx(ir, processor(chip), requested_ptx=ptx, opt_level=1).text)
    assert len(module.entries) == len(rows)
    for entry in module.entries:
        decode(module, entry)


REGISTERS = {"h": "%rs", "r": "%r", "f": "%r", "l": "%rd", "d": "%rd", "b": "%p"}
VALUES = {"i16": IntegerType(16), "i32": IntegerType(32), "i64": IntegerType(64),
          "f16": f16, "bf16": bf16, "f32": f32, "f64": f64}  # fmt: skip
ORDERS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("cta", "cluster", "gpu", "sys")


def with_registers(text: str, constraints: str) -> str:
    """Inline assembly with a register for each operand."""
    letters = [each.lstrip("=") for each in constraints.split(",") if not each.startswith("~")]
    names = [f"{REGISTERS[letter]}{number + 1}" for number, letter in enumerate(letters)]
    return re.sub(r"\$(\d+)", lambda match: names[int(match.group(1))], text)


def test_every_atomic_in_every_order_and_scope():
    items = []
    for (kind, type_name), order, scope in itertools.product(FORMS, ORDERS, SCOPES):
        type_ = VALUES.get(type_name) or llvm_vector(type_name)
        for space in (0, 1, 3):
            block = Block([llvm.LLVMPointerType(space), type_])
            address, value = block.arguments
            named = {"op": nvvm.AtomicOpAttr(kind), "order": nvvm.MemOrderAttr(order),
                     "scope": nvvm.MemScopeAttr(scope)}  # fmt: skip
            ops = [nvvm.AtomOp(address, value, *([value] if kind == "cas" else []), **named)]
            if kind not in ("cas", "exch") and order in ("relaxed", "release"):
                ops.append(nvvm.RedOp(address, value, **named))
            for op in ops:
                instruction = op.target()
                items.append(refused(with_registers(instruction.text, instruction.constraints)))
    assert len(items) > 1000
    assert [each for each in items if each is not None] == []


def llvm_vector(name: str):
    from tileiras.ir import VectorType

    count, _, element = name.removeprefix("vector<").removesuffix(">").partition("x")
    return VectorType((int(count),), VALUES[element])


def test_every_access_in_every_order_and_scope():
    orderings = ["", *(f".{order}.{scope}" for order in ORDERS[:3] for scope in SCOPES)]
    items = []
    for ordering, space in itertools.product(orderings, access.SPACES):
        for count, bits in ((1, 8), (1, 16), (1, 32), (2, 32), (4, 32), (1, 64), (2, 64)):
            values = ", ".join(f"%r{'s' * (bits <= 16)}{'d' * (bits == 64)}{n + 1}" for n in range(count))
            values = f"{{{values}}}" if count > 1 else values
            address = "[%rd30+16]" if space == 1 else "[%r30+16]"
            if "release" not in ordering:
                items.append(refused(f"{access.mnemonic('ld', ordering, space, count, bits)} {values}, {address};"))
            if "acquire" not in ordering:
                items.append(refused(f"{access.mnemonic('st', ordering, space, count, bits)} {address}, {values};"))
    assert [each for each in items if each is not None] == []


def test_instructions_that_llvm_selects():
    assert len(LISTED) > 400 and LISTED == sorted(set(LISTED))
    assert [each for each in map(refused, LISTED) if each is not None] == []


_SPELLED = re.compile(r"(?:^|[;{]|@\S+ )\s*([a-z][a-z0-9]*)\.[\w.:{}$]*[^;]*;")


def spelled_out() -> set[str]:
    """Opcodes of the PTX in the string constants of the lowerings and of the nvvm operations."""
    root = Path(tileiras.__file__).parent
    result = set()
    for folder in ("lowering/tileas_to_llvm", "lowering/nvgpu_to_nvvm", "dialects/nvvm"):
        for path in sorted((root / folder).glob("**/*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                text = None
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    text = node.value
                elif isinstance(node, ast.JoinedStr):
                    text = "".join(v.value if isinstance(v, ast.Constant) else "X" for v in node.values)
                if text is not None and "\n" not in text:
                    result.update(_SPELLED.findall(text))
    return result


def test_opcodes_that_the_lowering_spells_out():
    decode(parser.parse(FRAME.format("")), "k")  # loads the decoders
    opcodes = spelled_out()
    assert {"fence", "griddepcontrol", "multimem"} <= opcodes
    assert opcodes - {name.partition(".")[0] for name in DECODERS} == set()


def test_an_unknown_instruction_is_refused():
    assert "unsupported instruction" in refused("tcgen05.shift.cta_group::1.up [%r1];")
    assert "unsupported instruction" in refused("add.warp.u32 %r1, %r2, %r3;")
