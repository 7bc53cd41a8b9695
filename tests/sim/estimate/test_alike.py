"""Executions that begin alike have the outcomes of separate simulations, with less to simulate."""

import pytest
from micro_kernels import OUT, chained_tcgen05, fma_chain, ring, shared_loads

from tests.machine_code import needs_tools
from tileiras.sim.estimate import alike, steady_state
from tileiras.sim.estimate.engine import Simulation
from tileiras.sim.estimate.images import load
from tileiras.sim.estimate.in_flight import WarpWork
from tileiras.sim.estimate.model import Model
from tileiras.targets.rates import gpu

pytestmark = needs_tools

KERNELS = {
    "fma": ("H200", lambda: fma_chain(8, 40)),
    "shared loads": ("H200", lambda: shared_loads(8, trips=40)),
    "ring": ("H200", lambda: ring(4, 40)),
    "tcgen05": ("B200", lambda: chained_tcgen05(trips=40)),
}


def prepared(name: str) -> Model:
    on, ptx = KERNELS[name]
    model = Model(load(ptx(), "k", gpu(on)), (1,), gpu(on), [OUT])
    model.prepare()
    return model


def lengths(model: Model, cuts: tuple[int, ...] = (8, 4, 0)) -> list:
    """The cluster without a number of periods of its iterations."""
    (cluster,) = model.recording.clusters
    state = steady_state.find(cluster, {number: block.lines for number, block in model.recording.blocks.items()})
    assert state is not None
    return [steady_state.cut(cluster, state, state.period * count) for count in cuts]


def figures(outcome) -> tuple:
    busy = [(unit, each.busy, each.free) for sm in outcome.sms for unit, each in sm.units.items()]
    return outcome.cycles, outcome.ends, outcome.issued, outcome.stalls, busy, [sm.flops for sm in outcome.sms]


@pytest.fixture
def issued(monkeypatch) -> list[int]:
    """Numbers of the segments that simulations issue."""
    numbers: list[int] = []
    issue = Simulation._issue

    def counted(self, warp, segment, now):
        numbers.append(segment.number)
        return issue(self, warp, segment, now)

    monkeypatch.setattr(Simulation, "_issue", counted)
    return numbers


def compared(model: Model, executions: list, slots: int, issued: list[int]) -> None:
    alone = [model._simulate([each], slots, model.active, history=True)[0] for each in executions]
    separate = len(issued)
    issued.clear()
    together = model._simulate(executions, slots, model.active, history=True)
    assert [figures(each) for each in together] == [figures(each) for each in alone]
    assert [warp.log for warp in together[-1].warps] == [warp.log for warp in alone[-1].warps]
    assert len(issued) < 0.9 * separate


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("name", KERNELS)
def test_a_loop_of_three_lengths(name, slots, issued):
    model = prepared(name)
    compared(model, [[each] * slots for each in lengths(model)], slots, issued)


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("name", KERNELS)
def test_longer_loops_go_on_from_shorter_ones(name, slots, issued):
    model = prepared(name)
    calls = [lengths(model, cuts) for cuts in ((8, 7, 6), (5,), (4, 3, 2))]

    def outcomes(trunk: alike.Trunk | None) -> list:
        return [each for executions in calls
                for each in model._simulate([[cluster] * slots for cluster in executions], slots, model.active,
                                            history=True, trunk=trunk)]  # fmt: skip

    apart = outcomes(None)
    separate = len(issued)
    issued.clear()
    together = outcomes(alike.Trunk())
    assert [figures(each) for each in together] == [figures(each) for each in apart]
    assert [warp.log for warp in together[-1].warps] == [warp.log for warp in apart[-1].warps]
    requests = [[unit.requests for sm in each[-1].sms for unit in sm.units.values()] for each in (together, apart)]
    assert requests[0] == requests[1]
    assert together[-1].spans == apart[-1].spans
    assert len(issued) < 0.9 * separate


@pytest.mark.parametrize("name", ["shared loads", "ring"])
def test_a_queue_of_two_lengths(name, issued):
    model = prepared(name)
    (cluster,) = model.recording.clusters
    compared(model, [[cluster] * 4, [cluster] * 6], 2, issued)


def test_executions_that_differ_in_their_first_step():
    model = prepared("fma")
    steps = model.walker.follow(model.recording.clusters[0].warps[0])

    def create(history: bool = False) -> Simulation:
        shares = model.shares(model.active)
        return Simulation(model.machine, model.gpu, shares, model.members, model.cache, history=history)

    later, first = ([[WarpWork(0, 0, work)]] for work in (steps[1:], steps))
    together = alike.outcomes(create, [later, first], 1, False)
    assert [figures(each) for each in together] == [figures(create().run(each, 1)) for each in (later, first)]
