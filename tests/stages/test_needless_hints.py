"""A hint that asks for no more than the plan without it changes nothing; the cost of any other is stated."""

from __future__ import annotations

import re

import pytest

import tileiras
from tests.generator.judge import draw
from tests.kernels.reasons import causes, stated
from tileiras.diagnostics import CompileError

SHORT = range(3)
MORE = [pytest.param(number, marks=pytest.mark.slow) for number in range(3, 60)]


def compiled(case, hints: str, **options):
    """PTX of a drawn kernel for the target of its build, with the maps and the strategy of that."""
    build = case.build
    options |= {"tensor_maps": build.maps, "pipeline_strategy": build.strategy}
    return tileiras.compile(case.kernel.source(hints), gpu_name=build.gpu_name, emit="ptx", **options)


@pytest.mark.parametrize("number", [*SHORT, *MORE])
def test_a_needless_hint_changes_no_byte(number):
    case = draw(7000 + number)
    try:
        alone = compiled(case, "").text
    except CompileError:
        pytest.skip("the drawn tiles exceed the target")
    assert compiled(case, "occupancy=1, num_ctas=1").text == alone
    for ctas in (2, 3):
        hinted = compiled(case, f"occupancy={ctas}", emit_remarks=True)
        needless = stated(hinted.diagnostics, "kernel.needless-hint")
        costs = causes(hinted.diagnostics, "kernel.plan-with-hint")
        assert len(needless) + len(costs) == 1, "either the hint is dropped, or its cost is stated"
        if needless:
            assert hinted.text == alone
        else:
            (held,) = re.findall(r"kernel.plan-without-hint ctas=(\d+)", costs[0])
            assert int(held) < ctas


def test_the_cost_of_ctas_for_a_tile_block_is_stated():
    case = draw(7000, targets=("sm_90",))
    hinted = compiled(case, "num_ctas=2", emit_remarks=True)
    (result,) = stated(hinted.diagnostics, "kernel.plan-with-hint")
    assert 'hint="num_ctas=2"' in result and "kernel.plan-without-hint" in result
