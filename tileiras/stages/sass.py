"""cubin -> its machine code as text, through nvdisasm.

In: the bytes of NAME.cubin.  Out: the bytes of NAME.sass.
"""

from __future__ import annotations

from tileiras.codegen import nvdisasm
from tileiras.stages import StageContext, StageOptions, StageResult


def run(source: bytes, options: StageOptions, context: StageContext) -> StageResult:
    text = nvdisasm.disassemble(
        source, options.dump_sass_command, timeout=options.child_timeout or None, location=context.location
    )
    return StageResult(text.encode())
