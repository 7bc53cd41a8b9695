"""`tcgen05`, tensor memory and the dots whose accumulators lie there (sm_100 family, sm_110).

Inline assembly: LLVM 22 has intrinsics for chips of the family but sm_107, and takes the registers of a load for
available before its wait.
"""

from __future__ import annotations

from tileiras.dialects.llvm import LLVMStructType
from tileiras.dialects.llvm.base import llvm_type, pointer
from tileiras.ir import (
    Convergent,
    DenseArrayAttr,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    StringAttr,
    UnitAttr,
    VerifyError,
    attribute,
    i1,
    i16,
    i32,
    operand,
    optional_result,
    result,
    variadic_operand,
)

from .base import Assembly, NVVMOp

REQUIRES = "=100f,110f"
"""PTX ISA, "Target ISA Notes" of tcgen05.alloc, .ld, .mma and .commit."""

PTX86 = (8, 6)

MOST_WORDS = 128
"""Registers that a load or store has at most (PTX ISA, "tcgen05.ld": .x128)."""

_EFFECTS = (MemoryRead, MemoryWrite)


def _assembly(text: str, constraints: str, sm: str = REQUIRES) -> Assembly:
    return Assembly(text, f"{constraints},~{{memory}}" if constraints else "~{memory}", sm, PTX86, side_effects=True)


class Tcgen05AllocOp(NVVMOp, name="nvvm.tcgen05.alloc", traits=_EFFECTS):
    """`tcgen05.alloc`: a warp allocates columns, and has their address written to shared memory."""

    addr = operand(pointer)
    columns = attribute(IntegerAttr)
    pair = attribute(UnitAttr, "together with a warp of the peer CTA", optional=True)
    assembly_format = "$addr attr-dict `:` type($addr)"

    def target(self) -> Assembly:
        text = f"tcgen05.alloc.{_group(self.pair)}.sync.aligned.shared::cta.b32 [$0], {self.columns.value};"
        return _assembly(text, "r")


def _group(pair: UnitAttr | None) -> str:
    """All instructions of a kernel have the same one (PTX ISA, "tcgen05 Instructions": .cta_group)."""
    return f"cta_group::{1 if pair is None else 2}"


class _Fixed(NVVMOp):
    """An instruction without operands."""

    __slots__ = ()
    text = ""

    def target(self) -> Assembly:
        return _assembly(f"{self.text};", "")


class Tcgen05RelinquishAllocPermitOp(NVVMOp, name="nvvm.tcgen05.relinquish_alloc_permit", traits=_EFFECTS):
    """`tcgen05.relinquish_alloc_permit`: the CTA allocates no more."""

    pair = attribute(UnitAttr, optional=True)
    assembly_format = "attr-dict"

    def target(self) -> Assembly:
        return _assembly(f"tcgen05.relinquish_alloc_permit.{_group(self.pair)}.sync.aligned;", "")


class Tcgen05FenceBeforeOp(_Fixed, name="nvvm.tcgen05.fence.before_thread_sync", traits=_EFFECTS):
    """`tcgen05.fence::before_thread_sync`: orders earlier accesses before later synchronization."""

    text = "tcgen05.fence::before_thread_sync"
    assembly_format = "attr-dict"


class Tcgen05FenceAfterOp(_Fixed, name="nvvm.tcgen05.fence.after_thread_sync", traits=_EFFECTS):
    """`tcgen05.fence::after_thread_sync`: orders later accesses after earlier synchronization."""

    text = "tcgen05.fence::after_thread_sync"
    assembly_format = "attr-dict"


class Tcgen05DeallocOp(NVVMOp, name="nvvm.tcgen05.dealloc", traits=_EFFECTS):
    """`tcgen05.dealloc`: a warp frees columns."""

    taddr = operand(i32)
    columns = attribute(IntegerAttr)
    pair = attribute(UnitAttr, "together with a warp of the peer CTA", optional=True)
    assembly_format = "$taddr attr-dict"

    def target(self) -> Assembly:
        return _assembly(f"tcgen05.dealloc.{_group(self.pair)}.sync.aligned.b32 $0, {self.columns.value};", "r")


class Tcgen05CommitOp(NVVMOp, name="nvvm.tcgen05.commit", traits=_EFFECTS):
    """`tcgen05.commit`: an arrival at an mbarrier once all operations that the thread has started so far are
    complete."""

    addr = operand(pointer)
    assembly_format = "$addr attr-dict `:` type($addr)"

    def target(self) -> Assembly:
        text = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [$0];"
        return _assembly(text, "r")


class Tcgen05CommitMulticastOp(NVVMOp, name="nvvm.tcgen05.commit.multicast", traits=_EFFECTS):
    """`tcgen05.commit`: an arrival at the mbarrier of this place in each CTA of a mask of ranks; `pair`: of operations
    of a pair of CTAs."""

    addr = operand(pointer)
    mask = operand(i16)
    pair = attribute(UnitAttr, optional=True)
    assembly_format = "$addr `,` $mask attr-dict `:` type($addr)"

    def target(self) -> Assembly:
        arrive = "mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [$0], $1;"
        return _assembly(f"tcgen05.commit.cta_group::{1 if self.pair is None else 2}.{arrive}", "r,h")


class ElectSyncOp(NVVMOp, name="nvvm.elect.sync", traits=(Convergent,)):
    """`elect.sync`: true in one thread of the warp, always the same one."""

    res = result(i1)
    assembly_format = "attr-dict"

    def target(self) -> Assembly:
        return Assembly("elect.sync _|$0, -1;", "=b", "90", (8, 0), side_effects=True)


HALVES = "16x32bx2"
"""The shape in which the two halves of the lanes access columns of their own."""

_WORDS_OF_SHAPE = {"32x32b": 1, HALVES: 1, "16x128b": 2, "16x256b": 4}
_COLUMNS_OF_WORD = {"32x32b": 1, HALVES: 1, "16x128b": 2, "16x256b": 2}
"""Registers of `.x1`, and columns for each register (PTX ISA, "Data Movement Shape")."""


def _pieces(shape: str, words: int, packed: bool) -> list[tuple[int, int, int]]:
    """(first register, registers, first column) of each instruction."""
    step = min(words, MOST_WORDS)
    each = _COLUMNS_OF_WORD[shape] * (2 if packed else 1)
    return [(first, step, first * each) for first in range(0, words, step)]


class _Transfer(NVVMOp):
    """A load or store of a warp's part of a tile."""

    __slots__ = ()

    def _count(self, words: int) -> None:
        shape = self.shape.value
        if shape not in _WORDS_OF_SHAPE or words % _WORDS_OF_SHAPE[shape] or words & words - 1:
            raise VerifyError(f"has no form of '{shape}' with {words} registers")
        if (shape == HALVES) != (self.split is not None):
            raise VerifyError(f"has no form of '{shape}' {'with' if self.split is not None else 'without'} a 'split'")

    def _at(self, address: str, column: int) -> str:
        """The operands that say where columns from one on are."""
        return f"[{address}+{column}]" + ("" if self.split is None else f", {self.split.value}")

    def _form(self, name: str, count: int) -> str:
        packing = {"ld": ".pack::16b", "st": ".unpack::16b"}[name] if self.packed.value else ""
        shape = self.shape.value
        return f"tcgen05.{name}.sync.aligned.{shape}.x{count // _WORDS_OF_SHAPE[shape]}{packing}.b32"


class Tcgen05LoadOp(_Transfer, name="nvvm.tcgen05.ld", traits=_EFFECTS):
    """`tcgen05.ld` of neighbouring columns, and `tcgen05.wait::ld` for all of them.

    `packed`: a register has the lower halves of two columns.  `split`: for 16x32bx2, the distance in columns of the
    upper half of the lanes.  With a `reduction` (`max`, `min`, `.NaN`) of f32, which is one instruction, the reduced
    value of the registers follows them.
    """

    taddr = operand(i32)
    shape = attribute(StringAttr)
    packed = attribute(IntegerAttr)
    split = attribute(IntegerAttr, optional=True)
    reduction = attribute(StringAttr, optional=True)
    res = optional_result(llvm_type)
    assembly_format = "$taddr attr-dict `:` type($res)"

    def target(self) -> Assembly:
        members = self.res.type.elements if isinstance(self.res.type, LLVMStructType) else (self.res.type,)
        if any(type is not i32 for type in members):
            raise VerifyError("loads words")
        if self.reduction is not None:
            return self._reducing(self.reduction.value, len(members) - 1)
        count = len(members)
        self._count(count)
        lines = []
        for first, words, column in _pieces(self.shape.value, count, bool(self.packed.value)):
            registers = ", ".join(f"${i}" for i in range(first, first + words))
            lines.append(f"{self._form('ld', words)} {{{registers}}}, {self._at(f'${count}', column)};")
        # The address is read by every instruction: no result may take its register.
        constraints = ",".join(["=&r"] * count + ["r"])
        return _assembly(" ".join([*lines, "tcgen05.wait::ld.sync.aligned;"]), constraints)

    def _reducing(self, reduction: str, count: int) -> Assembly:
        self._count(count)
        if self.shape.value != "32x32b" or self.packed.value or count > MOST_WORDS:
            raise VerifyError("reduces up to 128 words of a row")
        registers = ", ".join(f"${i}" for i in range(count))
        form = f"tcgen05.ld.red.sync.aligned.32x32b.x{count}.{reduction}.f32"
        text = f"{form} {{{registers}}}, ${count}, [${count + 1}]; tcgen05.wait::ld.sync.aligned;"
        return _assembly(text, ",".join(["=r"] * (count + 1) + ["r"]), "=103f,110f")


class Tcgen05StoreOp(_Transfer, name="nvvm.tcgen05.st", traits=_EFFECTS):
    """`tcgen05.st` of neighbouring columns, and, unless others follow that a wait comes behind, `tcgen05.wait::st` for
    all of them; `packed` as of a load."""

    taddr = operand(i32)
    words = variadic_operand(i32)
    shape = attribute(StringAttr)
    packed = attribute(IntegerAttr)
    split = attribute(IntegerAttr, optional=True)
    goes_on = attribute(UnitAttr, optional=True)
    assembly_format = "$taddr `,` $words attr-dict"

    def target(self) -> Assembly:
        count = len(self.words)
        self._count(count)
        lines = []
        for first, words, column in _pieces(self.shape.value, count, bool(self.packed.value)):
            registers = ", ".join(f"${1 + i}" for i in range(first, first + words))
            lines.append(f"{self._form('st', words)} {self._at('$0', column)}, {{{registers}}};")
        if self.goes_on is None:
            lines.append("tcgen05.wait::st.sync.aligned;")
        return _assembly(" ".join(lines), ",".join(["r"] * (1 + count)))


class Tcgen05MmaOp(NVVMOp, name="nvvm.tcgen05.mma", traits=_EFFECTS):
    """`tcgen05.mma`, once for each step along K, on one accumulator, by the thread that executes it.

    `instruction`, `syntax` and `requires` are those of the atom's row, `descriptor` is the instruction descriptor.  `a`
    and `b` are the lower words of the descriptors for the first step, `a_high` and `b_high` the upper ones, and the
    steps are the addends of the lower words for each step.  Where `syntax` has A in tensor memory, `a` is its address
    and its steps are columns.  `adds`: whether the first step adds to the accumulator.
    """

    d = operand(i32)
    a = operand(i32)
    b = operand(i32)
    adds = operand(i1)
    instruction = attribute(StringAttr)
    syntax = attribute(StringAttr)
    requires = attribute(StringAttr)
    descriptor = attribute(IntegerAttr)
    a_steps = attribute(DenseArrayAttr)
    a_high = attribute(IntegerAttr)
    b_steps = attribute(DenseArrayAttr)
    b_high = attribute(IntegerAttr)
    assembly_format = "$d `,` $a `,` $b `,` $adds attr-dict"

    def target(self) -> Assembly:
        steps = list(zip(self.a_steps.elements, self.b_steps.elements, strict=True))
        lines = ["{ .reg .b32 w, h, i; .reg .b64 a, b; .reg .pred p;"]
        lines.append(f"mov.b32 i, {self.descriptor.value & 0xFFFFFFFF};")
        in_tensor = "[{a}]" in self.syntax.value
        for number, (a_step, b_step) in enumerate(steps):
            if not in_tensor:
                lines.append(_descriptor("a", 1, a_step, self.a_high.value))
            lines.append(_descriptor("b", 2, b_step, self.b_high.value))
            if number == 1:
                lines.append("setp.eq.b32 p, i, i;")
            operands = self.syntax.value.format(
                d="$0", a=f"$1+{a_step}" if in_tensor else "a", b="b", descriptor="i", scale_d="p" if number else "$3"
            )
            lines.append(f"{self.instruction.value} {operands};")
        return _assembly(" ".join([*lines, "}"]), "r,r,r,b", self.requires.value)


class Tcgen05CopyOp(NVVMOp, name="nvvm.tcgen05.cp", traits=_EFFECTS):
    """`tcgen05.cp` of consecutive runs of 512 bytes, 32 rows of 16 bytes for four columns; every quarter of the lanes
    gets a copy.  `source`: the lower word of the descriptor of the first run, `high` the upper one.  Each CTA of a
    `pair` gets the contents of its own shared memory at that place."""

    taddr = operand(i32)
    source = operand(i32)
    runs = attribute(IntegerAttr)
    high = attribute(IntegerAttr)
    pair = attribute(UnitAttr, optional=True)
    assembly_format = "$taddr `,` $source attr-dict"

    RUN_BYTES, RUN_COLUMNS = 512, 4

    def target(self) -> Assembly:
        lines = ["{ .reg .b32 w, h; .reg .b64 s;"]
        for number in range(self.runs.value):
            lines.append(_descriptor("s", 1, number * self.RUN_BYTES >> 4, self.high.value))
            lines.append(f"tcgen05.cp.{_group(self.pair)}.32x128b.warpx4 [$0+{number * self.RUN_COLUMNS}], s;")
        return _assembly(" ".join([*lines, "}"]), "r,r")


class Tcgen05ScaledMmaOp(NVVMOp, name="nvvm.tcgen05.mma.block_scale", traits=_EFFECTS):
    """As `Tcgen05MmaOp`, with block scales: each step has an instruction descriptor, which says the byte of a word, and
    columns of the words, counted from the first ones of A and of B."""

    d = operand(i32)
    a = operand(i32)
    b = operand(i32)
    scale_a = operand(i32)
    scale_b = operand(i32)
    adds = operand(i1)
    instruction = attribute(StringAttr)
    syntax = attribute(StringAttr)
    requires = attribute(StringAttr)
    descriptors = attribute(DenseArrayAttr)
    a_steps = attribute(DenseArrayAttr)
    a_high = attribute(IntegerAttr)
    b_steps = attribute(DenseArrayAttr)
    b_high = attribute(IntegerAttr)
    scale_a_steps = attribute(DenseArrayAttr)
    scale_b_steps = attribute(DenseArrayAttr)
    assembly_format = "$d `,` $a `,` $b `scale` $scale_a `,` $scale_b `if` $adds attr-dict"

    def target(self) -> Assembly:
        arrays = (self.descriptors, self.a_steps, self.b_steps, self.scale_a_steps, self.scale_b_steps)
        lines = ["{ .reg .b32 w, h, i; .reg .b64 a, b; .reg .pred p;"]
        steps = zip(*(array.elements for array in arrays), strict=True)
        for number, (word, a_step, b_step, scale_a, scale_b) in enumerate(steps):
            lines.append(f"mov.b32 i, {word & 0xFFFFFFFF};")
            lines.append(_descriptor("a", 1, a_step, self.a_high.value))
            lines.append(_descriptor("b", 2, b_step, self.b_high.value))
            if number == 1:
                lines.append("setp.eq.b32 p, i, i;")
            operands = self.syntax.value.format(
                d="$0", a="a", b="b", descriptor="i", scale_a=f"$3+{scale_a}", scale_b=f"$4+{scale_b}",
                scale_d="p" if number else "$5",
            )  # fmt: skip
            lines.append(f"{self.instruction.value} {operands};")
        return _assembly(" ".join([*lines, "}"]), "r,r,r,r,r,b", self.requires.value)


def _descriptor(name: str, operand: int, step: int, high: int) -> str:
    """A 64-bit descriptor of its words, the lower one moved by a step."""
    high &= 0xFFFFFFFF
    if step == 0:
        return f"mov.b32 h, {high}; mov.b64 {name}, {{${operand}, h}};"
    return f"add.u32 w, ${operand}, {step}; mov.b32 h, {high}; mov.b64 {name}, {{w, h}};"
