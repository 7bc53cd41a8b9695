"""`wgmma`, the matrix multiply-accumulate of a warpgroup (sm_90a): fence, multiply, commit, wait.

LLVM takes the results of inline assembly for available, and may move a use of them above the wait.  So registers that
instructions in flight use are threaded through the operations that order them: each takes them and returns them.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects.llvm import LLVMStructType
from tileiras.dialects.llvm.base import llvm_type
from tileiras.ir import (
    AttrSizedOperandSegments,
    DenseArrayAttr,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    StringAttr,
    UnitAttr,
    VerifyError,
    attribute,
    f32,
    i32,
    optional_result,
    variadic_operand,
)

from .base import Assembly, NVVMOp

REQUIRES = "=90a"
"""PTX ISA, "Target ISA Notes" of wgmma."""

PTX80 = (8, 0)

_MIXED_INTEGERS, _PTX84 = (".s8.u8", ".u8.s8"), (8, 4)
"""PTX ISA, "PTX ISA Notes" of wgmma.mma_async: operands of different signedness came later."""

_EFFECTS = (MemoryRead, MemoryWrite)
_LETTERS = {f32: "f", i32: "r"}


def _letter(type: Any) -> str:
    entry = _LETTERS.get(type)
    if entry is None:
        raise VerifyError(f"expects registers of f32 or i32, got {type}")
    return entry


def _members(op: Any) -> tuple[Any, ...]:
    """The types of the registers that an operation returns."""
    if op.res is None:
        return ()
    return op.res.type.elements if isinstance(op.res.type, LLVMStructType) else (op.res.type,)


def _thread_registers(op: Any, instruction: str) -> Assembly:
    """An instruction without operands, through which the registers of an operation are threaded."""
    members = _members(op)
    inputs = tuple(v.type for v in op.registers)
    if inputs not in ((), members):
        raise VerifyError("expects the types of its registers for its results")
    letters = [f"={_letter(type)}" for type in members] + [str(i) for i in range(len(inputs))]
    return Assembly(instruction, ",".join([*letters, "~{memory}"]), REQUIRES, PTX80, side_effects=True)


class WgmmaFenceOp(NVVMOp, name="nvvm.wgmma.fence.aligned", traits=_EFFECTS):
    """`wgmma.fence`: earlier writes to these registers are visible to later instructions.  With results and without
    operands, the registers are undefined."""

    registers = variadic_operand(llvm_type)
    res = optional_result(llvm_type)
    assembly_format = "$registers attr-dict `:` functional-type($registers, $res)"

    def target(self) -> Assembly:
        return _thread_registers(self, "wgmma.fence.sync.aligned;")


class WgmmaCommitGroupOp(NVVMOp, name="nvvm.wgmma.commit.group.sync.aligned", traits=_EFFECTS):
    """`wgmma.commit_group`: the warp's `mma_async` since the last commit are a group."""

    assembly_format = "attr-dict"

    def target(self) -> Assembly:
        return Assembly("wgmma.commit_group.sync.aligned;", "~{memory}", REQUIRES, PTX80, side_effects=True)


class WgmmaWaitGroupOp(NVVMOp, name="nvvm.wgmma.wait.group.sync.aligned"):
    """`wgmma.wait_group`: waits until at most `group` of the warp's groups are in flight."""

    traits = _EFFECTS
    registers = variadic_operand(llvm_type)
    group = attribute(IntegerAttr)
    res = optional_result(llvm_type)
    assembly_format = "$registers attr-dict `:` functional-type($registers, $res)"

    def target(self) -> Assembly:
        if not 0 <= self.group.value <= 7:
            raise VerifyError(f"expects a number of groups from 0 to 7, got {self.group.value}")
        return _thread_registers(self, f"wgmma.wait_group.sync.aligned {self.group.value};")


class WgmmaMmaAsyncOp(NVVMOp, name="nvvm.wgmma.mma_async", traits=(*_EFFECTS, AttrSizedOperandSegments)):
    """`wgmma.mma_async`, once for each step along K, on one accumulator.

    `instruction` and `syntax` are those of the atom's row; `b` is the lower word of B's descriptor for the first step,
    `b_high` the upper one, and `b_steps` are the addends of the lower word for each step.  Likewise `a`, unless A is in
    registers, which are then those of all steps.  `overwrites`: the first step does not add to the accumulator.
    """

    accumulator = variadic_operand(llvm_type)
    a = variadic_operand(llvm_type)
    b = variadic_operand(llvm_type)
    instruction = attribute(StringAttr)
    syntax = attribute(StringAttr)
    a_steps = attribute(DenseArrayAttr, optional=True)
    a_high = attribute(IntegerAttr, optional=True)
    b_steps = attribute(DenseArrayAttr)
    b_high = attribute(IntegerAttr)
    transposed = attribute(DenseArrayAttr, "1 for A and for B where K is not contiguous")
    overwrites = attribute(UnitAttr, optional=True)
    res = optional_result(llvm_type)
    assembly_format = "`[` $accumulator `]` `,` `[` $a `]` `,` `[` $b `]` attr-dict `:` functional-type(operands, $res)"

    def target(self) -> Assembly:
        members, steps = _members(self), len(self.b_steps.elements)
        count = len(members)
        if tuple(v.type for v in self.accumulator) != members:
            raise VerifyError("expects an accumulator of the type of the result")
        in_registers = self.a_steps is None
        if len(self.b) != 1 or len(self.a) != (4 * steps if in_registers else 1):
            raise VerifyError(f"expects descriptors, or four registers of A for each of {steps} steps")
        first_a = 2 * count
        b = first_a + len(self.a)
        d = "{" + ", ".join(f"${i}" for i in range(count)) + "}"
        lines = ["{ .reg .b32 w, h; .reg .b64 a, b;"]
        for step in range(steps):
            if in_registers:
                words = ", ".join(f"${first_a + 4 * step + i}" for i in range(4))
                a = f"{{{words}}}"
            else:
                lines.append(_descriptor("a", first_a, self.a_steps.elements[step], self.a_high.value))
                a = "a"
            lines.append(_descriptor("b", b, self.b_steps.elements[step], self.b_high.value))
            scale = "0" if self.overwrites is not None and step == 0 else "1"
            trans_a, trans_b = self.transposed.elements
            operands = self.syntax.value.format(d=d, a=a, b="b", scale_d=scale, trans_a=trans_a, trans_b=trans_b)
            lines.append(f"{self.instruction.value} {operands};")
        lines.append("}")
        letters = [f"={_letter(type)}" for type in members] + [str(i) for i in range(count)]
        letters += ["r"] * (len(self.a) + 1) + ["~{memory}"]
        ptx = _PTX84 if any(types in self.instruction.value for types in _MIXED_INTEGERS) else PTX80
        return Assembly(" ".join(lines), ",".join(letters), REQUIRES, ptx, side_effects=True)


def _descriptor(name: str, operand: int, step: int, high: int) -> str:
    """A 64-bit descriptor of its words, the lower one moved by a step."""
    if step == 0:
        return f"mov.b32 h, {high}; mov.b64 {name}, {{${operand}, h}};"
    return f"add.u32 w, ${operand}, {step}; mov.b32 h, {high}; mov.b64 {name}, {{w, h}};"
