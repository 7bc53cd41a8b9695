"""The calls of `tileiras` by front ends that are not run here, as their public sources have them.

A line is a command line as the front end writes it, with `{name}` for paths and targets.  The first word is the
program; `expect` names the function of `test_front_ends.py` that reads the answer as the front end does.
"""

from __future__ import annotations

from typing import NamedTuple


class Call(NamedTuple):
    line: str
    expect: str


class FrontEnd(NamedTuple):
    name: str
    source: str
    """Repository and file of the calls."""
    environment: dict[str, str]
    """Variables that it sets for the program."""
    calls: tuple[Call, ...]


FRONT_ENDS = (
    FrontEnd(
        "cutile-rs",
        "NVlabs/cutile-rs: cutile-compiler/src/cuda_tile_runtime_utils.rs; compatibility page: --list-versions",
        {},
        (
            Call("tileiras --version", "identity"),
            Call("tileiras --list-versions", "versions"),
            Call("tileiras --gpu-name sm_120 -o {cubin} {probe}", "cubin"),
            Call("tileiras --gpu-name sm_120 -o {cubin} {unknown}", "refusal"),
            Call("tileiras --gpu-name {gpu} --opt-level 3 -o {cubin} {bytecode}", "cubin"),
            Call("tileiras --gpu-name {gpu} --opt-level 3 -o {cubin} {invalid}", "refusal"),
        ),
    ),
    FrontEnd(
        "cuTile.jl",
        "JuliaGPU/cuTile.jl: src/launch.jl, src/compiler/reflection.jl",
        {"CUDA_ROOT": "{folder}"},
        (
            Call("tileiras --version", "release"),
            Call("tileirdisasm --version", "release"),
            Call("tileiras {empty} -o {cubin} --gpu-name sm_100", "success"),
            Call("tileiras {unknown} -o {cubin} --gpu-name sm_100", "refusal"),
            Call("tileiras {bytecode} -o {cubin} --gpu-name {gpu} -O3 --lineinfo", "cubin"),
            Call(
                "tileiras {bytecode} -o {cubin} --gpu-name {gpu} -O3 --lineinfo "
                "--remark-format=yaml --remarks=all --remarks-output-file={remarks}",
                "remarks",
            ),
            Call("tileirdisasm {bytecode}", "text"),
            Call("tileirdisasm --print-debug-info {bytecode}", "text"),
        ),
    ),
    FrontEnd(
        "Triton-to-tile-IR",
        "triton-lang/Triton-to-tile-IR: third_party/tileir/backend/compiler.py, conf.py",
        {},
        (
            Call("tileiras --gpu-name={gpu} --opt-level=3 {bytecode} -o {bytecode}.cubin", "cubin"),
            Call("tileiras --gpu-name={gpu} --opt-level=0 {bytecode} -o {bytecode}.cubin", "cubin"),
            Call("tileiras --gpu-name={gpu} --opt-level=3 {invalid} -o {invalid}.cubin", "refusal"),
        ),
    ),
    FrontEnd(
        "tensor-ir",
        "NVIDIA/tensor-ir: lib/Compiler/CudaTile/TileIRAssembly.cpp",
        {},
        (
            Call("tileiras --list-versions", "versions"),
            Call("tileiras --gpu-name={gpu} --output-file={cubin} {bytecode}", "cubin"),
            Call("tileiras --gpu-name={gpu} --output-file={cubin} {invalid}", "refusal"),
        ),
    ),
    FrontEnd(
        "XLA and ZML",
        "XLA: xla/backends/gpu/codegen/tile_ir/tileiras_compiler.cc, stream_executor/cuda/subprocess_compilation.cc",
        {},
        (
            Call("tileiras --version", "release"),
            Call("tileiras {bytecode} -o {cubin} --gpu-name {gpu}", "cubin"),
            Call("tileiras {invalid} -o {cubin} --gpu-name {gpu}", "refusal"),
        ),
    ),
    FrontEnd(
        "nvcc",
        "nvcc 13.5 --enable-tile --dryrun; test_nvcc.py runs it where it is installed",
        {},
        (
            Call("tileiras --host-arch=x86_64 --host-os=linux -arch={gpu} {bytecode} -o {cubin}", "cubin"),
            Call("tileiras --host-arch=aarch64 --host-os=linux -arch={gpu} {bytecode} -o {cubin}", "cubin"),
        ),
    ),
)
