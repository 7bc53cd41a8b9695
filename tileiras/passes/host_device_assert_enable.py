"""`host-device-assert-enable`: assertions call the function that the driver provides (CUDA C++ Programming Guide,
"Assertion").

    cf.assert %ok, "message"   ->     llvm.cond_br %failed, ^inside, ^after
                                    ^inside:
                                      llvm.call @__assertfail(message, file, line, function, size of a character)

File and line are empty: where the kernel was written is no part of the artifact.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.llvm_functions import code_modules, operations_of
from tileiras.dialects import cf, llvm
from tileiras.ir import Block, Builder, IntegerAttr, Operation, Pass, SymbolRefAttr, Value, i1, i32, i64

FAILED = "__assertfail"

GENERIC, GLOBAL = llvm.LLVMPointerType(0), llvm.LLVMPointerType(1)


class HostDeviceAssertEnable(Pass):
    name = "host-device-assert-enable"
    anchor = "builtin.module"
    needs = "functions of `llvm`"
    establishes = "calls of the driver's function in the place of `cf.assert`"
    keeps = "other operations"
    introduces = ()

    def run(self, op: Operation, context: object) -> None:
        for module in code_modules(op):
            block = module.regions[0].block
            for function in [each for each in block.operations if isinstance(each, llvm.LLVMFuncOp)]:
                result = [] if function.is_declaration else list(operations_of(function))
                asserts = [inner for inner in result if isinstance(inner, cf.AssertOp)]
                if asserts:
                    _Asserts(function, block).lower(asserts)


class _Asserts:
    """The assertions of one function: the strings that their calls take, and their blocks."""

    def __init__(self, function: llvm.LLVMFuncOp, module: Block) -> None:
        self._function, self._module = function, module
        self._symbols = {op.attributes["sym_name"].value for op in module.operations if "sym_name" in op.attributes}  # type: ignore[attr-defined]
        self._addresses: dict[str, Value] = {}
        self._last: Operation | None = None
        """The last of the operations at the head of the function that compute addresses."""

    def lower(self, asserts: list[cf.AssertOp]) -> None:
        if FAILED not in self._symbols:
            types = [GENERIC, GENERIC, i32, GENERIC, i64]
            self._module.append(llvm.LLVMFuncOp.declare(FAILED, types, location=asserts[0].location))
        for each in asserts:
            self._lower(each)

    def _lower(self, op: cf.AssertOp) -> None:
        block, place = op.parent, op.location
        after, inside = block.split_before(op), Block()  # type: ignore[union-attr]
        region = self._function.regions[0]
        region.insert_after(inside, block)
        builder = Builder.at_end(block, place)
        failed = builder.insert(llvm.XOrOp(op.arg, _constant(builder, 1, i1))).results[0]
        builder.insert(llvm.CondBrOp(failed, [], [], trueDest=inside, falseDest=after))
        message, file, name = map(self._address, (op.msg.value, "", self._function.sym_name.value))
        builder = Builder.at_end(inside, place)
        arguments = [message, file, _constant(builder, 0, i32), name, _constant(builder, 1, i64)]
        builder.insert(llvm.CallOp(arguments, callee=SymbolRefAttr(FAILED), res=None))
        builder.insert(llvm.BrOp([], dest=after))
        op.erase()

    def _address(self, text: str) -> Value:
        """The generic address of a zero-terminated string in global memory."""
        result = self._addresses.get(text)
        if result is None:
            number = len(self._addresses)
            while (name := f"{self._function.sym_name.value}_string_{number}") in self._symbols:
                number += 1
            self._symbols.add(name)
            self._module.insert_before(llvm.string_constant(name, text, self._function.location), self._function)
            entry = self._function.regions[0].blocks[0]
            head = Builder.at_start(entry) if self._last is None else Builder.after(self._last)
            head.location = self._function.location
            address = head.insert(llvm.AddressOfOp(global_name=SymbolRefAttr(name), res=GLOBAL))
            self._last = head.insert(llvm.AddrSpaceCastOp(address.results[0], res=GENERIC))
            result = self._addresses[text] = self._last.results[0]
        return result


def _constant(builder: Builder, value: int, type: Any) -> Value:
    return builder.insert(llvm.ConstantOp(IntegerAttr(value, type), type)).results[0]
