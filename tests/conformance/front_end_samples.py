"""The cuTile Python front end's own kernels, from a checkout of it, through this compiler: no GPU is needed.

    python tests/conformance/front_end_samples.py CHECKOUT [--parts samples,benchmarks,small,tests] [--every N] [--list]
                                                  [--keep FOLDER] [--vendor --emulate sm_90,sm_120]

Needs the packages cuda-tile, torch (any build of it) and pytest, and ptxas.  The kernels stay in the checkout; a driver
of Python functions replaces libcuda (see `front_end/driver.py`).

samples     every sample as a script, compiled for all targets and assembled; and at small sizes, interpreted and
            emulated, against torch
benchmarks  the kernels that the benchmarks launch, compiled and assembled
small       the benchmarks at sizes that can be emulated, on the interpreter and on the emulator, against torch
tests       one in N of the front end's tests, on the interpreter and on the emulator; the launched kernels are compiled
            for all targets and assembled; `--cover axes` takes the smallest set that has every value of every
            parameter.  `--suite` is the folder of tests of another repository that launches kernels

With `--vendor` the vendor's code is emulated and compared with the interpreter, and this compiler is not used; of
`samples`, only the small sizes run.  `--emulate` names the targets.

Prints a table per part; `--keep` leaves the bytecode of samples and benchmarks in a folder, as input of the parts of
`bench` that take one.  Exits with 1 if there is a failure outside of the table of known differences.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tileiras.codegen import toolkit  # noqa: E402

FRONT_END = HERE / "front_end"
TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
EMULATED = TARGETS

# (part of the test's name and outcome, reason why the difference is not ours)
KNOWN = [
    ("outside of the view's index space", "the test loads a tile of an empty array, which has none"),
    ("test_mixed_scalar_tile_atomic[True]", "the test updates memory behind an array of one element"),
    ("test_static_stride_singleton_axis", "the driver gives a dimension of size 1 a stride that keeps a promise"),
    ("'cuda_tile.for' op has step", "the test has a loop with a negative step, which has no meaning"),
    ("_cuGetProcAddress_v2", "the test loads the driver's library itself"),
    ("test_early_return_inside_for_loop", "the test is of another version than the front end"),
    ("test_error_message_stack_trace", "the test is of another version than the front end"),
    ("test_static_iter_return_not_allowed", "the test is of another version than the front end"),
    ("num_worker_warps should be", "the test is of another version than the front end"),
    ("Expected compile() to return", "the test is of another version than the front end"),
    ("DebugAttrTable.__init__()", "the test is of another version than the front end"),
    ("F8E5M3FNU", "the test is of another version than the front end"),
    ("test_array_trig", "the test wants the nearest result, and functions may be some units off"),
    ("test_array_log", "the test wants the nearest result, and functions may be some units off"),
    ("test_ct_assert", "the test starts a process of its own, which wants a GPU"),
    ("CompletedProcess", "the test starts a process of its own, which wants a GPU"),
    ("CalledProcessError", "the test starts a process of its own, which wants a GPU"),
    ("_cpu\" not implemented for", "torch lacks the function that the test compares with on the CPU"),
]

# Tests of launching, not of kernels.
LEFT_OUT = ("test_concurrent_launch.py", "test_cudagraph.py", "test_jax.py", "test_tune.py", "test_print.py")


def rows_of(path: str) -> list[dict[str, Any]]:
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def table(head: list[str], rows: list[list[Any]]) -> None:
    print(f"| {' | '.join(head)} |")
    print(f"|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    print(flush=True)


class Run:
    """One invocation: the checkout, a folder for the outputs of processes, and the failures."""

    def __init__(self, given: argparse.Namespace, folder: str) -> None:
        self.checkout = given.checkout.resolve()
        self.limit = given.limit
        self.version = given.version
        self.list = given.list
        self.figures = given.figures
        self.one_target = given.one_target
        self.keep = given.keep.resolve() if given.keep else None
        self.suite = self.checkout / given.suite
        self.emulated = tuple(given.emulate.split(","))
        self.targets = () if given.vendor else TARGETS
        self.vendor = given.vendor
        self.only = [name.removeprefix(f"{given.suite}/") for name in given.only]
        self.selection = [
            f"--device-every={given.every}", f"--device-minutes={given.minutes}",
            *([f"--device-cover={given.cover}"] if given.cover else []), *(["-k", given.match] if given.match else []),
        ]  # fmt: skip
        self.folder = folder
        self.failed: list[str] = []
        imported = [str(self.checkout / name) for name in given.path]
        paths = [str(HERE.parents[1]), str(FRONT_END), *imported, os.environ.get("PYTHONPATH", "")]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                            "PYTHONDONTWRITEBYTECODE": "1",
                            # The benchmarks select tile sizes by the name of a GPU.
                            "CUDA_TILE_BENCHMARK_GPU_NAME": "NVIDIA B200"}  # fmt: skip

    def call(self, arguments: list[str], where: Path | None = None) -> None:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=where, env=self.environment, capture_output=True, text=True, check=False
        )
        if self.list and done.returncode not in (0, 1):
            print(done.stdout[-2000:], done.stderr[-2000:], sep="\n", file=sys.stderr)

    def samples(self, name: str, *options: str) -> dict[str, dict[str, Any]]:
        out = os.path.join(self.folder, name)
        self.call([str(FRONT_END / "run_samples.py"), str(self.checkout), out, *options])
        return {row["sample"]: row for row in rows_of(out)}

    def pytest(self, name: str, files: list[str], *options: str) -> tuple[list[dict], list[dict]]:
        """(outcomes of tests, records of kernels)."""
        outcomes, records = (os.path.join(self.folder, f"{name}.{kind}") for kind in ("outcomes", "records"))
        self.call(
            ["-m", "pytest", "-p", "plugin", "-p", "no:cacheprovider", "-o", "addopts=", "-q", "--tb=no",
             "--continue-on-collection-errors", f"--device-outcomes={outcomes}", f"--device-report={records}",
             f"--device-version={self.version}", *(["--device-vendor"] if self.vendor else []), *options, *files],
            self.suite,
        )  # fmt: skip
        return rows_of(outcomes), rows_of(records)

    def fail(self, text: str) -> None:
        self.failed.append(text)
        if self.list:
            print(f"FAILED {text}", flush=True)


def compiled(run: Run, records: list[dict[str, Any]], target: str) -> str:
    """`accepted/all` of a target's kernels; refusals that name a type that the target lacks are not counted."""
    rows = [row for row in records if row["target"] == target]
    lacking = [row for row in rows if "unsupported type" in row["error"]]
    good = [row for row in rows if row["assembled"]]
    for row in rows:
        if row not in good and row not in lacking:
            run.fail(f"{row['origin']} [{target}] {row['error'] or 'not assembled'}"[:400].replace("\n", " | "))
    return f"{len(good)}/{len(rows) - len(lacking)}"


def samples_part(run: Run) -> None:
    """The samples, then their templates; scripts that do not launch here run at small sizes."""
    if run.vendor:
        small = {
            target: run.samples(target, "--backend", "emulate", "--target", target, "--vendor")
            for target in run.emulated
        }
        whole = {name: {"kernels": []} for results in small.values() for name in results}
        rows = [[row[0], *row[2:]] for row in sample_rows(run, whole, small, "")]
        table(["sample", *(f"emulated {target}" for target in run.emulated)], rows)
        return
    rows, targets, keep = [], ",".join(TARGETS), ["--folder", str(run.keep)] if run.keep else []
    for folder in ("samples", "samples/templates"):
        options = ["--source", folder]
        whole = run.samples("whole", "--backend", "compile", "--targets", targets, *options, *keep)
        small = {"interpret": run.samples("interpret", "--backend", "interpret", "--targets", targets, *options)}
        for target in run.emulated:
            small[target] = run.samples(target, "--backend", "emulate", "--target", target, *options)
        rows += sample_rows(run, whole, small, "" if folder == "samples" else "templates/")
    table(["sample", "kernels", *TARGETS, "interpreted", *(f"emulated {target}" for target in run.emulated)], rows)


def sample_rows(run: Run, whole: dict[str, dict], small: dict[str, dict[str, dict]], prefix: str) -> list[list[Any]]:
    rows = []
    for name, row in whole.items():
        kernels = row["kernels"] or small.get("interpret", {}).get(name, {}).get("kernels", [])
        cells: list[Any] = [prefix + name, len({kernel["digest"] for kernel in kernels})]
        cells += [compiled(run, kernels, target) for target in run.targets]
        for key, results in small.items():
            result = results.get(name)
            if result is None:
                cells.append("")
            elif result["said"]:
                run.fail(f"{prefix}{name} [{key}] {result['said']}")
                cells.append("differs")
            else:
                cells.append(f"{result['compared']}: {result['worst']:.1g}")
        rows.append(cells)
    return rows


def by_file(rows: list[dict[str, Any]], key: str) -> dict[str, list[dict[str, Any]]]:
    result: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        result[os.path.basename(row[key].partition("::")[0])].append(row)
    return dict(sorted(result.items()))


def benchmarks_part(run: Run) -> None:
    """Run one process per file: sizes are the benchmarks' own, and memory accordingly."""
    rows = []
    for path in sorted((run.checkout / "test").glob("bench_*.py")):
        _, records = run.pytest(
            path.stem, [path.name], "--device-backend=compile", f"--device-targets={','.join(TARGETS)}",
            *([f"--device-folder={run.keep}"] if run.keep else []), "-k", "not torch",
        )  # fmt: skip
        kernels = len({record["digest"] for record in records})
        if not kernels:
            run.fail(f"{path.name}: nothing was compiled")
        rows.append([path.name, kernels, *(compiled(run, records, target) for target in TARGETS)])
    table(["benchmarks", "kernels", *TARGETS], rows)


def small_part(run: Run) -> None:
    """The benchmarks at sizes that can be emulated, against torch."""
    rows, known, targets = [], Counter(), ",".join(run.emulated)
    for path in sorted((run.checkout / "test").glob("bench_*.py")):
        outcomes, records = run.pytest(
            f"small.{path.stem}", [path.name], "--device-backend=both", "--device-small",
            f"--device-emulated={targets}", f"--device-limit={run.limit}",
            *(["--device-one-target"] if run.one_target else []), "-k", "not torch",
        )  # fmt: skip
        rows.append([path.name, count_tests(run, outcomes, known), agreement(run, records)])
    print("Benchmarks: passed, failed, known, skipped.  Agreement: to the bit, within the tolerance, too large, other.")
    table(["small benchmarks", "interpreted and emulated", "agreement"], rows)


def known_reason(outcome: dict[str, Any]) -> str | None:
    return next((why for part, why in KNOWN if part in outcome["test"] + outcome["said"]), None)


def count_tests(run: Run, outcomes: list[dict[str, Any]], known: Counter) -> str:
    counts = Counter(outcome["outcome"] for outcome in outcomes)
    for outcome in outcomes:
        if outcome["outcome"] == "failed" and (reason := known_reason(outcome)) is not None:
            known[reason] += 1
            counts["failed"] -= 1
            counts["known"] += 1
        elif outcome["outcome"] == "failed":
            run.fail(f"{outcome['test']} {outcome['said'][:400]}".replace("\n", " | "))
    return " ".join(str(counts[key] or "·") for key in ("passed", "failed", "known", "skipped"))


def agreement(run: Run, launches: list[dict[str, Any]]) -> str:
    """Kernels by their worst launch: equal to the bit, within the tolerance, not emulated in time, other.

    Refusals that name a type that the target lacks are not counted.
    """
    order = ["same", "close", "large", "refused", "failed", "differs"]
    worst: dict[tuple[str, str], dict[str, Any]] = {}
    for launch in launches:
        key = launch["digest"], launch["target"]
        if key not in worst or order.index(launch["result"]) > order.index(worst[key]["result"]):
            worst[key] = launch
    counts = Counter(launch["result"] for launch in worst.values())
    for launch in worst.values():
        if launch["result"] == "failed" and known_reason({"test": launch["origin"], "said": launch["said"]}):
            counts["failed"] -= 1
        elif launch["result"] == "refused" and "unsupported type" in launch["said"]:
            counts["refused"] -= 1
        elif launch["result"] in ("refused", "failed", "differs"):
            run.fail(f"{launch['origin']} [{launch['target']}] {launch['result']}: {launch['said'][:300]}")
    other = counts["refused"] + counts["failed"] + counts["differs"]
    return " ".join(str(count or "·") for count in (counts["same"], counts["close"], counts["large"], other))


def tests_part(run: Run) -> None:
    """Interpret and emulate; with figures of earlier runs, run only the missing tests, and print the table of all."""
    result = (path for path in run.suite.rglob("test_*.py") if path.name not in LEFT_OUT)
    files = sorted(str(path.relative_to(run.suite)) for path in result)
    emulated, targets = ",".join(run.emulated), ",".join(run.targets)
    without = os.path.join(run.folder, "without")
    with open(without, "w", encoding="utf-8") as file:
        earlier = [] if run.only else rows_of(str(run.figures)) if run.figures else []
        file.writelines(outcome["test"] + "\n" for row in earlier for outcome in row["outcomes"])
    outcomes, records = run.pytest(
        "tests", run.only or files, "--device-backend=both", f"--device-targets={targets}",
        f"--device-emulated={emulated}", f"--device-limit={run.limit}", f"--device-without={without}",
        *(["--device-one-target"] if run.one_target else []), *run.selection,
    )  # fmt: skip
    if run.figures:
        outcomes, records = add_up(run.figures, outcomes, records)
    kernels, known, rows = by_file(records, "origin"), Counter(), []
    for file, tests in by_file(outcomes, "test").items():
        own = kernels.get(file, [])
        value, launched = ([row for row in own if ("result" in row) == launch] for launch in (False, True))
        cells: list[Any] = [file, count_tests(run, tests, known), len({row["digest"] for row in value})]
        cells += [compiled(run, value, target) for target in run.targets]
        rows.append([*cells, agreement(run, launched)])
    print("Tests: passed, failed, known, skipped.  Agreement: to the bit, within the tolerance, too large, other.")
    table(["tests", "interpreted and emulated", "kernels", *run.targets, "agreement"], rows)
    for reason, count in sorted(known.items()):
        print(f"{count} known: {reason}")


def add_up(path: Path, outcomes: list[dict], records: list[dict]) -> tuple[list[dict], list[dict]]:
    """The results of this run and of the earlier ones in the file; for tests and kernels, the last one counts."""
    earlier = rows_of(str(path))
    tests = {outcome["test"]: outcome for row in earlier for outcome in row["outcomes"]}
    again = {outcome["test"] for outcome in outcomes}
    old = [record for row in earlier for record in row["records"] if record["origin"] not in again]
    kernels = {}
    for record in [*old, *records]:
        kernels[record["digest"], record["target"], record["origin"] if "result" in record else ""] = record
    tests.update({outcome["test"]: outcome for outcome in outcomes})
    outcomes, records = list(tests.values()), list(kernels.values())
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps({"outcomes": outcomes, "records": records}) + "\n")
    return outcomes, records


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--parts", default="samples,benchmarks,small,tests")
    parser.add_argument("--every", default="1", help="one in N of the tests; N/K: beginning with test K")
    parser.add_argument("--cover", choices=("functions", "axes", "pairs"), help="as many tests as have all of these")
    parser.add_argument("--match", default="", help="pytest's -k")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no test later than that")
    parser.add_argument("--suite", default="test", help="the folder of the tests")
    parser.add_argument("--path", nargs="*", default=[], help="folders of the checkout that its tests import from")
    parser.add_argument("--only", nargs="*", default=[], help="these tests, as pytest names them")
    parser.add_argument("--one-target", action="store_true", help="each kernel for one target only")
    parser.add_argument("--figures", type=Path, help="add what the tests say up in this file, and go on there")
    parser.add_argument("--keep", type=Path, help="leave the bytecode of samples and benchmarks in this folder")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds that one launch may take")
    parser.add_argument("--version", default="13.4", help="the bytecode version of tests and benchmarks")
    parser.add_argument("--list", action="store_true", help="say what failed")
    parser.add_argument("--vendor", action="store_true", help="emulate the vendor's code in the place of ours")
    parser.add_argument("--emulate", default=",".join(EMULATED), help="the targets whose code is emulated")
    options = parser.parse_args()
    missing = [name for name in ("cuda.tile", "torch", "pytest") if importlib.util.find_spec(name) is None]
    missing += ["ptxas"] if toolkit.find_program("ptxas") is None else []
    if missing:
        print(f"front_end_samples: not installed: {', '.join(missing)}", file=sys.stderr)
        return 2
    parts = {"samples": samples_part, "benchmarks": benchmarks_part, "small": small_part, "tests": tests_part}
    wanted = options.suite if options.parts == "tests" else "samples"
    if not (options.checkout / wanted).is_dir():
        parser.error(f"'{options.checkout}' has no {wanted}")
    if unknown := [name for name in options.parts.split(",") if name not in parts]:
        parser.error(f"no part '{unknown[0]}'; there are {', '.join(parts)}")
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(options, folder)
        for name in options.parts.split(","):
            parts[name](run)
    print(f"{len(run.failed)} failed")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
