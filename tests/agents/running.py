"""Texts with agents to PTX, run in the emulator over several seeds with the search for races."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tests import tileas_stage
from tests.kernels.agents import TILE
from tileiras.ir import parse_module
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.passes.tileaa_agent_verifier import AgentVerifier
from tileiras.sim import EmulationError, emulate

SEEDS = (None, 0, 1, 2)
"""Orders in which warps take turns: two show that a kernel is right, all are tried where something is deleted."""

SPECIALIZED = {"pipeline_strategy": "warp-specialize"}
"""Options of a compilation."""
LIGHT = {**SPECIALIZED, "rrt_size_threshold": 0}
"""Without overlapping iterations of the agent that computes."""

ROWS = 7

Judge = Callable[[str, int | None], None]
"""Runs PTX in the order of a seed.  Raises EmulationError or AssertionError where it is not right."""


def verify(text: str, gpu: str = "sm_90") -> None:
    """Raise CompileError if the verifier rejects the agents of a text."""
    PassManager([AgentVerifier(compute_capability=gpu)], verify_each=False).run(parse_module(text), PassContext(None))


def ptx(text: str, gpu: str = "sm_90") -> str:
    verify(text, gpu)
    return tileas_stage.ptx(text, gpu)


def described(text: str, gpu: str = "sm_90") -> tuple[str, dict[str, Any]]:
    """PTX, and the metadata for a launch."""
    verify(text, gpu)
    return tileas_stage.described(text, gpu)


def is_specialized(code: str) -> bool:
    """Whether the warps of PTX that is compiled with `SPECIALIZED` have agents."""
    return "mbarrier.init" in code


def values(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-50, 50, 64 * TILE).astype(np.float32)


def run(code: str, seed: int | None, rows: int = ROWS, grid: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(a, b, c) after a launch of one block for so many rows; elements that are not written are -1."""
    a = values()
    b, c = (np.full_like(a, -1) for _ in range(2))
    assert emulate(code, "k", grid, [a, b, c, rows], seed=seed).searched_races
    return a, b, c


def check(actual: np.ndarray, expected: np.ndarray, rows: int = ROWS) -> None:
    """The first `rows` rows are as expected, the others untouched."""
    np.testing.assert_array_equal(actual[: rows * TILE], expected[: rows * TILE])
    assert (actual[rows * TILE :] == -1).all()


WAIT = (
    r"mbarrier\.(?:try|test)_wait[^;]*;\s*"
    r"(?:@%p\d+ bra\s+(?P<behind>[$\w]+);\s*bra\.uni\s[^;]*;(?=\s*(?P=behind):)"
    r"|(?:not\.pred[^;]*;\s*)?@!?%p\d+ bra[^;]*;)"
)
"""A wait for a phase, with the branch back to it, perhaps around the one that goes on."""

SYNCHRONISATION = re.compile(
    rf"{WAIT}"
    r"|\bbar(?:rier)?\.[\w.:]+\s[^;]*;|\bfence\.[\w.:]+\s*;|\bmbarrier\.(?:init|arrive)[^;]*;"
    r"|\bcp\.async\.mbarrier\.arrive[^;]*;|\bcp\.async\.bulk\.(?:commit_group|wait_group)[^;]*;|\bsetmaxnreg[^;]*;"
)


def sites(code: str) -> list[tuple[str, str]]:
    """(passage, text without it) for each passage that synchronises."""
    return [(" ".join(match[0].split()), code[: match.start()] + code[match.end() :])
            for match in SYNCHRONISATION.finditer(code)]  # fmt: skip


def survives(code: str, judge: Judge, seeds: tuple[int | None, ...] = SEEDS) -> bool:
    """Whether changed code still gives results that `judge(code, seed)` accepts, for every seed."""
    for seed in seeds:
        try:
            judge(code, seed)
        except (EmulationError, AssertionError):
            return False
    return True
