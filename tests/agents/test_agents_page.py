"""docs/agents.md: its example runs, its table is the protocol's."""

import re
from pathlib import Path

import numpy as np

from tests.agents.running import SEEDS, ptx
from tileiras.requirements import spelled
from tileiras.sim import emulate
from tileiras.targets.pipe_protocol import PIPE_PROTOCOLS, PipeProtocol

PAGE = Path(__file__).parents[2].joinpath("docs", "agents.md").read_text(encoding="utf-8")


def test_the_example_runs(assemble):
    (text,) = re.findall(r"```mlir\n(.*?)```", PAGE, re.DOTALL)
    code = ptx(text, "sm_80")
    assemble(code, "sm_80", "double")
    given = np.arange(5 * 256, dtype=np.float32)
    for seed in SEEDS:
        doubled = np.zeros_like(given)
        emulate(code, "double", 1, [given, doubled, given.size, 5], seed=seed)
        np.testing.assert_array_equal(doubled, 2 * given)


def row(protocol: PipeProtocol) -> str:
    def arrivals(signal: str, warps: str) -> str:
        return {"thread": f"32 {warps}", "warp": warps, "agent": "1"}[signal]

    cells = (
        f"`{protocol.producer}`", f"`{protocol.consumer}`",
        arrivals(protocol.full, "W"), f"`{protocol.full_signal}`",
        arrivals(protocol.empty, "V"), f"`{protocol.empty_signal}`",
        protocol.fence or "none", spelled(protocol.requires),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def test_the_table_is_the_protocol():
    lines = [line for line in PAGE.splitlines() if re.match(r"\| `\w+` \| `\w+` \|", line)]
    assert lines == [row(protocol) for protocol in PIPE_PROTOCOLS.values()]


def test_every_protocol_has_all_of_its_kinds():
    """Of each producer and each consumer one, with arrivals that an mbarrier counts."""
    producers, consumers = ({kinds[side] for kinds in PIPE_PROTOCOLS} for side in (0, 1))
    assert len(PIPE_PROTOCOLS) == len(producers) * len(consumers)
    for (producer, consumer), protocol in PIPE_PROTOCOLS.items():
        generic = producer != "bulk_load", consumer == "ld_shared"
        # Through different proxies a fence is needed: before the asynchronous read, or before the next write.
        assert bool(protocol.fence) == (generic[0] != generic[1])
        assert protocol.full_count(32) == {"st_shared": 32, "cp_async": 1024, "bulk_load": 1}[producer]
        assert protocol.empty_count(32) == (1 if consumer == "bulk_store" else 32)
