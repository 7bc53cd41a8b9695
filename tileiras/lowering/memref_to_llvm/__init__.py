"""Memory of the module, and its addresses, to llvm.

    memref.global @g {value = dense<...>}    ->   llvm.mlir.global external @g(dense<...>) {addr_space = 1}
    memref.get_global @g : !llvm.ptr<1>      ->   llvm.mlir.addressof @g : !llvm.ptr<1>
"""

from __future__ import annotations

from tileiras.dialects import llvm, memref
from tileiras.ir import DenseElementsAttr, TensorType, i8
from tileiras.lowering.tileas_to_llvm.emit.types import held_bits, memory_type


def convert_global(op: memref.GlobalOp) -> None:
    """Replace a variable by that of llvm; two elements of four bits share a byte."""
    element, patterns = op.value.type.element_type, op.value.element_bits()
    if element.width == 4:
        padded = [*patterns, 0]
        storage_type, patterns = i8, [padded[n] & 15 | padded[n + 1] << 4 for n in range(0, len(patterns), 2)]
    else:
        storage_type = memory_type(element)
    size = storage_type.width // 8
    data = b"".join((held_bits(element, p) & 256**size - 1).to_bytes(size, "little") for p in patterns)
    value = DenseElementsAttr(TensorType((len(patterns),), storage_type), data)
    alignment = max(op.alignment.value, size) if op.alignment is not None else size
    # The host may write a public global between launches, even a constant: its contents are not known.
    lowered = llvm.GlobalOp(
        sym_name=op.sym_name,
        global_type=llvm.LLVMArrayType(len(patterns), storage_type),
        linkage=llvm.LinkageAttr("internal" if op.is_private else "external"),
        constant=op.constant if op.is_private else None,
        value=value,
        addr_space=1,
        alignment=alignment,
        location=op.location,
    )
    op.parent.insert_before(lowered, op)  # type: ignore[union-attr]
    op.erase()


def convert_address(op: memref.GetGlobalOp) -> None:
    op.attributes = {"global_name": op.symbol}
    op.become(llvm.AddressOfOp)
