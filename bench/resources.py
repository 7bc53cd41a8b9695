"""Registers, shared memory, local memory and instructions of our cubins and the vendor's, side by side.

    python -m bench.resources [--targets sm_90,...] [FILE-OR-FOLDER ...]

Both are asked of cuobjdump (`-res-usage`, `-sass`).  `local` is bytes of a thread's local memory: what registers were
spilled to, and arrays that are indexed by a variable.  Shared memory is what a launch needs: static, and of ours what
NAME.json says.  `wide` and `narrow` are the instructions that access global memory with 16 bytes for a thread or more,
and with less; bulk copies (TMA) are neither.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from bench.kernels import collect
from bench.whole_process import TARGETS, vendor_tool
from tileiras import api, units
from tileiras.codegen import bitcode_library, toolkit
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions


class Usage(NamedTuple):
    registers: int
    shared: int
    local: int
    instructions: int
    wide: int
    narrow: int


_GLOBAL = re.compile(r"\b(?:LDG|STG|LDGSTS)\.[\w.]+")


def usage(cuobjdump: str, path: str) -> dict[str, Usage]:
    """What cuobjdump says of each function of a cubin."""
    text = subprocess.run([cuobjdump, "-res-usage", path], capture_output=True, text=True, check=True).stdout
    sass = subprocess.run([cuobjdump, "-sass", path], capture_output=True, text=True, check=True).stdout
    counts: dict[str, tuple[int, int, int]] = {}
    for part in sass.split("Function : ")[1:]:
        # The padding behind the last branch is no instruction of the kernel.
        body = re.sub(r"(?:\n.*\bNOP ?;.*|\n\s+/\* 0x[0-9a-f]+ \*/)+\s*(?:\.{3,})?\s*\Z", "", part)
        accesses = _GLOBAL.findall(body)
        wide = sum(any(width in access for width in (".128", ".256")) for access in accesses)
        total = len(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/", body, re.MULTILINE))
        counts[part.split(None, 1)[0]] = total, wide, len(accesses) - wide
    found = {}
    for name, line in re.findall(r"Function (\S+):\n\s*(.*)", text):
        numbers = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", line)}
        local = numbers["LOCAL"] + numbers["STACK"]
        found[name] = Usage(numbers["REG"], numbers["SHARED"], local, *counts.get(name, (0, 0, 0)))
    return found


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="resources")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    cuobjdump, vendor = toolkit.find_program("cuobjdump"), vendor_tool()
    if cuobjdump is None or toolkit.find_program("ptxas") is None:
        print("resources: needs cuobjdump and ptxas")
        return
    store = bitcode_library.MemoryStore()
    columns = "".join(f"{name:>9}{'vendor':>8}" for name in ("regs", "shared", "local", "instrs", "wide", "narrow"))
    print(f"{'kernel':<30}{'target':>8}{'threads':>9}{columns}")
    with tempfile.TemporaryDirectory() as folder:
        for kernel in collect(folder, options.files):
            for target in options.targets.split(","):
                if int(target[3:]) >= kernel.lowest:
                    _compare(kernel.path, target, folder, cuobjdump, vendor, store)


def _compare(
    path: str, target: str, folder: str, cuobjdump: str, vendor: str | None, store: bitcode_library.MemoryStore
) -> None:
    try:
        artifact = api.compile_with(units.Source.read(path), CompileOptions({"gpu-name": target}), "cubin", store=store)
    except CompileError as error:
        print(f"{os.path.basename(path):<30}{target:>8}  {error.diagnostics[0]}")
        return
    own, other = os.path.join(folder, "own.cubin"), os.path.join(folder, "vendor.cubin")
    with open(own, "wb") as file:
        file.write(artifact.data)
    theirs: dict[str, Usage] = {}
    if vendor is not None:
        command = [vendor, path, "--gpu-name", target, "-O3", "-o", other]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            theirs = usage(cuobjdump, other)
    found = usage(cuobjdump, own)
    for entry in artifact.kernels:
        info = entry.metadata or {}
        mine, yours = found[entry.name], theirs.get(entry.name)
        mine = mine._replace(shared=mine.shared + info.get("shared_memory", 0))
        cells = ""
        for field in Usage._fields:
            value = getattr(yours, field) if yours is not None else "-"
            cells += f"{getattr(mine, field):9}{value:>8}"
        x, y, z = info.get("block", (0, 0, 0))
        print(f"{entry.name[:29]:<30}{target:>8}{x * y * z:9}{cells}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
