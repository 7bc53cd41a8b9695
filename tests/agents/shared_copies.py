"""Kernels whose tile blocks copy for each other where they are a cluster, and the passages that order them."""

from __future__ import annotations

import functools
import re

import tileiras
from tests.agents.running import SPECIALIZED, Judge, sites, survives
from tests.kernels.reasons import stated

SEEDS = (None, 0, 1)
EVERYWHERE = "::bytes.multicast::cluster"


@functools.cache
def compiled(text: str, gpu: str = "sm_90", emit: str = "ptx", **options: str | int | bool) -> tileiras.Artifact:
    """Compiled with agents and tensor maps of the host, once for all tests of a kernel."""
    result = {**SPECIALIZED, "tensor_maps": "host", "emit_remarks": True, **options}
    return tileiras.compile(text, gpu_name=gpu, emit=emit, **result)


def may_share(artifact: tileiras.Artifact) -> bool:
    """Whether a remark states that its tile blocks do."""
    return bool(stated(artifact.diagnostics, "kernel.blocks-share"))


def superfluous(code: str, judge: Judge, remote: int) -> list[str]:
    """Passages that order tile blocks and their agents, `remote` of them arrivals at another one, and that can be
    deleted without a wrong result."""
    assert survives(code, judge, SEEDS)
    result = sites(code)
    barrier = re.search(r"barrier\.cluster\.arrive[\w.]*;\s*barrier\.cluster\.wait[\w.]*;", code)
    result.append((barrier[0], code[: barrier.start()] + code[barrier.end() :]))
    assert sum("shared::cluster.b64" in line for line, _ in result) == remote and "acq_rel" not in code
    return [line for line, broken in result if survives(broken, judge, SEEDS)]
