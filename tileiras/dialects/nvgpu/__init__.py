"""The nvgpu dialect: instructions of the machine, as one thread, warp or warpgroup issues them.

Products of matrices, movements between memories, mbarriers, barriers and fences, with MLIR's names where its dialect
has the operation.  Operands are registers and pointers of llvm.  `rows.ROWS` is the table of the operations; it says of
each whether LLVM has an intrinsic for it or gets inline assembly.
"""

from tileiras.support.lazy import lazy_names

_LAZY = {"NVGPU": "ops", "NVGPUOp": "ops", "MachineOp": "ops", "ROWS": "rows", "generate": "ops"}

__getattr__ = lazy_names(__name__, globals(), _LAZY)
