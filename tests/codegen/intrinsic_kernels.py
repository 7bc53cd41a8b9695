"""Kernels of LLVM IR, each with a call of one of NVVM's intrinsics."""

from __future__ import annotations

from tileiras.codegen.target_machine import processor
from tileiras.dialects.nvvm.intrinsics import INTRINSICS, Intrinsic

SHORT = {"p1": "ptr addrspace(1)", "p3": "ptr addrspace(3)"}


def declare(row: Intrinsic) -> str:
    return f"declare {row.result} @llvm.nvvm.{row.name}({', '.join(SHORT.get(t, t) for t in row.operands)})"


def kernel(number: int, row: Intrinsic) -> str:
    """A kernel that only calls the intrinsic with its parameters and stores its result."""
    types = [SHORT.get(t, t) for t in row.operands]
    parameters = "".join(f", {t} %a{i}" for i, t in enumerate(types))
    arguments = ", ".join(f"{t} 3" if i in row.immediates else f"{t} %a{i}" for i, t in enumerate(types))
    call = f"call {row.result} @llvm.nvvm.{row.name}({arguments})"
    if row.result != "void":
        call = f"%r = {call}\n  store {row.result} %r, ptr addrspace(1) %out"
    return f"define ptx_kernel void @k{number}(ptr addrspace(1) %out{parameters}) {{\n  {call}\n  ret void\n}}"


def lowest_chip(row: Intrinsic) -> str:
    return "sm_" + row.sm.lstrip("=").split(",")[0]


def by_target() -> list[tuple[str, tuple[int, int]]]:
    return sorted({(lowest_chip(row), max(row.ptx, processor(lowest_chip(row)).ptx)) for row in INTRINSICS.values()})
