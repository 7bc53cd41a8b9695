"""nv_tileaa -> LLVM IR for CPUs: tiles become loops over vectors.

One file per family of operations; each ends in a table from operation to rule.  `elementwise`, `floats` and `shape`
have the rules of expressions, which are computed in the loops of their users (`plan`).  An operation without a rule is
refused with its location.
"""

from __future__ import annotations

import json
from typing import Any

from tileiras.dialects.nv_tileaa import FuncOp, GlobalOp
from tileiras.ir import Operation

from . import atomics, collectives, control, dot, floats, function, memory, pieces, printing, views
from .lower import Features, Lowering

_RULES = {
    name: rule
    for family in (atomics, collectives, control, dot, function, memory, pieces, printing, views)
    for name, rule in family.FAMILY.items()
}



ATTRIBUTES = 'nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512"'
"""Of functions: LLVM would otherwise split vectors of 512 bits on processors that have them."""


def lower(module: Operation, features: Features) -> tuple[str, dict[str, Any]]:
    """LLVM IR text of the kernel of a module, and its launch description.

    Raises CompileError, located, for an operation without a rule.
    """
    body = list(module.regions[0].blocks[0].operations)
    globals_ = [function.global_definition(op) for op in body if isinstance(op, GlobalOp)]
    (kernel,) = (op for op in body if isinstance(op, FuncOp))
    state = Lowering(kernel, features, _RULES)
    block = function.block_function(state, kernel)
    entry = function.entry_function(state, kernel)
    parts = [
        *globals_, *state.constants, "", *state.code.functions.values(), block, entry,
        *sorted(state.code.declarations.values()), "",
        f"attributes #0 = {{ {ATTRIBUTES} }}", f"attributes #1 = {{ noinline strictfp {ATTRIBUTES} }}", "",
    ]  # fmt: skip
    description = {
        "name": state.name,
        "parameters": function.parameters(kernel),
        "hidden_parameters": [],
        "block": [1, 1, 1],
        "cluster": [1, 1, 1],
        "shared_memory": 0,
        "scratch": state.arena.size,
        "messages": state.messages,
        "prints": state.prints,
    }
    return "\n".join(parts), description


LAUNCH = "; launch: "
"""Prefix of the line of a file with the launch description."""


def describe(text: str, description: dict[str, Any]) -> str:
    """LLVM IR with its launch description."""
    return f"{LAUNCH}{json.dumps(description)}\n{text}"


def to_json(text: str, target: str) -> str:
    """NAME.json from the descriptions in a file of LLVM IR."""
    kernels = [json.loads(line.removeprefix(LAUNCH)) for line in text.split("\n") if line.startswith(LAUNCH)]
    return json.dumps({"format": 1, "target": target, "kernels": kernels}, indent=2) + "\n"
