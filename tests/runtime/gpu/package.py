"""python tests/runtime/gpu/package.py OUT.zip [--targets sm_80,...] [--tests PATH ...] [--records FOLDER]
                                           [--samples CHECKOUT]

Runs the tests with the recorder, compiles the launched kernels for every target, and packs the code, the memory before
and after, and the runner into one archive that Python runs on a machine where nothing can be installed.  With a
checkout of cuTile Python its benchmarks' kernels are packed too, to be measured.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path[:0] = [HERE, ROOT]

import front_end_cases  # noqa: E402
from measured_cases import MEASURED, Measured  # noqa: E402

from bench.whole_process import vendor_tool  # noqa: E402
from tileiras import api  # noqa: E402
from tileiras.codegen import ptx, ptxas, toolkit  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.support.progress import over  # noqa: E402

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
TESTS = ("tests/examples", "tests/differential", "tests/conformance", "tests/lowering/tileas_to_llvm")
RUNTIME = ("__init__.py", "arguments.py", "bound.py", "cpu.py", "driver.py", "fat_binaries.py", "launch_facts.py")
RUNNER = {"__main__.py": "runner.py", "comparison.py": "comparison.py", "measured.py": "measured.py"}

# The archive holds no times, so that equal kernels make equal bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


def record(tests: list[str], folder: str, workers: int) -> None:
    """Run the tests; a failing one is reported by pytest and its missing launches are left out."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "record_launches", "--record-launches", folder, *tests]
    if workers > 1:
        command += ["-n", str(workers)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([HERE, ROOT])}
    subprocess.run(command, cwd=ROOT, env=environment, check=False)


class Images:
    """Compiled kernels, one per (source, options, target)."""

    def __init__(self, folder: str, targets: list[str]) -> None:
        self.folder = folder
        self.targets = targets
        self.data: dict[str, bytes] = {}
        self._compiled: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._cubins: dict[str, str | None] = {}
        self.refused = 0

    def read(self, name: str) -> bytes:
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    @staticmethod
    def name_of(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()[:32]

    def keep(self, data: bytes) -> str:
        name = self.name_of(data)
        self.data[name] = data
        return name

    def of(self, case: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Target -> its PTX, its cubin where there is a ptxas, and the kernel's launch description."""
        text = self.read(case["ptx"])
        own = ptx.parse(text.decode()).target
        if "source" not in case:
            return {own: self.image(text, own, case["kernel"])}
        images = {}
        for gpu in self.targets:
            kernels = self._kernels(case["source"], gpu)
            if case["entry"] in kernels:
                text, kernel = kernels[case["entry"]]
                target = ptx.parse(text.decode()).target
                images[target] = self.image(text, target, kernel)
        return images

    def _kernels(self, source: dict[str, Any], gpu: str) -> dict[str, Any]:
        key = (source["data"], json.dumps(source["options"], sort_keys=True), gpu)
        if key not in self._compiled:
            try:
                artifact = api.compile(self.read(source["data"]), gpu_name=gpu, **source["options"])
                self._compiled[key] = {k.name: (artifact.data, k.metadata) for k in artifact.kernels}
            except CompileError:
                # Kernels that a target rejects are covered by the compiler's tests.
                self.refused += 1
                self._compiled[key] = {}
        return self._compiled[key]

    def image(self, text: bytes, target: str, kernel: dict[str, Any]) -> dict[str, Any]:
        name = self.keep(text)
        if name not in self._cubins:
            self._cubins[name] = None
            if toolkit.find_program("ptxas") is not None:
                # Shared memory of a tile launch is static; ptxas limits it to 48 KB unless an option raises that.
                flags = ["--enable-extended-smem", "true"] if kernel["tile_launch"] else []
                self._cubins[name] = self.keep(ptxas.assemble(text.decode(), target, options=flags).cubin)
        image = {"ptx": name, "kernel": kernel}
        if self._cubins[name] is not None:
            image["cubin"] = self._cubins[name]
        return image


def recorded(images: Images) -> list[dict[str, Any]]:
    """The launches in the folder that some target has code for."""
    cases = []
    for file in sorted(name for name in os.listdir(images.folder) if name.endswith(".json")):
        case = json.loads(images.read(file))
        result = images.of(case)
        if not result:
            continue
        for buffer in case["buffers"]:
            for name in ("before", "after", "undefined"):
                if name in buffer:
                    images.data[buffer[name]] = images.read(buffer[name])
        cases.append({
            "name": case["test"], "entry": case["entry"], "grid": case["grid"], "arguments": case["arguments"],
            "buffers": case["buffers"], "images": result,
        })  # fmt: skip
    return sorted(cases, key=lambda case: (case["name"], case["entry"]))


def beside(images: Images, compiler: str, bytecode: bytes, name: str, gpu: str, folder: str) -> dict[str, str]:
    """The cubin that another compiler with this one's command line makes of the same bytecode, if it does."""
    source, cubin = os.path.join(folder, "kernel.tileirbc"), os.path.join(folder, "kernel.cubin")
    with open(source, "wb") as file:
        file.write(bytecode)
    # Lines change no instruction; the estimate of the cubin needs them.
    command = [compiler, source, "--gpu-name", gpu, "--lineinfo", "-o", cubin]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        print(f"{compiler}: {name} for {gpu}: {done.stderr.decode(errors='replace').strip()[:200]}")
        return {}
    with open(cubin, "rb") as file:
        return {"reference": images.keep(file.read())}


def measured(images: Images, rows: Sequence[Measured], reference: str | None = None) -> list[dict[str, Any]]:
    """The kernels whose time is taken, for the targets that have their types; with the code of ``reference``."""
    cases = []
    for row in over("packing", rows, lambda row: row.source):
        suffix = os.path.splitext(row.source)[1]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"kernel{suffix}")
            with open(path, "w") as file:
                file.write(row.text())
            result = {}
            for gpu in images.targets:
                try:
                    artifact = api.compile(path, gpu_name=gpu)
                except CompileError:
                    images.refused += 1
                    continue
                (kernel,) = artifact.kernels
                target = ptx.parse(artifact.text).target
                result[target] = images.image(artifact.data, target, kernel.metadata)
                if reference is not None:
                    data = api.compile(path, gpu_name=gpu, emit="bytecode").data
                    result[target].update(beside(images, reference, data, row.source, gpu, folder))
        if result:
            cases.append({**row.case(), "images": result})
    return cases


def pack(
    folder: str, out: str, targets: list[str], rows: Sequence[Measured] = MEASURED, reference: str | None = None,
    launches: Iterable[front_end_cases.Wanted] = (),
) -> int:  # fmt: skip
    """Write the archive; returns the number of launches recorded in it."""
    images = Images(folder, targets)
    tests = recorded(images)
    cases = [*tests, *measured(images, rows, reference), *front_end_cases.cases(images, launches, reference)]
    for case in cases:
        case["key"] = images.name_of(_json(case))
    files = {packed: _text(HERE, name) for packed, name in RUNNER.items()}
    files.update({"tileiras/__init__.py": b"", "cases.json": _json(cases)})
    for name in RUNTIME:
        files[f"tileiras/runtime/{name}"] = _text(ROOT, "tileiras", "runtime", name)
    files.update({f"data/{name}": data for name, data in sorted(images.data.items())})
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)
    size = os.path.getsize(out) / 1e6
    print(f"{out}: {len(tests)} launches, {len(cases) - len(tests)} measured kernels, {size:.1f} MB;"
          f" {images.refused} sources refused by a target")  # fmt: skip
    return len(tests)


def _text(*path: str) -> bytes:
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def main() -> int:
    parser = argparse.ArgumentParser(prog="package")
    parser.add_argument("out")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--tests", nargs="*", default=list(TESTS))
    parser.add_argument("--records", help="what to pack; a folder that is not there is made by the tests")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--reference", default=vendor_tool(), metavar="PROGRAM",
                        help="the vendor's compiler, to measure its cubins beside ours")  # fmt: skip
    parser.add_argument("--samples", type=Path, metavar="CHECKOUT", help="cuTile Python's, to measure its benchmarks")
    options = parser.parse_args()
    targets = options.targets.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.records or temporary
        if not options.records or not os.path.isdir(folder):
            record(options.tests, folder, options.workers)
        launches = front_end_cases.launches(options.samples, targets) if options.samples else ()
        return 0 if pack(folder, options.out, targets, reference=options.reference, launches=launches) else 1


if __name__ == "__main__":
    sys.exit(main())
