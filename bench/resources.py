"""Registers, shared memory, local memory and instructions of our cubins and the vendor's, side by side.

    python -m bench.resources [--targets sm_90,...] [--vendor-threads] [FILE-OR-FOLDER ...]

Both are asked of cuobjdump (`-res-usage`, `-sass`, `-elf`).  `local` is bytes of a thread's local memory: spilled
registers, and arrays that are indexed by a variable.  Shared memory is that of a launch: static, and of ours the size
in NAME.json.  `wide` and `narrow` are the instructions that access global memory with 16 bytes for a thread or more,
and with less; bulk copies (TMA) are neither.

Ours have the number of threads that they would have anyway.  With `--vendor-threads` they have as many as the vendor's,
or the power of two below: those that the vendor's specialised warps leave to the others.  At the end the kernels are
repeated whose local memory is above the vendor's.  The kernels of the front end's samples and benchmarks are left in a
folder by `tests/conformance/front_end_samples.py CHECKOUT --parts samples,benchmarks --keep FOLDER`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from bench.kernels import collect
from bench.whole_process import TARGETS, vendor_tool
from tileiras import api
from tileiras.codegen import bitcode_library, toolkit
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions
from tileiras.stages import units


class Usage(NamedTuple):
    threads: int
    registers: int
    shared: int
    local: int
    instructions: int
    wide: int
    narrow: int


_THREADS = re.compile(r"^\.nv\.info\.(\S+)$|EIATTR_(?:REQNTID|MAX_THREADS)\s.*\s.*\sValue:((?:\s+0x[0-9a-f]+)+)", re.M)

_GLOBAL = re.compile(r"\b(?:LDG|STG|LDGSTS)\.[\w.]+")


def usage(cuobjdump: str, path: str) -> dict[str, Usage]:
    """The output of cuobjdump for each function of a cubin."""
    text = subprocess.run([cuobjdump, "-res-usage", path], capture_output=True, text=True, check=True).stdout
    sass = subprocess.run([cuobjdump, "-sass", path], capture_output=True, text=True, check=True).stdout
    elf = subprocess.run([cuobjdump, "-elf", path], capture_output=True, text=True, check=True).stdout
    threads: dict[str, int] = {}
    for name, extents in _THREADS.findall(elf):
        if name:
            current = name
        else:
            threads[current] = prod(int(extent, 16) for extent in extents.split())
    counts: dict[str, tuple[int, int, int]] = {}
    for part in sass.split("Function : ")[1:]:
        # The padding behind the last branch is no instruction of the kernel.
        body = re.sub(r"(?:\n.*\bNOP ?;.*|\n\s+/\* 0x[0-9a-f]+ \*/)+\s*(?:\.{3,})?\s*\Z", "", part)
        accesses = _GLOBAL.findall(body)
        wide = sum(any(width in access for width in (".128", ".256")) for access in accesses)
        total = len(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/", body, re.MULTILINE))
        counts[part.split(None, 1)[0]] = total, wide, len(accesses) - wide
    result = {}
    for name, line in re.findall(r"Function (\S+):\n\s*(.*)", text):
        numbers = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", line)}
        local = numbers["LOCAL"] + numbers["STACK"]
        result[name] = Usage(
            threads.get(name, 0), numbers["REG"], numbers["SHARED"], local, *counts.get(name, (0, 0, 0))
        )
    return result


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="resources")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--vendor-threads", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    cuobjdump, vendor = toolkit.find_program("cuobjdump"), vendor_tool()
    if cuobjdump is None or toolkit.find_program("ptxas") is None:
        print("resources: needs cuobjdump and ptxas")
        return
    store = bitcode_library.MemoryStore()
    columns = "".join(
        f"{name:>9}{'vendor':>8}" for name in ("threads", "regs", "shared", "local", "instrs", *Usage._fields[5:])
    )
    print(f"{'kernel':<30}{'target':>8}{columns}")
    above, rows = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for kernel in collect(folder, options.files):
            for target in options.targets.split(","):
                if int(target[3:]) < kernel.lowest:
                    continue
                theirs = _vendors(kernel.path, target, folder, cuobjdump, vendor)
                threads = {use.threads for use in theirs.values()} if options.vendor_threads else set()
                values = {"gpu-name": target}
                if len(threads) == 1 and (warps := threads.pop() // 32):
                    values["num-warps"] = 1 << (warps.bit_length() - 1)
                try:
                    mine = _ours(kernel.path, CompileOptions(values), folder, cuobjdump, store)
                except CompileError as error:
                    print(f"{os.path.basename(kernel.path)[:29]:<30}{target:>8}  {error.diagnostics[0]}", flush=True)
                    continue
                for name, use in mine.items():
                    row = f"{name[:29]:<30}{target:>8}{_cells(use, theirs.get(name))}"
                    print(row, flush=True)
                    if name in theirs:
                        rows += 1
                        above += [row] if use.local > theirs[name].local else []
    if rows:
        print(f"local memory above the vendor's: {len(above)} of {rows}", *above, sep="\n")


def _vendors(path: str, target: str, folder: str, cuobjdump: str, vendor: str | None) -> dict[str, Usage]:
    """Of the vendor's cubin; nothing where there is no tool, or it refuses."""
    cubin = os.path.join(folder, "vendor.cubin")
    if vendor is None:
        return {}
    command = [vendor, path, "--gpu-name", target, "-O3", "-o", cubin]
    done = subprocess.run(command, capture_output=True, check=False)
    return {} if done.returncode else usage(cuobjdump, cubin)


def _ours(
    path: str, options: CompileOptions, folder: str, cuobjdump: str, store: bitcode_library.MemoryStore
) -> dict[str, Usage]:
    """Of our cubin, with the shared memory that the launch gives.  Raises CompileError."""
    artifact = api.compile_with(units.Source.read(path), options, "cubin", store=store)
    cubin = os.path.join(folder, "own.cubin")
    with open(cubin, "wb") as file:
        file.write(artifact.data)
    result = usage(cuobjdump, cubin)
    for entry in artifact.kernels:
        shared = (entry.metadata or {}).get("shared_memory", 0)
        result[entry.name] = result[entry.name]._replace(shared=result[entry.name].shared + shared)
    return result


def _cells(mine: Usage, yours: Usage | None) -> str:
    return "".join(
        f"{getattr(mine, field):9}{'-' if yours is None else getattr(yours, field):>8}" for field in Usage._fields
    )


if __name__ == "__main__":
    main(sys.argv[1:])
