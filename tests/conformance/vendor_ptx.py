"""The PTX of the vendor's compiler, as a second opinion on the semantics of a kernel, for our emulator.

A cubin with line information contains the PTX that it was assembled from.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tileiras  # noqa: E402
from bench.whole_process import vendor_tool  # noqa: E402
from tileiras.codegen.cubin_host import hidden_parameters  # noqa: E402
from tileiras.codegen.object_file import Cubin  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402

BYTECODE_VERSION = "13.4"
"""The newest version that the vendor's compiler reads: some operations need it."""


WAIVED = (
    "async-proxy", "mbarrier-inval", "wgmma-fence", "tensor-fences", "tensor-pipeline", "tensor-columns",
    "tensor-load-wait",
    "barrier-scope",
)  # fmt: skip
"""Rules of the PTX ISA that the vendor's code breaks (`tileiras.sim.emulator.rules` has them, with both readings)."""


class Refused(RuntimeError):
    """The vendor's compiler refuses a kernel; the message is its own."""


@functools.cache
def _vendor() -> str:
    vendor = vendor_tool()
    if vendor is None:
        raise SystemExit("needs the vendor's compiler (extra `oracle`)")
    return vendor


class Compiled(NamedTuple):
    """``cubin`` is the vendor's, ``ptx`` the text that it was assembled from."""

    cubin: bytes
    ptx: str

    def hidden(self, entry: str) -> Callable[[Sequence[bytes], Sequence[int]], list[bytes]] | None:
        """The function that fills an entry's hidden parameters, as an argument of `emulate`; None without any."""
        return hidden_parameters(self.cubin, entry) if ".hidden" in self.ptx else None


def vendor_compile(source: bytes | str, target: str) -> Compiled:
    """The vendor's code for a module in bytecode or text.  Raises Refused."""
    if isinstance(source, str):
        options = {"emit": "bytecode", "bytecode_version": BYTECODE_VERSION, "source_name": "kernel.mlir"}
        try:
            source = tileiras.compile(source, gpu_name=target, **options).data
        except CompileError as error:
            raise Refused(f"{error.diagnostics[0]}") from None
    with tempfile.TemporaryDirectory() as folder:
        path, cubin = os.path.join(folder, "kernel.tileirbc"), os.path.join(folder, "kernel.cubin")
        with open(path, "wb") as file:
            file.write(source)
        command = [_vendor(), path, "--gpu-name", target, "--lineinfo", "-o", cubin]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise Refused(next((line for line in lines if "error" in line), lines[0]))
        with open(cubin, "rb") as file:
            data = file.read()
    return Compiled(data, Cubin(data).embedded_ptx() or "")


def vendor_ptx(source: bytes | str, target: str) -> str:
    """The vendor's PTX alone, for kernels without hidden parameters."""
    return vendor_compile(source, target).ptx
