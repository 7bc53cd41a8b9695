"""One process's part of front_end_samples: samples on one device.  Writes a JSON object per sample.

    run_samples.py CHECKOUT OUT --target sm_100 --backend emulate       small sizes, compared with torch
    run_samples.py CHECKOUT OUT --backend compile --targets sm_75,...   every sample as a script, compiled only
    run_samples.py CHECKOUT OUT --source samples/templates ...          the templates of the samples
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import sys
import time
import traceback
import types
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2])]

from device import Device  # noqa: E402


def load(path: Path, name: str) -> Any:
    """Import a file as a module; the name "__main__" executes it as a script."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


def run_small(device: Device, path: Path, name: str) -> dict[str, Any]:
    import small_samples
    import torch

    torch.manual_seed(1)
    result, worst, compared, started = "", 0.0, 0, time.perf_counter()
    try:
        for got, expected, tolerance in getattr(small_samples, name)(load(path, f"sample_{name}")):
            difference = (got.detach().to(torch.complex128) - expected.detach().to(torch.complex128)).abs().max().item()
            worst = max(worst, difference)
            compared += 1
            if not difference <= tolerance:
                result = f"result {compared} is off by {difference:.3g}"
                break
    except Exception as error:  # any failure is this sample's result
        result = f"{type(error).__name__}: {error}"[:800]
    return {"compared": compared, "worst": worst, "said": result, "seconds": time.perf_counter() - started}


def run_script(path: Path) -> dict[str, Any]:
    """Run a script without its own checks, since launches compute nothing; its exit is not a failure."""
    sys.argv = [str(path)]
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            load(path, "__main__")
    except SystemExit:
        pass
    except Exception:  # after the launches, scripts check results that were not computed
        return {"said": traceback.format_exc(limit=-1).strip().rpartition("\n")[2][:300]}
    return {"said": ""}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("out")
    parser.add_argument("--target", default="sm_100")
    parser.add_argument("--targets", default="")
    parser.add_argument("--backend", default="interpret")
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--samples", default="")
    parser.add_argument("--folder", default="", help="leave the bytecode of every kernel there")
    parser.add_argument("--vendor", action="store_true", help="emulate the vendor's code in the place of ours")
    parser.add_argument("--source", default="samples", help="the samples' folder of the checkout")
    options = parser.parse_args()
    targets = [name for name in options.targets.split(",") if name]
    device = Device(
        options.target, options.backend, targets, options.limit, folder=options.folder, vendor=options.vendor
    )
    device.install()
    import small_samples

    sys.modules.update(small_samples.stand_ins())
    folder = options.checkout / options.source
    sys.path[:0] = [str(folder), str(options.checkout / "samples")]
    sys.path.append(str(options.checkout / "test"))
    # The templates import kernels from the folder `test`, which is also a package of Python's own.
    sys.modules["test"] = types.ModuleType("test")
    sys.modules["test"].__path__ = [str(options.checkout / "test")]
    names = options.samples.split(",") if options.samples else small_samples.NAMES
    Path(options.out).write_text("", encoding="utf-8")
    for name in names:
        path = folder / f"{name}.py"
        if not path.exists():
            path = folder / "quickstart" / f"{name}.py"
        if not path.exists():
            continue
        device.origin = name
        first, launches = len(device.records), device.launches
        if options.backend == "compile":
            sys.modules.pop("__main__", None)
            result = run_script(path)
        elif int(options.target.removeprefix("sm_")) < small_samples.NEEDS.get(name, 0):
            continue
        else:
            result = run_small(device, path, name)
        records = [asdict(record) for record in device.records[first:]]
        row = {"sample": name, "launches": device.launches - launches, "kernels": records, **result}
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
