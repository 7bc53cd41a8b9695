"""python gputest.zip [--list] [--only TEXT] [--device N] [--driver LIBRARY]: run the packed kernels on the GPU here.

Needs Python 3.9 and the CUDA driver, nothing else.  Each kernel gets the memory that it had in the emulator and must
leave behind what it left there.  Integers must be equal; floats must be equal to the bit unless the kernel uses
instructions whose last bits are the hardware's own (approximations, tensor cores, atomic additions in any order): then
`ULPS` units in the last place, at the value's magnitude or a 256th of the largest one of the array.

Kernels run in a process of their own, which is started again after one that ended it or took longer than `SECONDS`:
a fault of a kernel leaves nothing usable behind.  Ends with 0 when all agreed or there is no GPU, with 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import struct
import subprocess
import sys
import threading
import zipfile

ULPS = 32
SECONDS = 120
INEXACT = re.compile(
    r"\.approx|\.full\.|\bmma\.sync|\bwgmma|\btcgen05|\b(?:atom|red)\.[\w.:]*add[\w.:]*f(?:16|32|64)|\.add\.noftz"
)

# Bits of the fraction, for a unit in the last place.
FRACTION = {"f16": 10, "bf16": 7, "tf32": 10, "f32": 23, "f64": 52}
SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "f64": 8, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8}


def floats(data: bytes, element: str) -> list[float]:
    """The numbers in memory."""
    if element == "bf16":
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        data, element = b"".join(b"\0\0" + half.to_bytes(2, "little") for half in halves), "f32"
    letter = {"f16": "e", "f32": "f", "tf32": "f", "f64": "d"}[element]
    return list(struct.unpack(f"<{len(data) // SIZES[element]}{letter}", data))


def distance(got: bytes, want: bytes, element: str, exact: bool) -> tuple[float, str]:
    """The worst distance in units in the last place, and where it is; infinite for what may not differ at all."""
    if got == want:
        return 0.0, ""
    size = SIZES.get(element, 1)
    if exact or element not in FRACTION:
        first = next(n for n in range(len(want)) if got[n] != want[n]) // size
        at = slice(first * size, (first + 1) * size)
        # Two NaNs are one value, whatever their bits.
        if element in FRACTION:
            pairs = zip(floats(got, element), floats(want, element))
            wrong = [n for n, (a, b) in enumerate(pairs) if a != b and not (math.isnan(a) and math.isnan(b))]
            if not wrong:
                return 0.0, ""
            first = wrong[0]
            at = slice(first * size, (first + 1) * size)
        return math.inf, f"element {first}: got {got[at].hex()}, expected {want[at].hex()} (bytes)"
    mine, theirs = floats(got, element), floats(want, element)
    largest = max((abs(x) for x in theirs if math.isfinite(x)), default=0.0)
    worst, where = 0.0, ""
    for number, (a, b) in enumerate(zip(mine, theirs)):
        if a == b or (math.isnan(a) and math.isnan(b)):
            continue
        if not (math.isfinite(a) and math.isfinite(b)):
            return math.inf, f"element {number}: got {a}, expected {b}"
        scale = max(abs(b), largest / 256)
        unit = math.ldexp(1.0, max(math.frexp(scale)[1] - 1, -149) - FRACTION[element])
        apart = abs(a - b) / unit
        if apart > worst:
            worst, where = apart, f"element {number}: got {a}, expected {b}"
    return worst, where


class Package:
    """The archive: cases, and bytes by name."""

    def __init__(self, path: str) -> None:
        self._archive = zipfile.ZipFile(path)
        self.cases = json.loads(self._archive.read("cases.json"))

    def bytes(self, name: str) -> bytes:
        return self._archive.read("data/" + name)


def choose(case: dict, device: int) -> dict | None:
    """The image for a device: the cubin made for it, else the newest PTX that is not made for later ones only."""
    best = None
    for target, image in case["images"].items():
        match = re.fullmatch(r"sm_(\d+)([af]?)", target)
        number, letter = int(match.group(1)), match.group(2)
        if number == device:
            return {**image, "name": image.get("cubin") or image["ptx"]}
        if number < device and not letter and (best is None or number > best[0]):
            best = (number, {**image, "name": image["ptx"]})
    return best[1] if best else None


def run_case(package: Package, case: dict, device: int) -> dict:
    """What came of one case: `status` passed, failed or skipped, `ulps` and `message`."""
    from tileiras.runtime import ArgumentError, DriverError, launch

    image = choose(case, device)
    if image is None:
        return {"status": "skipped", "message": f"no code for sm_{device}"}
    kernel = image["kernel"]
    memories = [bytearray(package.bytes(buffer["before"])) for buffer in case["buffers"]]
    arguments = []
    for argument in case["arguments"]:
        if "value" in argument:
            arguments.append(int.from_bytes(bytes.fromhex(argument["value"]), "little"))
        else:
            arguments.append(memoryview(memories[argument["buffer"]])[argument["offset"] :])
    # Every number travels as its bits.
    types = ["ptr" if "buffer" in argument else "bits" for argument in case["arguments"]]
    parameters = [{**parameter, "type": type} for parameter, type in zip(kernel["parameters"], types)]
    document = {"kernels": [{**kernel, "parameters": parameters}]}
    try:
        launch(package.bytes(image["name"]), case["entry"], case["grid"], arguments, metadata=document)
    except DriverError as error:
        return {"status": "failed", "message": str(error), "fatal": True}
    except ArgumentError as error:
        return {"status": "failed", "message": str(error)}
    exact = INEXACT.search(package.bytes(image["ptx"]).decode()) is None
    worst, where = 0.0, ""
    for number, (buffer, memory) in enumerate(zip(case["buffers"], memories)):
        apart, place = distance(bytes(memory), package.bytes(buffer["after"]), buffer["element"], exact)
        if apart > worst:
            worst, where = apart, f"buffer {number} ({buffer['element']}), {place}"
    status = "passed" if worst <= (0 if exact else ULPS) else "failed"
    return {"status": status, "ulps": worst if math.isfinite(worst) else -1, "message": where}


def work(path: str, first: int, chosen: list[int], options: argparse.Namespace) -> int:
    """The process that runs kernels: a line of JSON for each; ends after a fault, which nothing survives."""
    from tileiras.runtime.driver import load_driver

    package = Package(path)
    cuda = load_driver()
    # Launches use the current context.
    cuda.call("cuCtxPushCurrent_v2", cuda.primary_context(options.device))
    device = cuda.compute_capability()
    for number in chosen[first:]:
        outcome = run_case(package, package.cases[number], device)
        print(json.dumps(outcome), flush=True)
        if outcome.get("fatal"):
            return 1
    return 0


def supervise(path: str, chosen: list[int], options: argparse.Namespace) -> list[dict]:
    """Outcomes of all chosen cases, in order, through as many processes as it takes."""
    outcomes: list[dict] = []
    again = [sys.executable, path, *sys.argv[1:], "--worker"]
    while len(outcomes) < len(chosen):
        command = [*again, str(len(outcomes))]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        errors: list[str] = []
        drain = threading.Thread(target=lambda: errors.append(worker.stderr.read()))
        drain.start()
        before = len(outcomes)
        late = False

        def stop() -> None:
            nonlocal late
            late = True
            worker.kill()

        while True:
            clock = threading.Timer(SECONDS, stop)
            clock.start()
            line = worker.stdout.readline()
            clock.cancel()
            if not line:
                break
            outcomes.append(json.loads(line))
            print(f"\r{len(outcomes)} of {len(chosen)}", end="", file=sys.stderr)
        worker.wait()
        drain.join()
        if len(outcomes) < len(chosen) and not (len(outcomes) > before and outcomes[-1].get("fatal")):
            said = errors[0].strip().splitlines()[-1:] if errors else []
            reason = f"no end after {SECONDS} s" if late else f"the process ended with {worker.returncode}"
            outcomes.append({"status": "failed", "message": ": ".join([reason, *said])})
    print(file=sys.stderr)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="gputest")
    parser.add_argument("--list", action="store_true", help="name the kernels and end")
    parser.add_argument("--only", default="", help="those whose name holds this text")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--driver", help="the driver's library, where it is not found by name")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    path = sys.argv[0]
    from tileiras.runtime import driver

    if options.driver:
        driver.LIBRARIES = (options.driver,)
    package = Package(path)
    chosen = [number for number, case in enumerate(package.cases) if options.only in case["name"]]
    if options.list:
        print("\n".join(package.cases[number]["name"] for number in chosen))
        return 0
    if options.worker is not None:
        return work(path, options.worker, chosen, options)
    try:
        cuda = driver.load_driver()
        found = cuda.device_count > options.device
        reason = f"the driver has {cuda.device_count} devices"
    except driver.DriverError as error:
        found, reason = False, str(error)
    if not found:
        print(f"skipped, no GPU: {reason}; {len(chosen)} kernels are packed in {path}")
        return 0
    print(f"{len(chosen)} kernels on {cuda.device_name(options.device)}, sm_{cuda.compute_capability(options.device)}")
    outcomes = supervise(path, chosen, options)
    for number, outcome in zip(chosen, outcomes):
        if outcome["status"] == "failed":
            print(f"FAILED {package.cases[number]['name']}: {outcome['message']}")
    counts = {status: sum(o["status"] == status for o in outcomes) for status in ("passed", "failed", "skipped")}
    worst = max((o.get("ulps", 0) for o in outcomes if o["status"] == "passed"), default=0)
    print(", ".join(f"{count} {status}" for status, count in counts.items()) + f"; worst {worst:.1f} ulps")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
