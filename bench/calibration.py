"""How fast this machine is now: a fixed loop of pure Python and a fixed LLVM module.

Figures of different machines, or of one machine under different load, compare as ratios to these.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def best(function: Callable[[], object], repeat: int = 5) -> float:
    """Seconds of the fastest of several runs: the cost of the undisturbed work."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


class _Node:
    __slots__ = ("value", "next")

    def __init__(self, value: int, next: _Node | None) -> None:
        self.value = value
        self.next = next


def python_loop() -> int:
    """Objects, attributes, dictionaries and calls, in about the mixture that a compiler has."""
    table: dict[int, _Node] = {}
    head = None
    for number in range(100_000):
        head = _Node(number, head)
        table[number & 4095] = head
    total = 0
    while head is not None:
        total += table[head.value & 4095].value
        head = head.next
    return total


def llvm_module() -> str:
    """One straight function of 3,000 instructions."""
    lines = ["define float @f(float %v0, float %x) {"]
    operations = ("fadd", "fmul", "fsub")
    for number in range(3000):
        operands = f"%v{number}, %x" if number % 7 else f"%x, %v{number}"
        lines.append(f"  %v{number + 1} = {operations[number % 3]} float {operands}")
    return "\n".join([*lines, "  ret float %v3000", "}", ""])


def llvm_run() -> None:
    """Parse and optimize the fixed module."""
    import llvmlite.binding as llvm

    from tileiras.codegen.target_machine import TRIPLE, initialize

    initialize()
    module = llvm.parse_assembly(llvm_module())
    target = llvm.Target.from_triple(TRIPLE)
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(target.create_target_machine(cpu="sm_80"), tuning)
    builder.getModulePassManager().run(module, builder)


def measure() -> tuple[float, float]:
    """Seconds of (the Python loop, the LLVM module)."""
    return best(python_loop), best(llvm_run, 3)


def main() -> None:
    loop, module = measure()
    print(f"calibration: python loop {loop * 1000:.1f} ms, LLVM module {module * 1000:.1f} ms")
