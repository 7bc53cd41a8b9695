"""The rows of the atom tables, which describe instructions: operands, executing threads, and ordering.

A row is data.  Passes choose among rows, the lowering emits the instruction of the chosen row, and neither names an
instruction itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tileiras.support.named_tuple import NamedTuple

Basis = tuple[int, int]

PAIR: Literal["elected thread of a CTA pair"] = "elected thread of a CTA pair"

Executor = Literal["thread", "warp", "warpgroup", "elected thread", "elected thread of a CTA pair"]
"""The threads that execute an instruction together.  An elected thread issues it for its agent; for a CTA pair, one
thread of the CTA of even rank issues it for both."""

ELECTED: tuple[Executor, ...] = ("elected thread", PAIR)

Residence = Literal["register", "shared", "tensor", "global"]
"""Where an operand lies; `tensor` is the tensor memory of sm_100."""

Queue = Literal[
    "cp.async group", "bulk group", "mbarrier transaction", "wgmma group", "tcgen05 commit", "tcgen05 load",
    "tcgen05 store",
]  # fmt: skip
"""How the completion of an asynchronous instruction is observed.

- cp.async group, bulk group, wgmma group: commit_group by the issuing agent, then wait_group.
- mbarrier transaction: bytes that complete on the mbarrier that the instruction names.
- tcgen05 commit: tcgen05.commit arrives on an mbarrier once all earlier ones of the thread are complete.
- tcgen05 load, tcgen05 store: tcgen05.wait::ld and tcgen05.wait::st.
"""

Major = Literal["k", "mn"]
"""Which dimension of an operand is contiguous in shared memory: K, or its rows (of A) or columns (of B)."""


class Ordering(NamedTuple):
    """An instruction that must stand before or after an atom, and the condition that requires it."""

    instruction: str
    when: str


class Fragment(NamedTuple):
    """An operand in registers: its tile, the bases of registers, lanes and warps of its executor, and how it is passed.

    `operands` values of LLVM type `operand_type`, each `packing` elements.  A register basis indexes the elements of a
    thread in the instruction's operand order; elements that share a 32-bit operand are the lowest register bits,
    element 0 in the low half.
    """

    shape: tuple[int, int]
    bases: Mapping[str, tuple[Basis, ...]]
    operand_type: str
    packing: int

    @property
    def residence(self) -> Residence:
        return "register"

    @property
    def elements(self) -> int:
        """Elements of one thread."""
        return 1 << len(self.bases["register"])

    @property
    def operands(self) -> int:
        return self.elements // self.packing


class SharedTile(NamedTuple):
    """An operand that the instruction reads from shared memory through a matrix descriptor.

    `swizzles`: spans in bytes that the descriptor can name, 0 for none; `atomicity`: bytes that a swizzle keeps
    together, by major-ness.  `spread`: the instruction has twice the rows, and every second group of 16 is left empty.
    """

    shape: tuple[int, int]
    element_bits: int
    majors: tuple[Major, ...]
    swizzles: tuple[int, ...]
    atomicity: Mapping[Major, int]
    spread: bool = False

    @property
    def residence(self) -> Residence:
        return "shared"

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.element_bits // 8


class TensorTile(NamedTuple):
    """An operand in tensor memory: `lanes` (of 128, in each CTA) by `columns` of 32 bits."""

    shape: tuple[int, int]
    element_bits: int
    lanes: int
    columns: int

    @property
    def residence(self) -> Residence:
        return "tensor"


Operand = Fragment | SharedTile | TensorTile


def _ctas(atom: MmaAtom | ScaledMmaAtom) -> int:
    """The number of CTAs that execute the instruction together."""
    return 2 if atom.executor == PAIR else 1


def _cta_rows(atom: MmaAtom | ScaledMmaAtom) -> int:
    """Rows of A and of the result in one CTA."""
    return atom.shape[0] // _ctas(atom)


def _is_spread(atom: MmaAtom | ScaledMmaAtom) -> bool:
    """Whether A is in every second 16 rows of the instruction's."""
    return isinstance(atom.a, SharedTile) and atom.a.spread


class MmaAtom(NamedTuple):
    """`d = a @ b + c`.

    `op` is the operation that executes it, `instruction` its name in PTX, `intrinsic` the name after `llvm.nvvm.`;
    element types are the compiler's (`f16`, `bf16`, `tf32`, `f8E4M3FN`, `i8` ...; an integer type carries its
    signedness as `s8` or `u8`).  C and D are one operand: the location of the accumulator.
    """

    name: str
    shape: tuple[int, int, int]
    a_type: str
    b_type: str
    c_type: str
    a: Operand
    b: Operand
    c: Operand
    requires: str
    intrinsic: str
    source: str
    """The section of the PTX ISA that specifies the position of each element."""
    op: str = ""
    instruction: str = ""
    halves: str = ""
    """The f16 atom that, issued twice (low halves of the operands' words, then high), computes the same.

    Where the machine multiplies no f8 (`fp8_products`), ptxas makes the same of this atom and adds the two results, for
    an addition and a register more for each element of the accumulator.
    """
    executor: Executor = "warp"
    queue: Queue | None = None
    """None: the result is there when the next instruction is issued."""
    before: tuple[Ordering, ...] = ()
    after: tuple[Ordering, ...] = ()
    syntax: str = ""
    """Operands of `instruction` as inline assembly, for those without an intrinsic: `{d}`, `{a}`, `{b}` and
    `{scale_d}` are registers or descriptors, `{trans_a}` and `{trans_b}` 1 for an operand whose major is not K."""
    is_selectable: bool = True
    """False for an instruction that is described but that no pass chooses yet."""

    ctas = property(_ctas)
    cta_rows = property(_cta_rows)
    is_spread = property(_is_spread)


class ScaledMmaAtom(NamedTuple):
    """As MmaAtom, with a scale for every `block` elements along K.

    `kind`, `vector` and `scale_ptx` are PTX's names; the scales of one row or column are the bytes of one operand.
    """

    name: str
    shape: tuple[int, int, int]
    a_type: str
    b_type: str
    c_type: str
    scale_type: str
    block: int
    a: Operand
    b: Operand
    c: Operand
    scale_a: Operand
    scale_b: Operand
    requires: str
    intrinsic: str
    source: str
    kind: str
    vector: str
    scale_ptx: str
    op: str = ""
    instruction: str = ""
    executor: Executor = "warp"
    queue: Queue | None = None
    before: tuple[Ordering, ...] = ()
    after: tuple[Ordering, ...] = ()
    syntax: str = ""
    is_selectable: bool = True

    ctas = property(_ctas)
    cta_rows = property(_cta_rows)
    is_spread = property(_is_spread)


class MatrixForm(NamedTuple):
    """The matrices that an instruction of a warp moves: rows of 16 bytes in shared memory, whose addresses lanes give,
    and 32-bit words in registers.

    A matrix of eight rows is a word of each lane, one of 16 rows is two.  Lane l has in its word h the (l % 4)-th 32
    bits of row l / 4 + 8h, or, `transposed`, of column l / 4 + 8h.
    """

    type: str
    """PTX's name of the elements."""
    rows: int
    transposed: bool
    element_bits: tuple[int, ...]
    """Widths of the elements that it leaves whole."""
    most: int
    """The most matrices of one instruction; fewer are powers of two."""

    @property
    def words(self) -> int:
        """Words of a lane for each matrix."""
        return self.rows // 8


class CopyAtom(NamedTuple):
    """One kind of copy.

    `widths`: bytes of one access of a thread (for matrices, of the rows whose addresses it provides), to which its
    address is aligned; for a box, the innermost row has a multiple of them.  `op` is the operation that performs the
    copy, `instruction` its name in PTX.  For an asynchronous copy `queue` names the mechanism that observes its
    completion, `commit` closes a group and `wait` waits for groups.
    """

    name: str
    origin: Residence
    destination: Residence
    widths: tuple[int, ...]
    requires: str
    op: str
    instruction: str
    source: str
    """The section of the PTX ISA."""
    executor: Executor = "thread"
    queue: Queue | None = None
    commit: str = ""
    wait: str = ""
    matrices: tuple[MatrixForm, ...] = ()
    """The forms of matrices that it moves."""
    combines: bool = False
    """The result is combined with the value at the destination."""
    box: "Box | None" = None
    before: tuple[Ordering, ...] = ()
    after: tuple[Ordering, ...] = ()
    syntax: str = ""
    """Operands of `instruction` as inline assembly, for those without an intrinsic."""
    is_selectable: bool = True

    @property
    def asynchronous(self) -> bool:
        return self.queue is not None


class Box(NamedTuple):
    """The unit that one instruction moves for all threads: a box of a tensor that a map describes, or a run of bytes.

    `ranks`: of the tensor, empty for a run of bytes; `extent`: most elements along a dimension; `swizzles`: spans in
    bytes that shared memory can have, 0 for none.  Where completion is a transaction, its bytes are those of the whole
    box, parts beyond the tensor's edge included (PTX ISA, "Async proxy": out-of-bound elements are filled).
    """

    ranks: tuple[int, ...]
    extent: int
    swizzles: tuple[int, ...]
    alignment: int
    """Of the place in shared memory, in bytes, without a swizzle."""
