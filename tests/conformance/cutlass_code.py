"""CUTLASS's CuTe tutorial, compiled by nvcc, emulated and compared with NumPy.

    python tests/conformance/cutlass_code.py CHECKOUT [--match TEXT] [--seed N] [--build FOLDER] [--jobs N]

CHECKOUT is a copy of CUTLASS's repository, which is not part of this one.  Needs nvcc, its headers and a C++ compiler.
Each example is compiled unchanged, to PTX and to its own host code, and linked with `recorded_launch.cpp` instead of
the CUDA runtime: the host code fills shapes, strides, layouts and operands, and requests tensor maps, which
`emulator.tensor_map` encodes.  The launch that it prepares is emulated with race detection, on the memory of that
moment.  Prints a row per launch and exits with 1 if one differs for a reason that KNOWN does not list; FOLDER keeps the
compiled files.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import multiprocessing
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import numpy as np  # noqa: E402

from tileiras.sim import emulate  # noqa: E402
from tileiras.sim.emulator import tensor_map  # noqa: E402
from tileiras.sim.emulator.ptx import parser as ptx_parser  # noqa: E402
from tileiras.sim.errors import SimulationError  # noqa: E402
from tileiras.sim.memory import Memory  # noqa: E402

TUTORIAL = "examples/cute/tutorial"
INCLUDES = ("include", "tools/util/include", "examples/common")
ENTRY = "gemm_device"
#: The first bytes of a tensor map of `recorded_launch.cpp`.
MARK = bytes.fromhex("4e6f206d61703a9de1075bc433a8f612")
#: CUtensorMapDataType (CUDA driver API) -> the emulator's name.
ELEMENTS = {
    0: "u8", 1: "u16", 2: "u32", 3: "s32", 4: "u64", 5: "s64", 6: "f16", 7: "f32", 8: "f64", 9: "bf16",
}  # fmt: skip
#: CUtensorMapSwizzle -> width and atom in bytes.
SWIZZLES = {0: (0, 16), 1: (32, 16), 2: (64, 16), 3: (128, 16), 4: (128, 32)}


class Case(NamedTuple):
    """An example at a size: ``operands`` are the allocations of its host code, in order.  ``transposed``: A and B are
    K-major; C is column-major, D row-major.  ``tolerance`` is relative to the largest result.  ``mended``: with MENDED
    in its PTX."""

    source: str
    target: str
    sizes: tuple[int, int, int]
    operands: str
    element: str
    result: str
    transposed: bool = True
    tolerance: float = 0.0
    mended: bool = False

    @property
    def name(self) -> str:
        form = "" if "D" in self.operands else " TN" if self.transposed else " NT"
        size = "x".join(map(str, self.sizes))
        return f"{self.source.removesuffix('.cu')}{form} {size}{', mended' if self.mended else ''}"

    @property
    def arguments(self) -> list[str]:
        form = [] if "D" in self.operands else ["T", "N"] if self.transposed else ["N", "T"]
        return [*map(str, self.sizes), *form]


def _both(source: str, target: str, sizes: tuple[int, int, int], element: str, tolerance: float = 0.0) -> list[Case]:
    return [Case(source, target, sizes, "ABC", element, element, form, tolerance) for form in (False, True)]


def _tensor(source: str, sizes: tuple[int, int, int]) -> list[Case]:
    case = Case(f"blackwell/{source}", "100a", sizes, "DABC", "f2", "f4")
    return [case, case._replace(mended=True)]


CASES = [
    *_both("sgemm_1.cu", "80", (128, 128, 16), "f4", 1e-6),
    *_both("sgemm_2.cu", "80", (128, 128, 16), "f4", 1e-6),
    *_both("sgemm_sm70.cu", "80", (128, 128, 24), "f4", 1e-6),
    Case("sgemm_sm80.cu", "80", (128, 128, 192), "ABC", "f2", "f2", tolerance=2e-3),
    *(
        case._replace(mended=mended)
        for case in _both("hopper/wgmma_sm90.cu", "90a", (256, 128, 256), "f2")
        for mended in (False, True)
    ),
    *_both("hopper/wgmma_tma_sm90.cu", "90a", (256, 128, 320), "f2"),
    *_tensor("01_mma_sm100.cu", (128, 256, 128)),
    *_tensor("02_mma_tma_sm100.cu", (128, 256, 192)),
    *_tensor("03_mma_tma_multicast_sm100.cu", (512, 1024, 128)),
    *_tensor("04_mma_tma_2sm_sm100.cu", (512, 1024, 128)),
    *_tensor("05_mma_tma_epi_sm100.cu", (512, 1024, 128)),
]

#: (prefix of the row's name, message, reason).  By the PTX ISA cp.async.wait_all waits for the copies of its own
#: thread, and wgmma.fence and wgmma.mma_async apply to the threads of a warp; tcgen05.mma is of the async proxy, and
#: its result is visible only after a wait with tcgen05.fence::after_thread_sync (rule `tensor-fences`).
KNOWN = [
    ("hopper/wgmma_sm90", "is read before it is written", "reads what other warps copy with no barrier between"),
    ("blackwell/01", "no fence.proxy.async between", "reads what threads store with no fence of proxies"),
    ("blackwell/0", "no tcgen05.fence::after_thread_sync", "loads results with no tcgen05.fence behind the wait"),
]
_WAITED = r"bar.sync 0; tcgen05.fence::after_thread_sync;"
_SEEN = f"tcgen05.wait::ld.sync.aligned; tcgen05.fence::before_thread_sync; {_WAITED}"
_TENSOR = {r"bar\.sync\s+0;": _SEEN, r"\bDONE:": rf"\g<0> {_WAITED}"}
#: Synchronization that the examples of KNOWN lack: fences that make copies and stores visible to MMAs, barriers that
#: make copies visible to other warps and protect stages from being overwritten, waits for loads of tensor memory before
#: it is freed, fences of tcgen05; and no warp passes two phases of a barrier while another one waits for the first.
MENDED = {
    "hopper/wgmma_sm90.cu": {
        r"cp\.async\.wait_all;": r"\g<0> fence.proxy.async.shared::cta; bar.sync 0;",
        r"wgmma\.wait_group\.sync\.aligned 0;": r"\g<0> bar.sync 0;",
    },
    "blackwell/01_mma_sm100.cu": {**_TENSOR, r"bar\.sync\s+0;": f"fence.proxy.async.shared::cta; {_SEEN}"},
    "blackwell/02_mma_tma_sm100.cu": _TENSOR,
    "blackwell/03_mma_tma_multicast_sm100.cu": _TENSOR,
    "blackwell/04_mma_tma_2sm_sm100.cu": _TENSOR,
    "blackwell/05_mma_tma_epi_sm100.cu": _TENSOR,
}


class CannotPrepare(RuntimeError):
    """nvcc or the example's host code failed; the message is its own."""


class Recorded(NamedTuple):
    """A launch as the host code prepared it."""

    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...]
    shared: int
    parameters: list[bytes]
    memory: list[tuple[int, bytes]]


def _command(words: Sequence[str], **options) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise CannotPrepare(next((line for line in lines if "error" in line), lines[-1]))


def compile_example(checkout: Path, case: Case, folder: Path) -> tuple[str, Path]:
    """The PTX of an example, and its host code as a program."""
    source = checkout / TUTORIAL / case.source
    folder = folder / f"{source.stem}.{case.target}"
    program, ptx = folder / "program", folder / f"{source.stem}.ptx"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        target = f"-gencode=arch=compute_{case.target},code=compute_{case.target}"
        _command([
            "nvcc", "-std=c++17", "-O1", "--expt-relaxed-constexpr", "-cudart", "none", target, "--keep", "--keep-dir",
            str(folder), *(f"-I{checkout / each}" for each in INCLUDES), "-o", str(program), str(source),
            str(HERE / "recorded_launch.cpp"),
        ])  # fmt: skip
    return ptx.read_text(), program


def record(case: Case, ptx: str, program: Path) -> Recorded:
    """The first launch that an example's host code prepares."""
    functions = ptx_parser.parse(ptx).functions.values()
    with tempfile.TemporaryDirectory() as folder:
        parameters, launch = Path(folder) / "parameters", Path(folder) / "launch"
        parameters.write_text("".join(
            " ".join([each.name, *(str(parameter.size) for parameter in each.params)]) + "\n"
            for each in functions if each.is_entry and ENTRY in each.name
        ))  # fmt: skip
        where = {"PARAMETERS": str(parameters), "LAUNCH": str(launch), "TARGET": case.target.rstrip("a")}
        _command([str(program), *case.arguments], env={**os.environ, **where})
        if not launch.exists():
            raise CannotPrepare("the host code launches nothing")
        return read_launch(launch.read_text())


def read_launch(text: str) -> Recorded:
    result: dict[str, list[str]] = {}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        result.setdefault(word, []).append(rest)
    maps = {int(fields.split()[0]): encoded(*map(int, fields.split()[1:])) for fields in result.get("map", ())}
    memory = [(int(each.split()[0]), bytes.fromhex(each.split()[1])) for each in result["memory"]]
    grid, block, cluster = (tuple(map(int, result[word][0].split())) for word in ("grid", "block", "cluster"))
    parameters = [with_maps(bytes.fromhex(each), maps) for each in result["parameter"]]
    return Recorded(result["entry"][0], grid, block, cluster, int(result["shared"][0]), parameters, memory)


def encoded(kind: int, interleave: int, swizzle: int, fill: int, address: int, rank: int, *sizes: int) -> bytes:
    """A tensor map encoded from the driver's arguments.  ``sizes``: tensor, strides, box, element strides."""
    dims, sizes = sizes[:rank], sizes[rank:]
    strides, sizes = sizes[: rank - 1], sizes[rank - 1 :]
    box, element_strides = sizes[:rank], sizes[rank:]
    if interleave or kind not in ELEMENTS or any(stride != 1 for stride in element_strides):
        raise CannotPrepare("a tensor map of a kind that the emulator lacks")
    width, atom = SWIZZLES[swizzle]
    return tensor_map.encode(
        tensor_map.TensorMap(ELEMENTS[kind], address, dims, strides, box, width, fill_nan=bool(fill), atom=atom)
    )


def with_maps(raw: bytes, maps: dict[int, bytes]) -> bytes:
    """A parameter with its tensor maps in place of their markers."""
    at = raw.find(MARK)
    while at >= 0:
        (number,) = struct.unpack_from("<i", raw, at + len(MARK))
        raw = raw[:at] + maps[number] + raw[at + tensor_map.BYTES :]
        at = raw.find(MARK, at + tensor_map.BYTES)
    return raw


def place(launch: Recorded) -> tuple[Memory, list[np.ndarray]]:
    """Memory with the launch's allocations at the addresses in its parameters, and their arrays."""
    memory, arrays = Memory(), []
    cursor = memory.cursor
    for address, data in launch.memory:
        arrays.append(np.frombuffer(bytearray(data), np.uint8))
        memory.cursor = address
        if memory.allocate(arrays[-1], name=f"allocation {len(arrays)} of the host code") != address:
            raise CannotPrepare(f"address {address:#x} is not aligned")
    memory.cursor = cursor
    return memory, arrays


def expected(case: Case, operands: dict[str, np.ndarray]) -> np.ndarray:
    m, n, k = case.sizes
    a, b = (operands[name].view(case.element).astype(np.float64) for name in "AB")
    if case.transposed:
        return a.reshape(m, k) @ b.reshape(n, k).T
    return a.reshape(k, m).T @ b.reshape(k, n)


def judge(case: Case, launch: Recorded, ptx: str, seed: int | None) -> tuple[str, int]:
    """The mistake in the result, if there is one, and the number of instructions that warps issued."""
    memory, arrays = place(launch)
    operands = dict(zip(case.operands, arrays, strict=True))
    wanted = expected(case, operands)
    run = emulate(
        ptx, launch.entry, launch.grid, launch.parameters, block=launch.block, cluster=launch.cluster,
        shared_memory=launch.shared, seed=seed,
    )  # fmt: skip
    del memory  # its allocations had to live until here
    m, n, _ = case.sizes
    result = operands[case.operands[0] if "D" in case.operands else "C"].view(case.result).astype(np.float64)
    result = result.reshape(m, n) if "D" in case.operands else result.reshape(n, m).T
    worst = float(np.abs(result - wanted).max() / np.abs(wanted).max())
    if not worst <= case.tolerance:
        return f"{(result != wanted).sum()} of {result.size} elements differ, the worst by {worst:.1e}", run.steps
    return ("" if run.searched_races else "races were not searched for to the end"), run.steps


class Row(NamedTuple):
    name: str
    target: str
    said: str
    known: str | None
    steps: int
    seconds: float


def known_reason(case: Case, said: str) -> str | None:
    mine = (why for name, part, why in KNOWN if case.name.startswith(name) and part in said and not case.mended)
    return next(mine, None)


def row(case: Case, said: str, steps: int = 0, seconds: float = 0.0) -> Row:
    return Row(case.name, f"sm_{case.target}", said, known_reason(case, said), steps, seconds)


def attempt(case: Case, ptx: str, program: Path, seed: int | None) -> Row:
    begin, steps = time.monotonic(), 0
    try:
        for wanting, mended in (MENDED[case.source] if case.mended else {}).items():
            ptx, count = re.subn(wanting, mended, ptx)
            if not count:
                raise CannotPrepare(f"the PTX has no {wanting}")
        text, steps = judge(case, record(case, ptx, program), ptx, seed)
    except (CannotPrepare, SimulationError) as error:
        text = f"{type(error).__name__}: {error}"
    return row(case, text, steps, time.monotonic() - begin)


def attempt_example(checkout: Path, build: Path, seed: int | None, cases: Sequence[Case]) -> list[Row]:
    """The launches of one example, which is compiled once."""
    try:
        ptx, program = compile_example(checkout, cases[0], build)
    except CannotPrepare as error:
        return [row(case, f"CannotPrepare: {error}") for case in cases]
    return [attempt(case, ptx, program, seed) for case in cases]


def main() -> int:
    parser = argparse.ArgumentParser(prog="cutlass_code.py")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--match", default="", help="only rows whose name has this in it")
    parser.add_argument("--seed", type=int, default=1, help="of the order in which warps advance; -1: in lock step")
    parser.add_argument("--build", type=Path, help="keep what was compiled, and use what is there")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    chosen = [case for case in CASES if options.match in case.name]
    examples = [list(group) for _, group in itertools.groupby(chosen, key=lambda case: case.source)]
    seed = None if options.seed < 0 else options.seed
    wrong = 0
    print("| example | target | result | instructions of warps |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        run = functools.partial(attempt_example, options.checkout.resolve(), options.build or Path(folder), seed)
        for item in itertools.chain.from_iterable(pool.imap(run, examples)):
            wrong += bool(item.said) and item.known is None
            result = (item.known or item.said).replace("\n", "; ").replace("|", "/") or "equal"
            print(f"| {item.name} | {item.target} | {result} | {item.steps:,} |", flush=True)
            print(f"{item.name}: {item.seconds:.1f} s", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
