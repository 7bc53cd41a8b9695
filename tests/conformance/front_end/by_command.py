"""The cuTile Python front end with our command instead of the vendor's: cubins of its samples, without a GPU.

    by_command.py CHECKOUT [--targets sm_80,sm_90,...] [--samples MatMul,...]

The front end searches for the vendor's package, which is hidden from it, then for `tileiras` on PATH, where ours is
first; it probes bytecode versions, compiles, and reads the cubin.  Prints a line per sample and target.
"""

from __future__ import annotations

import argparse
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2])]

from device import Device, Record  # noqa: E402
from driver import library  # noqa: E402
from run_samples import run_script  # noqa: E402


def hide_vendor(folder: Path) -> None:
    """Put our command into `folder` and make it the only one that the front end finds."""
    from cuda.tile import _compile

    program = folder / "tileiras"
    command = f'PYTHONPATH="{HERE.parents[2]}" exec "{sys.executable}" -m tileiras.cli.tileiras "$@"'
    program.write_text(f"#!/bin/sh\n{command}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    _compile._find_pip_tileiras = lambda: None


class CommandDevice(Device):
    """Kernels are compiled by the command and not launched."""

    def __init__(self, target: str, folder: Path) -> None:
        super().__init__(target, "compile")
        self.folder = folder

    def install(self) -> None:
        # Read when the front end is imported: cubins must be compiled, not loaded from its cache.
        os.environ["CUDA_TILE_CACHE_DIR"] = "off"
        from cuda.tile import _compile

        result = {
            name: getattr(_compile, name) for name in ("_get_max_supported_bytecode_version", "_find_compiler_bin")
        }
        self.command = _compile.compile_cubin
        super().install()
        for name, function in result.items():
            setattr(_compile, name, function)
        hide_vendor(self.folder)

    def _compile_cubin(self, path: str, options: Any, sm_arch: str, *rest: Any, **more: Any) -> str:
        record = Record(self.origin, os.path.basename(path), sm_arch)
        self.records.append(record)
        try:
            cubin = self.command(path, options, sm_arch, *rest, **more)
            record.assembled = Path(cubin).read_bytes().startswith(b"\x7fELF")
        except Exception as error:  # one kernel's failure is a row of the table
            record.error = f"{type(error).__name__}: {error}".split("\n")[0]
            cubin = Path(path).with_suffix(".cubin")
        # The replacement of libcuda interprets bytecode.
        Path(cubin).write_bytes(library(Path(path).read_bytes()))
        return cubin


def one(checkout: Path, name: str, target: str) -> int:
    """Run one sample in this process and print its line."""
    import small_samples

    sys.modules.update(small_samples.stand_ins())
    folder = checkout / "samples"
    sys.path.insert(0, str(folder))
    with tempfile.TemporaryDirectory() as commands:
        device = CommandDevice(target, Path(commands))
        device.install()
        sys.modules.pop("__main__", None)
        path = folder / f"{name}.py"
        result = run_script(path if path.exists() else folder / "quickstart" / f"{name}.py")
    total = sum(record.assembled for record in device.records)
    errors = sorted({record.error for record in device.records if record.error})
    error = errors[0] if errors else "" if device.records else result["said"]
    print(f"{name:<24} {target:<8} {total}/{len(device.records)} cubins  {error[:150]}", flush=True)
    return 0 if total == len(device.records) else 1


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--targets", default="sm_80,sm_90,sm_100,sm_120")
    parser.add_argument("--samples", default="")
    options = parser.parse_args()
    result = sorted(path.stem for path in options.checkout.glob("samples/[A-Z]*.py"))
    names = options.samples.split(",") if options.samples else result
    targets = options.targets.split(",")
    if len(names) == len(targets) == 1:
        return one(options.checkout, names[0], targets[0])
    # A sample is a script: each runs in a process of its own.
    command = [sys.executable, __file__, str(options.checkout)]
    codes = [
        subprocess.run(
            # The replacement of libcuda has no events; the tuner reports that.
            [*command, "--samples", name, "--targets", target], stderr=subprocess.DEVNULL, check=False
        ).returncode
        for target in targets
        for name in names
    ]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
