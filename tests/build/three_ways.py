"""Reports about kernels, the command's, the library's and a build's, side by side; as a program, of all examples and
every target.

    python tests/build/three_ways.py [--targets sm_90,...] [NAME ...]

Prints the differences, and ends with exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import digests
from project import CHECKOUT, Project

from tileiras import api
from tileiras.build import discover
from tileiras.cli import tileiras
from tileiras.diagnostics import CompileError
from tileiras.diagnostics.remarks import remarks_of
from tileiras.options import GPU_NAMES

SCONSTRUCT = """\
import os
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ)
for source, target in {cases!r}:
    env.TileKernel(source, sm=target, emit="cubin", emit_remarks=True)
"""

DYNAMIC = "bytecode/matmul_f16.tileirbc"
"""An example whose launch provides shared memory, on every target."""

Case = tuple[str, str]
"""A source's path below `examples/` and a target."""

Reported = dict[str, Any]
"""`resources` by kernel, and the `remarks` in their order."""


def all_cases(names: Iterable[str] = (), targets: Iterable[str] = GPU_NAMES) -> list[Case]:
    """Every example, for every target that has the features of the example."""
    wanted = set(names)
    cases = []
    for name in digests.examples():
        path = os.path.join(CHECKOUT, "examples", *name.split("/"))
        least = (discover.required_target(path) if name.endswith(".py") else None) or 0
        if not wanted or name in wanted:
            cases += [(name, target) for target in targets if int(target.removeprefix("sm_")) >= least]
    return cases


def some_cases(parts: int) -> list[list[Case]]:
    """Every example for one target, targets in turn, and one with shared memory for every target; in equal parts."""
    cases = []
    for number, name in enumerate(digests.examples()):
        targets = [target for _, target in all_cases([name])]
        cases.append((name, targets[number % len(targets)]))
    cases += [case for case in all_cases([DYNAMIC]) if case not in cases]
    if not discover.has_front_end():
        cases = [case for case in cases if not case[0].endswith(".py")]
    return [cases[part::parts] for part in range(parts)]


def source_of(case: Case) -> str:
    return f"examples/{case[0]}"


def of_library(case: Case) -> Reported | None:
    """None for a kernel that the target refuses."""
    source = source_of(case)
    try:
        result = api.compile(source, gpu_name=case[1], emit="cubin", emit_remarks=True)
    except CompileError:
        return None
    resources = json.loads(result.kernels[0].artifacts[".resources.json"])["kernels"]
    return {"resources": resources, "remarks": [remark.fields() for remark in remarks_of(result.diagnostics)]}


def of_command(case: Case, folder: str, *words: str) -> Reported | None:
    """The files and messages of `tileiras --save-temps`."""
    output = io.StringIO()
    arguments = [source_of(case), "--gpu-name", case[1], "-o", os.path.join(folder, "out.cubin"), "--save-temps"]
    with contextlib.redirect_stderr(output):
        code = tileiras.main([*arguments, "--remarks=all", "--diagnostics=json", *words])
    if code:
        return None
    stem = os.path.splitext(os.path.basename(case[0]))[0]
    with open(os.path.join(folder, f"{stem}.resources.json"), "rb") as file:
        resources = json.load(file)["kernels"]
    return {"resources": resources, "remarks": [json.loads(line) for line in output.getvalue().splitlines()]}


def of_builds(cases: Iterable[Case], folder: str) -> dict[Case, Reported | None]:
    """One build of all cases; None for those that fail."""
    tree = Project(folder, store="off")
    os.symlink(os.path.join(CHECKOUT, "examples"), tree.path("examples"))
    cases = list(cases)
    tree.write("SConstruct", SCONSTRUCT.format(cases=[(source_of(case), case[1]) for case in cases]))
    tree.scons("-k", f"-j{os.cpu_count() or 1}", "-s", expect=None)
    return {case: _built(tree, case) for case in cases}


def _built(tree: Project, case: Case) -> Reported | None:
    stem = discover.artifact_stem(os.path.join(CHECKOUT, "examples", *case[0].split("/")))
    place = tree.path(os.path.join("build", case[1], "O3", "examples", os.path.dirname(case[0]), stem))
    resources: dict[str, Any] = {}
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in os.listdir(place) if os.path.isdir(place) else ():
        with open(os.path.join(place, name), "rb") as file:
            if name.endswith(".resources.json"):
                resources.update(json.load(file)["kernels"])
            elif name.endswith(".remarks.json"):
                rows[name] = json.load(file)["remarks"]
    return {"resources": resources, "remarks": [row for name in rows for row in rows[name]]} if resources else None


def shared_memory(reported: Reported) -> dict[str, Any]:
    """Shared memory of each kernel, in its resources and in its remark, which have to be the same."""
    value = {row["function"]: row["code_arguments"] for row in reported["remarks"] if row["code"] == "kernel.resources"}
    result = {}
    for name, row in reported["resources"].items():
        assert value[name]["shared"] == row["shared"], (name, value[name], row)
        result[name] = row["shared"]
    return result


def differences(cases: Iterable[Case], folder: str) -> Iterator[str]:
    """A line for each case in which the three ways report different results."""
    cases = list(cases)
    built = of_builds(cases, os.path.join(folder, "tree"))
    for case in cases:
        library = of_library(case)
        command = of_command(case, folder, "--tile-launch=false")
        launched = of_command(case, folder)
        where = " ".join(case)
        for way, other in (("the command", command), ("the build", built[case])):
            if other is None or library is None:
                if other is not None or library is not None:
                    yield f"{where}: {way} compiles what the library refuses, or the other way round"
                continue
            # A build stores remarks by stage: the order in which it prints them is not in its files.
            same = other == library if other is command else _sorted(other) == _sorted(library)
            if not same:
                yield f"{where}: {way} reports {_first_difference(other, library)}"
        # A tile launch has its shared memory from the module instead, which takes no less of an SM.
        if library is not None and (launched is None or shared_memory(launched) != shared_memory(library)):
            yield f"{where}: a tile launch has other shared memory"


def _sorted(reported: Reported) -> tuple[dict[str, Any], list[str]]:
    return reported["resources"], sorted(json.dumps(row, sort_keys=True) for row in reported["remarks"])


def _first_difference(mine: Reported, other: Reported) -> str:
    for name in {**mine["resources"], **other["resources"]}:
        pair = mine["resources"].get(name), other["resources"].get(name)
        if pair[0] != pair[1]:
            return f"resources of {name}: {pair[0]}, the library {pair[1]}"
    rows = [set(_sorted(reported)[1]) for reported in (mine, other)]
    return f"remarks {sorted(rows[0] - rows[1])[:2]}, the library {sorted(rows[1] - rows[0])[:2]}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="three_ways", description=__doc__)
    parser.add_argument("--targets", default=",".join(GPU_NAMES))
    parser.add_argument("names", nargs="*", help="paths below examples/")
    options = parser.parse_args(arguments)
    os.environ["TILEIRAS_CACHE_DIR"] = "off"
    os.chdir(CHECKOUT)
    cases = all_cases(options.names, options.targets.split(","))
    with tempfile.TemporaryDirectory() as folder:
        result = list(differences(cases, folder))
    print(*result, f"{len(cases)} compilations three ways, {len(result)} differences", sep="\n")
    return 1 if result else 0


if __name__ == "__main__":
    sys.exit(main())
