"""Delete the synchronization in the code of the examples, one instruction at a time: each deletion has to fail in the
emulator.

    python tests/conformance/deletions.py [--targets sm_90,...] [--maps none,host,device] [--strategies auto,...]
                                          [--match TEXT] [--part N/COUNT]

Prints a line per kernel, and every instruction whose deletion changes no launch's result.  Exits with 1 if there is
one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "examples"), str(HERE.parents[1])]

from example_launches import cases, entry_of, launch, survives  # noqa: E402

from tests.kernels.deletions import deletions  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402

SEEDS = (None, 0, 1, 2)
KEPT = "fence.mbarrier_init.release.cluster;"
"""The fence after the initialization of mbarriers that only commits of `tcgen05.mma` signal.  In the PTX ISA these
arrivals are by the asynchronous proxy, without an example of a fence; the emulator requires it for copies."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="sm_90,sm_100,sm_120")
    parser.add_argument("--maps", default="none,host")
    parser.add_argument("--strategies", default="auto")
    parser.add_argument("--match", default="", help="kernels whose name has this in it")
    parser.add_argument("--part", default="1/1", metavar="N/COUNT", help="every COUNTth deletion, from the Nth on")
    value = parser.parse_args(arguments)
    first, step = map(int, value.part.split("/"))
    tried = left = 0
    for name, result in sorted(cases(more=True).items()):
        if value.match not in name:
            continue
        for target in value.targets.split(","):
            own = [case for case in result if target in getattr(case, "targets", [target])]
            for maps in value.maps.split(",") if own else ():
                for strategy in value.strategies.split(","):
                    begin = time.monotonic()
                    options = {"gpu_name": target, "tensor_maps": maps, "pipeline_strategy": strategy}
                    try:
                        entry = entry_of([launch(case, **options) for case in own])
                    except CompileError as error:
                        print(f"{name} [{target} {maps} {strategy}] {error}")
                        continue
                    if not survives(entry, entry.ptx, SEEDS):
                        print(f"FAILED {name} [{target} {maps} {strategy}] as it is")
                        left += 1
                        continue
                    sites = deletions(entry.ptx)[first - 1 :: step]
                    outcome = [site for site in sites if not (site.deleted == KEPT and "tcgen05.commit" in entry.ptx)
                               and survives(entry, site.text, SEEDS)]  # fmt: skip
                    print(f"{name} [{target} {maps} {strategy}] {len(sites)} deletions, {len(outcome)} survive, "
                          f"{time.monotonic() - begin:.0f} s", flush=True)  # fmt: skip
                    for site in outcome:
                        line = entry.ptx.count("\n", 0, site.span[0]) + 1
                        print(f"    line {line}: {site.deleted} ({site.kind})", flush=True)
                    tried, left = tried + len(sites), left + len(outcome)
    print(f"{tried} deletions, {left} found by nobody")
    return int(left > 0)


if __name__ == "__main__":
    sys.exit(main())
