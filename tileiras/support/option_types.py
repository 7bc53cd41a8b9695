"""Types of the keywords of `tileiras.compile`, for type checkers and editors; never loaded by a program.

One line per row of `tileiras.options.OPTIONS`, which is the source (`tests/test_typed_names.py` compares both).  Values
may be words of a command line (`"4"`, `"true"`) as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class CompileKeywords(TypedDict, total=False):
    """The options of the compiler besides `gpu_name` and `opt_level`, under their names in Python."""

    lineinfo: bool | str
    device_debug: bool | str
    bytecode_version: str | None
    num_warps: int | str | None
    num_ctas: int | str | None
    legalize_types: bool | str
    pipeline_strategy: str
    v2_opt_level: int | str
    max_constraint_iterations: int | str
    rrt_size_threshold: int | str
    opt_bisect_limit: int | str | None
    enable_random_delay: bool | str
    unspecialized_pipeline_num_stages: int | str | None
    tensor_maps: str
    deterministic: str
    index_bitwidth: int | str
    ftz: bool | str
    approx: bool | str
    ptx_version: str | None
    parameter_ceiling: str
    tile_launch: bool | str
    host_arch: str | None
    host_os: str | None
    emit_remarks: bool | str
    sanitize: str | None
    assembler: str
    ptxas_options: Sequence[str] | str
    apply_controls: str | None
    ptxas: str | None
    child_timeout: int | str
    dump_sass_command: str
    blob_linked_lib: Sequence[str] | str
    device_libraries: Sequence[str] | str
    libdevice: str | None
    line_info: bool | str
