"""python gputest.zip: run the packed kernels on the GPU here and compare the contents of memory.

Needs Python 3.9 and the CUDA driver, nothing else.  Each kernel gets the memory that it had in the emulator and must
leave the same contents; `comparison.py` defines the difference that each instruction allows.  Then the kernels that
are measured run at the sizes of real use.

Kernels run in a process of their own, which is started again after one that ended it or took longer than `SECONDS`:
a fault of a kernel leaves nothing usable behind.  With `--results` every outcome is written down when it is known, and
cases that the file already has are not run again; with `--seconds` no kernel is started after that time.

Ends with 0 when all agreed or there is no GPU, with 1 when one did not, with 4 when time was up before the last.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter

SECONDS = 45
"""For one kernel, its loading and compilation included."""

UNFINISHED = 4

SHOWN = 40
"""Failures that are printed; the file of results has all."""

# CUresult of an image that a driver cannot take, though the kernel may be right: INVALID_IMAGE, NO_BINARY_FOR_GPU,
# INVALID_PTX, UNSUPPORTED_PTX_VERSION, INVALID_SOURCE.
NOT_TAKEN = (200, 209, 218, 222, 300)


class Package:
    """The archive: cases, and bytes by name."""

    def __init__(self, path: str) -> None:
        self._archive = zipfile.ZipFile(path)
        self.cases = json.loads(self._archive.read("cases.json"))

    def bytes(self, name: str) -> bytes:
        return self._archive.read("data/" + name)


def choose(case: dict, device: int) -> dict | None:
    """The image for a device: the one made for it, else the newest PTX that is not made for later ones only; none of a
    case that is for another device alone."""
    best = None
    if case.get("device", device) != device:
        return None
    for target, image in case["images"].items():
        match = re.fullmatch(r"sm_(\d+)([af]?)", target)
        number, letter = int(match.group(1)), match.group(2)
        if number == device:
            return image
        if number < device and not letter and (best is None or number > best[0]):
            best = (number, {name: value for name, value in image.items() if name != "cubin"})
    return best[1] if best else None


class Launcher:
    """One case and the image that the device takes of it."""

    def __init__(self, package: Package, case: dict, image: dict, only_ptx: bool) -> None:
        self._package = package
        self._case = case
        # Every number travels as its bits.
        types = ["ptr" if "buffer" in argument else "bits" for argument in case["arguments"]]
        kernel = image["kernel"]
        parameters = [{**parameter, "type": type} for parameter, type in zip(kernel["parameters"], types)]
        self._metadata = {"kernels": [{**kernel, "parameters": parameters}]}
        self._images = [kind for kind in ("cubin", "ptx") if kind in image and not (only_ptx and kind == "cubin")]
        self._image = image
        self._data = package.bytes(image[self.kind])
        self.refused = ""

    @property
    def kind(self) -> str:
        return self._images[0]

    def __call__(self, arguments: list) -> None:
        from tileiras.runtime import DriverError, launch

        while True:
            try:
                launch(self._data, self._case["entry"], self._case["grid"], arguments, metadata=self._metadata)
                return
            except DriverError as error:
                # A cubin of a newer ptxas than the driver knows: the driver compiles the PTX itself.
                if error.code not in NOT_TAKEN or len(self._images) == 1:
                    raise
                self.refused = str(error)
                del self._images[0]
                self._data = self._package.bytes(self._image[self.kind])


def numbers(case: dict, pointers: list) -> list:
    """The arguments; ``pointers`` makes one of each buffer and offset."""
    return [
        int.from_bytes(bytes.fromhex(argument["value"]), "little")
        if "value" in argument
        else pointers[argument["buffer"]](argument["offset"])
        for argument in case["arguments"]
    ]


def run_case(package: Package, case: dict, cuda, device: int, options: argparse.Namespace) -> dict:
    """The outcome of one case: `status` passed, failed or skipped, and further fields."""
    from comparison import distance, merged, tolerance
    from measured import measure

    from tileiras.runtime import ArgumentError, DriverError

    image = choose(case, device)
    if image is None:
        return {"status": "skipped", "message": f"no code for sm_{device}"}
    launcher = Launcher(package, case, image, options.ptx)
    outcome: dict = {"status": "passed"}
    try:
        if "work" in case:
            reference = package.bytes(image["reference"]) if "reference" in image else None
            outcome.update(measure(cuda, case, launcher, numbers, package.bytes, reference))
        else:
            memories = [bytearray(package.bytes(buffer["before"])) for buffer in case["buffers"]]
            launcher(numbers(case, [lambda offset, m=memory: memoryview(m)[offset:] for memory in memories]))
            allowed = tolerance(package.bytes(image["ptx"]).decode(), device)
            for number, (buffer, memory) in enumerate(zip(case["buffers"], memories)):
                result, wanted = bytes(memory), package.bytes(buffer["after"])
                if "undefined" in buffer:
                    result = merged(result, wanted, package.bytes(buffer["undefined"]))
                apart, place = distance(result, wanted, buffer["element"], allowed)
                if apart > outcome.get("distance", 0.0):
                    outcome.update(distance=apart, message=f"buffer {number} ({buffer['element']}), {place}")
            if outcome.get("distance", 0.0) > 1.0:
                outcome["status"] = "failed"
    except DriverError as error:
        outcome.update(status="failed", message=str(error), fatal=True)
    except ArgumentError as error:
        outcome.update(status="failed", message=str(error))
    outcome["image"] = launcher.kind
    if launcher.refused:
        outcome["refused"] = launcher.refused
    return outcome


def work(path: str, options: argparse.Namespace) -> int:
    """The process that runs the kernels whose numbers come in: a line of JSON for each; ends after a fault."""
    from tileiras.runtime.driver import load_driver

    # The output of kernels goes to this process's output, which is not where outcomes go.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    package = Package(path)
    cuda = load_driver()
    # Launches use the current context.
    cuda.call("cuCtxPushCurrent_v2", cuda.primary_context(options.device))
    device = cuda.compute_capability()
    for line in sys.stdin:
        outcome = run_case(package, package.cases[int(line)], cuda, device, options)
        print(json.dumps(outcome), file=results, flush=True)
        if outcome.get("fatal"):
            return 1
    return 0


class Worker:
    """A process of `work`, started when it is first needed and again when it has ended."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen | None = None

    def outcome(self, number: int) -> dict:
        """The outcome of a case: the worker's answer, or how the worker ended."""
        if self._process is None:
            self._start()
        process, late = self._process, []

        def stop() -> None:
            late.append(True)
            process.kill()

        clock = threading.Timer(SECONDS, stop)
        clock.start()
        try:
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        clock.cancel()
        if line.endswith("\n"):
            outcome = json.loads(line)
            if outcome.get("fatal"):
                self.end()
            return outcome
        self.end()
        entry = "".join(self._errors).strip().splitlines()[-1:]
        reason = f"no end after {SECONDS} s" if late else f"the process ended with {process.returncode}"
        return {"status": "failed", "message": ": ".join([reason, *entry])}

    def _start(self) -> None:
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        self._process = process = subprocess.Popen(self._command, text=True, **pipes)
        self._errors: list[str] = []
        self._drain = threading.Thread(target=lambda: self._errors.append(process.stderr.read()), daemon=True)
        self._drain.start()

    def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._drain.join(5)
        process.stdout.close()


class Results:
    """Outcomes by the key of their case, in a file when it has a name: a line each, behind a line about the device."""

    def __init__(self, path: str | None, device: dict) -> None:
        self.known: dict[str, dict] = {}
        self._file = None
        if path is None:
            return
        lines = []
        if os.path.exists(path):
            with open(path) as file:
                # A line that was cut off when the run before was ended is run again.
                lines = [json.loads(line) for line in file if line.endswith("\n")]
        if lines and lines[0] == device:
            self.known = {line["key"]: line for line in lines[1:]}
        else:
            lines = []
        self._file = open(path, "w")
        for line in [device, *lines[1:]]:
            self._write(line)

    def add(self, case: dict, outcome: dict) -> None:
        self.known[case["key"]] = outcome
        self._write({"key": case["key"], "name": case["name"], "entry": case["entry"], **outcome})

    def _write(self, line: dict) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def report(cases: list[dict], results: Results) -> int:
    """Print the outcomes of the cases; return the exit code."""
    counts: Counter = Counter()
    failed, files, refused, worst = [], Counter(), [], 0.0
    for case in cases:
        outcome = results.known.get(case["key"], {"status": "not run"})
        counts[outcome["status"]] += 1
        if outcome["status"] == "failed":
            failed.append(f"FAILED {case['name']} {case['entry']}: {outcome['message']}")
            files[case["name"].partition("::")[0]] += 1
        elif outcome["status"] == "passed":
            worst = max(worst, outcome.get("distance", 0.0))
        if "refused" in outcome:
            refused.append(outcome["refused"])
        if "figures" in outcome:
            print(f"{case['entry']:24} {outcome['figures']}")
    print("\n".join(failed[:SHOWN]))
    if len(failed) > SHOWN:
        print(f"and {len(failed) - SHOWN} more; by file: {', '.join(f'{n} in {file}' for file, n in files.items())}")
    if refused:
        print(f"{len(refused)} cubins were refused and their PTX was run: {refused[0].splitlines()[0]}")
    result = [f"{counts[status]} {status}" for status in ("passed", "failed", "skipped")]
    if counts["not run"]:
        result.append(f"{counts['not run']} not run, since time was up: the same command goes on with --results")
    print(", ".join(result) + f"; at worst {worst:.2g} of the difference that is allowed")
    return 1 if failed else UNFINISHED if counts["not run"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="gputest", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the kernels and end")
    parser.add_argument("--only", default="", help="those whose name or entry holds this text")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--driver", help="the driver's library, where it is not found by name")
    parser.add_argument("--ptx", action="store_true", help="have the driver compile PTX instead of loading cubins")
    parser.add_argument("--results", help="a file of outcomes, read and added to")
    parser.add_argument("--again", action="store_true", help="run what the file of outcomes has as well")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no kernel after this time")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    path = sys.argv[0]
    from tileiras.runtime import driver

    if options.driver:
        driver.LIBRARIES = (options.driver,)
    if options.worker:
        return work(path, options)
    begin = time.monotonic()
    package = Package(path)
    chosen = [n for n, case in enumerate(package.cases) if options.only in f"{case['name']} {case['entry']}"]
    cases = [package.cases[number] for number in chosen]
    if options.list:
        print("\n".join(f"{case['name']} {case['entry']}" for case in cases))
        return 0
    try:
        cuda = driver.load_driver()
        result = cuda.device_count > options.device
        reason = f"the driver has {cuda.device_count} devices"
    except driver.DriverError as error:
        result, reason = False, str(error)
    if not result:
        print(f"skipped, no GPU: {reason}; {len(chosen)} kernels are packed in {path}")
        return 0
    major, minor = cuda.version()
    name, number = cuda.device_name(options.device), cuda.compute_capability(options.device)
    device = {"device": name, "sm": number, "cuda": f"{major}.{minor}", "ptx": options.ptx}
    print(f"{len(cases)} kernels on {name}, sm_{number}, driver of CUDA {major}.{minor}", flush=True)
    if options.again and options.results and os.path.exists(options.results):
        os.remove(options.results)
    results = Results(options.results, device)
    worker = Worker([sys.executable, *_interpreter_flags(), path, *sys.argv[1:], "--worker"])
    for done, (position, case) in enumerate(zip(chosen, cases), 1):
        if case["key"] in results.known:
            continue
        if time.monotonic() - begin > options.seconds:
            break
        results.add(case, worker.outcome(position))
        if done % 100 == 0:
            print(f"{done} of {len(cases)} after {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    worker.end()
    print(f"{time.monotonic() - begin:.0f} s", flush=True)
    return report(cases, results)


def _interpreter_flags() -> list[str]:
    """The worker's Python is isolated when this one is."""
    return [flag for flag, result in (("-I", sys.flags.isolated), ("-S", sys.flags.no_site)) if result]


if __name__ == "__main__":
    sys.exit(main())
