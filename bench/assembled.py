"""python -m bench assembled [--targets sm_90,...] [--plans plain,auto,...] [--samples CHECKOUT] [--rows FILE]
[--reference] [--most N] [FILE-OR-FOLDER ...]

The machine code that ptxas makes of kernels by plan for their loops (`bench/plans.py`), and its faults:

- a message, such as one of C7506 to C7519, with which ptxas serializes products;
- more local memory than by the plan `plain`, and with `--reference` than by the reference compiler;
- products of warpgroups or into tensor memory that the compiler chose and the machine code does not have;
- products left to warps where the target has instructions of more of them (`wgmma`, `tcgen05.mma`), for a reason that
  is not the product's type or size: a resource that ran out.

Files are bytecode; without any, those of `examples/` and, with a checkout of cuTile Python, the kernels of its samples
and benchmarks.  `--most` takes so many files of a folder with the same entry, by names of their own.  Rows are appended
to FILE as JSON, and its rows are not computed again.  Kernels that every plan refuses are counted apart.  Needs ptxas
and nvdisasm.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tileiras
from bench import real_sizes
from bench.code import front_end_launches
from bench.estimates import GPUS
from bench.kernels import Kernel, collect
from bench.plans import PLANS, Plan, plans
from tileiras.codegen import machine_code, ptxas
from tileiras.diagnostics import CompileError
from tileiras.diagnostics.remarks import Remark
from tileiras.targets import rates, sm

sys.path.insert(0, str(real_sizes.CONFORMANCE))
from vendor_ptx import Refused, vendor_compile  # noqa: E402

BASE = "plain"
"""The plan that the others are held against."""

ASYNCHRONOUS = ("wgmma", "tcgen05")
"""Instructions that several warps execute together, or one thread for all, begin with one of these."""

_OF_DOTS = ("dots.tensor-cores", "dots.fma")
_PRODUCTS = re.compile(r"(?:UTC[A-Z]*|[HQIB]G)MMA")
"""Their opcodes in machine code."""

_OF_THE_PRODUCT = ("dots.types", "dots.scaled-types", "dots.small", "dots.shallow", "dots.batch", "dots.no-instruction",
                   "dots.no-instruction-but-near", "dots.target-lacks", "dots.scales-by-runs")  # fmt: skip
"""Codes of reasons that lie in a product's type and size."""


class Row(NamedTuple):
    """An entry by a plan on a target.  Bytes of local memory are a thread's; `left` are the codes and
    arguments of the reasons of products that warps execute by themselves."""

    kernel: str
    entry: str
    target: str
    plan: str
    registers: int = 0
    local: int = 0
    chosen: int = 0
    """Products that are of warpgroups or into tensor memory by the compiler's choice."""
    executed: int = 0
    """Instructions of such products in the machine code."""
    left: tuple[str, ...] = ()
    messages: str = ""
    refusal: str = ""

    @property
    def short(self) -> list[str]:
        """Reasons that are a shortage, where the target has instructions of more than a warp."""
        known = sm.target(self.target)
        if not (known.has("wgmma") or known.has("tcgen05")):
            return []
        return [reason for reason in self.left if reason.partition(" ")[0] not in _OF_THE_PRODUCT]


def rows(kernel: Kernel, target: str, plan: str, options: Plan) -> Iterator[Row]:
    """A row for each entry of a file."""
    try:
        result = tileiras.compile(kernel.path, gpu_name=target, emit="ptx", emit_remarks=True, **options)
    except CompileError as error:
        yield Row(kernel.name, "", target, plan, refusal=f"{error}".strip().split("\n")[0])
        return
    for each in result.kernels:
        try:
            done = ptxas.assemble(each.artifacts[".ptx"].decode(), target)
        except CompileError as error:
            yield Row(kernel.name, each.name, target, plan, refusal=f"{error}".strip().split("\n")[0])
            continue
        dots = [
            d for d in result.diagnostics if isinstance(d, Remark) and d.code in _OF_DOTS and d.function == each.name
        ]
        chosen = [dot for dot in dots if dot.arguments["Instruction"].startswith(ASYNCHRONOUS)]
        executed = 0
        if dots:
            code = machine_code.read(done.cubin, each.name).instructions
            executed = sum(_PRODUCTS.fullmatch(instruction.opcode) is not None for instruction in code)
        resource = done.resources[each.name]
        left = tuple(sorted({dot.cause.spelled() if dot.cause else "" for dot in dots if dot not in chosen}))
        yield Row(kernel.name, each.name, target, plan, resource.registers, resource.stack, len(chosen), executed, left,
                  done.messages)  # fmt: skip


def reference_rows(kernel: Kernel, target: str) -> Iterator[Row]:
    """A row for each entry by the reference compiler, whose PTX is assembled as ours is."""
    try:
        result = vendor_compile(Path(kernel.path).read_bytes(), target)
        done = ptxas.assemble(result.ptx, target)
    except (Refused, CompileError) as error:
        yield Row(kernel.name, "", target, REFERENCE, refusal=f"{error}".strip().split("\n")[0])
        return
    for name, resource in done.resources.items():
        yield Row(kernel.name, name, target, REFERENCE, resource.registers, resource.stack)


REFERENCE = "reference"


def faults(found: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """The faults of rows, each with a sentence."""
    local = {(row.kernel, row.entry, row.target, row.plan): row.local for row in found if not row.refusal}
    for row in found:
        if row.plan == REFERENCE:
            continue
        if row.refusal:
            # No plan supplies a feature that the target lacks.
            if any(other.kernel == row.kernel and other.target == row.target and not other.refusal for other in found):
                yield row, row.refusal
            continue
        if row.messages:
            yield row, "; ".join(sorted(set(re.findall(r"C7\d\d\d", row.messages)))) or row.messages.split("\n")[0]
        for other in (BASE, REFERENCE):
            least = local.get((row.kernel, row.entry, row.target, other))
            if least is not None and row.local > least:
                yield row, f"{row.local} bytes of local memory, {other} {least}"
        if row.chosen and not row.executed:
            yield row, f"{row.chosen} products of which the machine code has none"
        for reason in row.short:
            yield row, f"a product left to warps: {reason or 'no reason given'}"


# ---- compiled kernels ----------------------------------------------------------------------------------------------


def _front_end(folder: str, target: str) -> Iterator[Kernel]:
    gpu = rates.gpu(GPUS.get(target, "B200"))
    for name, make in front_end_launches(gpu.name):
        path = os.path.join(folder, f"{target}_{re.sub(r'[^A-Za-z0-9]+', '_', name)}.tileirbc")
        try:
            Path(path).write_bytes(real_sizes.bytecode(make(gpu), target))
        except (CompileError, OSError) as error:
            print(f"  {name} on {target}: {f'{error}'.strip().splitlines()[0]}")
            continue
        yield Kernel(name, path, 0)


def _few_of_each(kernels: Sequence[Kernel], most: int) -> list[Kernel]:
    """At most so many files whose first name, up to the mangled signature, is the same."""
    seen: collections.Counter[bytes] = collections.Counter()
    result = []
    for kernel in kernels:
        match = re.search(rb"(\w+?)_Kt\d", Path(kernel.path).read_bytes())
        name = match[1] if match else kernel.path.encode()
        seen[name] += 1
        if seen[name] <= most:
            result.append(kernel)
    return result


# ---- the table -----------------------------------------------------------------------------------------------------


class Kept:
    """Rows in a file, by file, target and plan."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._rows: dict[tuple[str, str, str], list[Row]] = collections.defaultdict(list)
        if path and os.path.exists(path):
            for line in Path(path).read_text().splitlines():
                values: dict[str, Any] = json.loads(line)
                row = Row(**{**values, "left": tuple(values["left"])})
                self._rows[row.kernel, row.target, row.plan].append(row)

    def get(self, key: tuple[str, str, str]) -> list[Row] | None:
        return self._rows.get(key)

    def put(self, added: Sequence[Row]) -> None:
        if self._path:
            with open(self._path, "a", encoding="utf-8") as file:
                file.writelines(json.dumps(row._asdict()) + "\n" for row in added)


def table(found: Sequence[Row]) -> None:
    """Counts by target and plan, then each fault."""
    print("| target | plan | entries | refused | with products | more than a warp's | local memory | faults |")
    print("|---|---|---|---|---|---|---|---|")
    wrong = list(faults(found))
    groups: dict[tuple[str, str], list[Row]] = collections.defaultdict(list)
    for row in found:
        groups[row.target, row.plan].append(row)
    for (target, plan), own in groups.items():
        count = sum(row.target == target and row.plan == plan for row, _ in wrong)
        dots = sum(bool(row.chosen or row.left) for row in own)
        refused = sum(bool(row.refusal) for row in own)
        print(f"| {target} | {plan} | {len(own)} | {refused} | {dots} | {sum(row.executed > 0 for row in own)} |"
              f" {sum(row.local > 0 for row in own)} | {count} |")  # fmt: skip
    print()
    for row, what in wrong:
        print(f"{row.target} {row.plan} {row.kernel} {row.entry[:60]}: {what}")


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench assembled", description=__doc__.split("\n\n")[1])
    parser.add_argument("--targets", default="sm_90,sm_100")
    parser.add_argument("--plans", type=plans, default={name: PLANS[name] for name in (BASE, "auto")})
    parser.add_argument("--samples", type=Path)
    parser.add_argument("--rows", default="")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--most", type=int, default=sys.maxsize)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    if options.samples:
        real_sizes.prepare(options.samples)
    value, result = Kept(options.rows), []
    with tempfile.TemporaryDirectory() as folder:
        files = (
            [] if options.samples and not options.files else _few_of_each(collect(folder, options.files), options.most)
        )
        for target in options.targets.split(","):
            more = list(_front_end(folder, target)) if options.samples else []
            for kernel in [*files, *more]:
                for plan in [*options.plans, *([REFERENCE] if options.reference else [])]:
                    done = value.get((kernel.name, target, plan))
                    if done is None:
                        entry = reference_rows(kernel, target) if plan == REFERENCE else rows(
                            kernel, target, plan, options.plans[plan])  # fmt: skip
                        value.put(done := list(entry))
                    result += done
    table(result)
    return 0
