"""docs/agents.md: its example runs, its table is the protocol's."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

import tileiras
from tests.agents.running import SEEDS, ptx
from tileiras.sim import emulate
from tileiras.targets.pipe_protocol import (
    ACCUMULATOR_LOADS,
    BOXES,
    OPERAND_STORES,
    PAIR,
    PAIR_PRODUCTS,
    PIPE_PROTOCOLS,
    PRODUCTS,
    TENSOR_MEMORY,
    PipeProtocol,
)
from tileiras.targets.requirements import spell

PAGE = Path(__file__).parents[2].joinpath("docs", "agents.md").read_text(encoding="utf-8")


def test_the_example_runs(assemble):
    (text,) = re.findall(r"```mlir\n(.*?)```", PAGE, re.DOTALL)
    code = ptx(text, "sm_80")
    assemble(code, "sm_80", "double")
    values = np.arange(5 * 256, dtype=np.float32)
    for seed in SEEDS[:2]:
        doubled = np.zeros_like(values)
        emulate(code, "double", 1, [values, doubled, values.size, 5], seed=seed)
        np.testing.assert_array_equal(doubled, 2 * values)


def test_the_commands_compile_the_example(tmp_path, monkeypatch):
    """NAME.json describes the launch of all warps, with which the emulator runs the kernel."""
    (text,) = re.findall(r"```mlir\n(.*?)```", PAGE, re.DOTALL)
    (commands,) = re.findall(r"```\n(tileiras-opt .*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("double.mlir").write_text(text, encoding="utf-8")
    for command in commands.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(command)
        done = subprocess.run([Path(sys.executable).with_name(program), *arguments], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    artifact = tileiras.compile("double.tileas.mlir", gpu_name="sm_80")
    assert artifact.text == Path("double.ptx").read_text(encoding="utf-8")
    (kernel,) = artifact.kernels
    metadata = json.loads(kernel.artifacts[".json"])
    (described,) = metadata["kernels"]
    assert described["block"] == [160, 1, 1]
    # Mbarriers at both ends of two stages; then these, of 256 numbers each, at a multiple of 128 bytes.
    assert described["shared_memory"] == 128 + 2 * 1024
    result, doubled = np.arange(512, dtype=np.float32), np.zeros(512, np.float32)
    emulate(artifact.text, "double", 1, [result, doubled, 512, 2], metadata=metadata, seed=0)
    np.testing.assert_array_equal(doubled, 2 * result)


def row(protocol: PipeProtocol) -> str:
    def arrivals(signal: str, warps: str) -> str:
        return {"thread": f"32 {warps}", "agent": "1"}.get(signal, warps)

    cells = (
        f"`{protocol.producer}`", f"`{protocol.consumer}`",
        arrivals(protocol.full, "W"), f"`{protocol.full_signal}`",
        "2 V" if protocol.is_freed_by_both else arrivals(protocol.empty, "V"), f"`{protocol.empty_signal}`",
        protocol.fence or "none", spell(protocol.requires),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def test_the_table_is_the_protocol():
    lines = [line for line in PAGE.splitlines() if re.match(r"\| `\w+` \| `\w+` \|", line)]
    assert lines == [row(protocol) for protocol in PIPE_PROTOCOLS.values()]


def test_every_protocol_has_all_of_its_kinds():
    """Of each producer and each consumer of shared memory one, with arrivals that an mbarrier counts; stages for pairs
    of CTAs are filled in boxes, whose bytes the other CTA's mbarrier counts."""
    in_tensor_memory = {kinds for kinds, protocol in PIPE_PROTOCOLS.items() if protocol.is_in_tensor_memory}
    beside = {(BOXES, PAIR), *in_tensor_memory}
    shared = {kinds: protocol for kinds, protocol in PIPE_PROTOCOLS.items() if kinds not in beside}
    producers, consumers = ({kinds[side] for kinds in shared} for side in (0, 1))
    assert len(shared) == len(producers) * len(consumers) == len(PIPE_PROTOCOLS) - len(beside)
    for (producer, consumer), protocol in shared.items():
        generic = producer != "bulk_load", consumer == "ld_shared"
        # Through different proxies a fence is needed: before the asynchronous read, or before the next write.
        assert bool(protocol.fence) == (generic[0] != generic[1])
        assert protocol.full_count(32) == {"st_shared": 32, "cp_async": 1024, "bulk_load": 1}[producer]
        assert protocol.empty_count(32) == (1 if consumer in ("bulk_store", "tcgen05") else 32)
        assert not protocol.fills_by_commit


def test_tensor_memory_operands_are_filled_by_warps():
    protocol = PIPE_PROTOCOLS[OPERAND_STORES, TENSOR_MEMORY]
    assert protocol.frees_by_commit and not protocol.fills_by_commit and not protocol.fence
    assert (protocol.full_count(8), protocol.empty_count(1)) == (8, 1)


def test_accumulators_are_full_by_a_commit_and_empty_by_warps():
    protocol = PIPE_PROTOCOLS[PRODUCTS, ACCUMULATOR_LOADS]
    assert protocol.fills_by_commit and not protocol.frees_by_commit and not protocol.fence
    assert (protocol.full_count(1), protocol.empty_count(8)) == (1, 8)
    # Warps of both CTAs arrive at the mbarrier of one.
    of_pair = PIPE_PROTOCOLS[PAIR_PRODUCTS, ACCUMULATOR_LOADS]
    assert (of_pair.full_count(1), of_pair.empty_count(8)) == (1, 16)
