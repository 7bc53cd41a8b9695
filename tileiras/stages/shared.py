"""Object code of a CPU -> a shared library: the bytes of NAME.cpu.so.

In: the bytes of NAME.cpu.o, or an archive of several objects.
"""

from __future__ import annotations

from tileiras.codegen import cpu_object, shared_library
from tileiras.stages import StageContext, StageOptions, StageResult


def run(source: bytes, options: StageOptions, context: StageContext) -> StageResult:
    target = cpu_object.require_target(options.gpu_name, context.location)
    return StageResult(shared_library.link(source, target, context.location))
