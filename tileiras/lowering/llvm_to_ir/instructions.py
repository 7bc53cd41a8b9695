"""One operation of the llvm dialect to its LLVM IR instruction: a table from class to a function that writes it.

A writer takes the function's translation and the operation, and returns the text after `%n = `, or None if it has
written all instructions of the operation with `emit`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tileiras.dialects import llvm
from tileiras.dialects.llvm.types import llvm_text
from tileiras.dialects.nvvm.base import NVVMOp
from tileiras.ir import Operation, StringAttr, Type, Value, VerifyError

from . import nvvm
from .literals import assembly_text

if TYPE_CHECKING:
    from .function import FunctionTranslation

Writer = Callable[["FunctionTranslation", Any], "str | None"]

WRITERS: dict[type[Operation], Writer] = {}


def writes(*classes: type[Operation]) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        for cls in classes:
            WRITERS[cls] = writer
        return writer

    return register


def flags_of(op: Operation) -> str:
    """Fast-math flags with a trailing space."""
    flags = op.fastmathFlags
    return " ".join(flags.flags) + " " if flags is not None and flags.flags else ""


# ---- arithmetic ------------------------------------------------------------------------------------------------------


@writes(llvm.AddOp, llvm.SubOp, llvm.MulOp, llvm.ShlOp)
def _overflow_binary(fn: FunctionTranslation, op: Operation) -> str:
    flags = op.overflowFlags
    # LLVM's own order is nuw before nsw.
    text = "".join(f" {flag}" for flag in ("nuw", "nsw") if flags is not None and flag in flags)
    return f"{op.instruction}{text} {fn.typed(op.lhs)}, {fn.name(op.rhs)}"


@writes(llvm.UDivOp, llvm.SDivOp, llvm.LShrOp, llvm.AShrOp)
def _exact_binary(fn: FunctionTranslation, op: Operation) -> str:
    exact = " exact" if op.isExact is not None else ""
    return f"{op.instruction}{exact} {fn.typed(op.lhs)}, {fn.name(op.rhs)}"


@writes(llvm.URemOp, llvm.SRemOp, llvm.AndOp, llvm.XOrOp)
def _binary(fn: FunctionTranslation, op: Operation) -> str:
    return f"{op.instruction} {fn.typed(op.lhs)}, {fn.name(op.rhs)}"


@writes(llvm.OrOp)
def _or(fn: FunctionTranslation, op: llvm.OrOp) -> str:
    disjoint = " disjoint" if op.isDisjoint is not None else ""
    return f"or{disjoint} {fn.typed(op.lhs)}, {fn.name(op.rhs)}"


@writes(llvm.FAddOp, llvm.FSubOp, llvm.FMulOp, llvm.FDivOp, llvm.FRemOp)
def _float_binary(fn: FunctionTranslation, op: Operation) -> str:
    return f"{op.instruction} {flags_of(op)}{fn.typed(op.lhs)}, {fn.name(op.rhs)}"


@writes(llvm.FNegOp)
def _fneg(fn: FunctionTranslation, op: llvm.FNegOp) -> str:
    return f"fneg {flags_of(op)}{fn.typed(op.operands[0])}"


@writes(llvm.ICmpOp)
def _icmp(fn: FunctionTranslation, op: llvm.ICmpOp) -> str:
    return f"icmp {op.predicate.value} {fn.typed(op.lhs)}, {fn.name(op.rhs)}"


@writes(llvm.FCmpOp)
def _fcmp(fn: FunctionTranslation, op: llvm.FCmpOp) -> str:
    return f"fcmp {flags_of(op)}{op.predicate.value.lstrip('_')} {fn.typed(op.lhs)}, {fn.name(op.rhs)}"


@writes(llvm.SelectOp)
def _select(fn: FunctionTranslation, op: llvm.SelectOp) -> str:
    values = ", ".join(map(fn.typed, (op.condition, op.trueValue, op.falseValue)))
    return f"select {flags_of(op)}{values}"


@writes(
    llvm.TruncOp, llvm.SExtOp, llvm.FPTruncOp, llvm.FPExtOp, llvm.FPToSIOp, llvm.FPToUIOp, llvm.SIToFPOp,
    llvm.UIToFPOp, llvm.PtrToIntOp, llvm.IntToPtrOp, llvm.AddrSpaceCastOp, llvm.BitcastOp,
)  # fmt: skip
def _cast(fn: FunctionTranslation, op: Operation) -> str:
    return f"{op.instruction} {fn.typed(op.arg)} to {llvm_text(op.res.type)}"


@writes(llvm.ZExtOp)
def _zext(fn: FunctionTranslation, op: llvm.ZExtOp) -> str:
    nneg = " nneg" if op.nonNeg is not None else ""
    return f"zext{nneg} {fn.typed(op.arg)} to {llvm_text(op.res.type)}"


# ---- vectors and structs ---------------------------------------------------------------------------------------------


@writes(llvm.ExtractElementOp)
def _extractelement(fn: FunctionTranslation, op: llvm.ExtractElementOp) -> str:
    return f"extractelement {fn.typed(op.vector)}, {fn.typed(op.position)}"


@writes(llvm.InsertElementOp)
def _insertelement(fn: FunctionTranslation, op: llvm.InsertElementOp) -> str:
    return f"insertelement {fn.typed(op.vector)}, {fn.typed(op.value)}, {fn.typed(op.position)}"


@writes(llvm.ShuffleVectorOp)
def _shufflevector(fn: FunctionTranslation, op: llvm.ShuffleVectorOp) -> str:
    positions = ", ".join("i32 poison" if n < 0 else f"i32 {n}" for n in op.mask)
    return f"shufflevector {fn.typed(op.v1)}, {fn.typed(op.v2)}, <{len(op.mask)} x i32> <{positions}>"


@writes(llvm.ExtractValueOp)
def _extractvalue(fn: FunctionTranslation, op: llvm.ExtractValueOp) -> str:
    return f"extractvalue {fn.typed(op.container)}, {', '.join(map(str, op.position))}"


@writes(llvm.InsertValueOp)
def _insertvalue(fn: FunctionTranslation, op: llvm.InsertValueOp) -> str:
    return f"insertvalue {fn.typed(op.container)}, {fn.typed(op.value)}, {', '.join(map(str, op.position))}"


# ---- memory ----------------------------------------------------------------------------------------------------------


@writes(llvm.GEPOp)
def _getelementptr(fn: FunctionTranslation, op: llvm.GEPOp) -> str:
    inbounds = "inbounds " if op.inbounds is not None else ""
    indices = ", ".join(f"i32 {index}" if isinstance(index, int) else fn.typed(index) for index in op.indices())
    return f"getelementptr {inbounds}{llvm_text(op.elem_type)}, {fn.typed(op.base)}, {indices}"


def scope_text(scope: StringAttr | None) -> str:
    return f'syncscope("{scope.value}") ' if scope is not None and scope.value else ""


def _access_suffix(fn: FunctionTranslation, op: llvm.LoadOp | llvm.StoreOp) -> str:
    text = f", align {op.alignment.value}" if op.alignment is not None else ""
    if getattr(op, "invariant", None) is not None:
        text += f", !invariant.load {fn.module.metadata('')}"
    if op.nontemporal is not None:
        text += f", !nontemporal {fn.module.metadata('i32 1')}"
    return text


def _atomic(op: llvm.LoadOp | llvm.StoreOp) -> tuple[str, str]:
    """The text before and after the operands of an atomic access, empty for a plain one."""
    if op.ordering is None or op.ordering.value == "not_atomic":
        return "", ""
    return "atomic ", f" {scope_text(op.syncscope)}{op.ordering.value}"


@writes(llvm.LoadOp)
def _load(fn: FunctionTranslation, op: llvm.LoadOp) -> str:
    before, after = _atomic(op)
    volatile = "volatile " if op.volatile_ is not None else ""
    address = fn.typed(op.addr)
    return f"load {before}{volatile}{llvm_text(op.res.type)}, {address}{after}{_access_suffix(fn, op)}"


@writes(llvm.StoreOp)
def _store(fn: FunctionTranslation, op: llvm.StoreOp) -> str:
    before, after = _atomic(op)
    volatile = "volatile " if op.volatile_ is not None else ""
    return f"store {before}{volatile}{fn.typed(op.value)}, {fn.typed(op.addr)}{after}{_access_suffix(fn, op)}"


@writes(llvm.AllocaOp)
def _alloca(fn: FunctionTranslation, op: llvm.AllocaOp) -> str:
    alignment = f", align {op.alignment.value}" if op.alignment is not None else ""
    space = f", addrspace({op.res.type.address_space})" if op.res.type.address_space else ""
    return f"alloca {llvm_text(op.elem_type)}, {fn.typed(op.arraySize)}{alignment}{space}"


@writes(llvm.AtomicRMWOp)
def _atomicrmw(fn: FunctionTranslation, op: llvm.AtomicRMWOp) -> str:
    alignment = f", align {op.alignment.value}" if op.alignment is not None else ""
    order = f"{scope_text(op.syncscope)}{op.ordering.value}"
    return f"atomicrmw {op.bin_op.value} {fn.typed(op.ptr)}, {fn.typed(op.val)} {order}{alignment}"


@writes(llvm.AtomicCmpXchgOp)
def _cmpxchg(fn: FunctionTranslation, op: llvm.AtomicCmpXchgOp) -> str:
    alignment = f", align {op.alignment.value}" if op.alignment is not None else ""
    order = f"{scope_text(op.syncscope)}{op.success_ordering.value} {op.failure_ordering.value}"
    return f"cmpxchg {fn.typed(op.ptr)}, {fn.typed(op.cmp)}, {fn.typed(op.val)} {order}{alignment}"


@writes(llvm.FenceOp)
def _fence(fn: FunctionTranslation, op: llvm.FenceOp) -> str:
    return f"fence {scope_text(op.syncscope)}{op.ordering.value}"


@writes(llvm.FakeUseOp)
def _fake_use(fn: FunctionTranslation, op: llvm.FakeUseOp) -> str:
    fn.module.declare("llvm.fake.use", "void", ["..."])
    return f"call void (...) @llvm.fake.use({fn.typed(op.value)})"


@writes(llvm.DbgValueOp, llvm.DbgDeclareOp)
def _debug_record(fn: FunctionTranslation, op: Operation) -> None:
    """A record is no instruction: the function writes it, where there is debug information for values."""


# ---- control ---------------------------------------------------------------------------------------------------------


@writes(llvm.BrOp)
def _br(fn: FunctionTranslation, op: llvm.BrOp) -> str:
    annotation = op.loop_annotation
    if annotation is None or not annotation.unroll_disable:
        return f"br label {fn.label(op.dest)}"
    return f"br label {fn.label(op.dest)}, !llvm.loop {fn.module.loop('llvm.loop.unroll.disable')}"


@writes(llvm.CondBrOp)
def _cond_br(fn: FunctionTranslation, op: llvm.CondBrOp) -> str:
    text = f"br {fn.typed(op.condition)}, label {fn.label(op.trueDest)}, label {fn.label(op.falseDest)}"
    if op.branch_weights is None:
        return text
    node = ", ".join(['!"branch_weights"', *(f"i32 {weight}" for weight in op.branch_weights)])
    return f"{text}, !prof {fn.module.metadata(node)}"


@writes(llvm.SwitchOp)
def _switch(fn: FunctionTranslation, op: llvm.SwitchOp) -> str:
    kind = llvm_text(op.value.type)
    cases = " ".join(f"{kind} {v}, label {fn.label(b)}" for v, b in zip(op.case_values, op.caseDestinations))
    return f"switch {fn.typed(op.value)}, label {fn.label(op.defaultDestination)} [{cases}]"


@writes(llvm.UnreachableOp)
def _unreachable(fn: FunctionTranslation, op: llvm.UnreachableOp) -> str:
    return "unreachable"


@writes(llvm.ReturnOp)
def _return(fn: FunctionTranslation, op: llvm.ReturnOp) -> str:
    return f"ret {fn.typed(op.arg)}" if op.arg is not None else "ret void"


# ---- calls -----------------------------------------------------------------------------------------------------------


@writes(llvm.CallOp)
def _call(fn: FunctionTranslation, op: llvm.CallOp) -> str:
    result = llvm_text(op.res.type) if op.res is not None else "void"
    name = op.callee.root
    fn.module.require_function(name, result, [llvm_text(v.type) for v in op.callee_operands])
    suffix = " memory(none)" if op.no_memory is not None else " convergent" if op.convergent is not None else ""
    return f"call {flags_of(op)}{result} @{name}({fn.arguments(op.callee_operands)}){suffix}"


def intrinsic_call(
    fn: FunctionTranslation, name: str, result: Type, values: list[Value | str], types: list[str], flags: str = ""
) -> str:
    """A call of `llvm.<name>`; an item of `values` that is text is emitted verbatim."""
    result_text = llvm_text(result) if result is not None else "void"
    fn.module.declare("llvm." + name, result_text, types)
    arguments = ", ".join(f"{t} {v if isinstance(v, str) else fn.name(v)}" for t, v in zip(types, values))
    return f"call {flags}{result_text} @llvm.{name}({arguments})"


@writes(llvm.CallIntrinsicOp)
def _call_intrinsic(fn: FunctionTranslation, op: llvm.CallIntrinsicOp) -> str:
    result = op.res.type if op.res is not None else None
    types = [llvm_text(v.type) for v in op.args]
    return intrinsic_call(fn, op.intrin.value.removeprefix("llvm."), result, list(op.args), types, flags_of(op))


def _intrinsic(fn: FunctionTranslation, op: Operation) -> str:
    kind = op.overloaded_type
    name = op.intrinsic if kind is None else f"{op.intrinsic}.{llvm.mangled(kind)}"
    values: list[Any] = list(op.operands)
    types = [llvm_text(v.type) for v in op.operands]
    if op.row.shape == "flag":
        values.append("true" if op.flag is not None and op.flag.value else "false")
        types.append("i1")
    result = op.results[0].type if op.results else None
    return intrinsic_call(fn, name, result, values, types, flags_of(op) if kind is not None else "")


@writes(llvm.InlineAsmOp)
def _inline_asm(fn: FunctionTranslation, op: llvm.InlineAsmOp) -> str:
    if op.min_ptx is not None:
        major, _, minor = op.min_ptx.value.partition(".")
        # The first word after the predicate and the brace of a scope, if there are any.
        match = re.search(r"(?:^|[{;\s])([a-z][a-z0-9_]*(?:[.:]+[a-z0-9_]+)+)", op.asm_string.value)
        fn.module.require((int(major), int(minor)), f"'{match[1]}'" if match else "inline assembly")
    result = llvm_text(op.res.type) if op.res is not None else "void"
    effects = op.has_side_effects is not None
    return assembly_text(op.asm_string.value, op.constraints.value, effects, result, fn.arguments(op.asm_operands))


def write(fn: FunctionTranslation, op: Operation) -> str | None:
    """The instruction for an operation; raises VerifyError for one that is not of the llvm or nvvm dialects."""
    writer = WRITERS.get(type(op))
    if writer is None:
        if isinstance(op, NVVMOp):
            return nvvm.write(fn, op)
        if isinstance(op, llvm.IntrinsicOp):
            return _intrinsic(fn, op)
        raise VerifyError("has no LLVM IR: it should have been lowered before")
    return writer(fn, op)
