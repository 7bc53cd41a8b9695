"""Functions of nv_tileaa through the decisions of TileAS, in the order in which the compiler takes them."""

from __future__ import annotations

from typing import Any

from tileiras.diagnostics import DiagnosticEngine
from tileiras.ir import verify
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.tileir_pipeline import tileas_passes

LAYOUTS = "tileas-remove-layout-conversions"
"""The row behind which every tile has a layout."""

PIPELINED = "tileas-spill-loop-carried"
"""The row behind which loops are what their schedules say."""

PLACED = "tileas-optimize-alloc-tensor"
"""The last row: buffers have their places."""


def through(
    module: Any, to: str = "", gpu: str = "sm_90", engine: DiagnosticEngine | None = None, **options: Any
) -> Any:
    """The module after the rows up to `to`, of `from_` on if that is given; `options` are those of `tileas{...}`."""
    given = {"compute-capability": gpu.rstrip("af"), **({"to": to} if to else {})}
    given.update((name.rstrip("_").replace("_", "-"), value) for name, value in options.items() if value is not None)
    passes = tileas_passes(" ".join(f"{name}={value}" for name, value in given.items()))
    # Texts may be for another GPU than the one that they are compiled for here, which verifiers do not let pass.
    PassManager(passes, verify_each=False).run(module, PassContext(engine))
    verify(module)
    return module
