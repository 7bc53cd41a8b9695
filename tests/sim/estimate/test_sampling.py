"""Which clusters of a grid are recorded, and the conclusions for the others."""

import numpy as np
import pytest
from micro_kernels import OUT, STORE, estimate, fma_chain, kernel, loop

from tests.machine_code import needs_tools
from tileiras.sim.estimate import sampling


def sample(shape, trips):
    """(the final sample, number of recordings) of a grid whose cluster (x, y, z) visits `trips(x, y, z)`
    blocks."""

    def visits(place):
        x, rest = place % shape[0], place // shape[0]
        return [[1] * trips(x, rest % shape[1], rest // shape[1])]

    places, rounds = sampling.ends(shape), 1
    while True:
        result = sampling.sampled(shape, places, map(visits, places))
        more = result.missing()
        if not more:
            return result, rounds
        places, rounds = [*places, *more], rounds + 1


def estimated_work(found):
    return found.every({place: float(work) for place, work in found.work.items()})


def test_an_even_grid_is_known_by_its_ends():
    result, rounds = sample((64, 32, 4), lambda x, y, z: 10)
    assert rounds == 1 and sorted(result.work) == [0, 63, 64 * 31, 64 * 32 * 3]
    assert result.weights() == {0: 1.0, 63: 0.0, 64 * 31: 0.0, 64 * 32 * 3: 0.0}


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_work_that_grows_along_an_axis_takes_two_more(axis):
    shape = (128, 128, 128)
    result, rounds = sample(shape, lambda *at: 100 + 7 * at[axis])
    assert rounds == 2 and len(result.along(axis)) == 4
    expected = 100 + 7 * np.arange(128)
    assert np.allclose(np.moveaxis(estimated_work(result), axis, 0)[:, 0, 0], expected)
    assert sum(result.weights().values()) == pytest.approx(1)
    mean = sum(weight * result.work[place] for place, weight in result.weights().items())
    assert mean == pytest.approx(expected.mean(), rel=0.01)


@pytest.mark.parametrize("extent", [5, 32, 63, 148, 9999])
@pytest.mark.parametrize("part", [0.01, 0.3, 0.46, 0.5, 0.77, 0.99])
def test_an_edge_is_found(extent, part):
    """Exactly on a short axis, to a part in 32 on a long one."""
    edge = min(extent - 1, max(1, int(extent * part)))
    result, rounds = sample((extent, 1, 1), lambda x, y, z: 40 if x < edge else 30)
    expected = np.array([40.0] * edge + [30.0] * (extent - edge))
    wrong = np.flatnonzero(estimated_work(result)[:, 0, 0] != expected)
    assert wrong.size < extent / 32 and (np.abs(wrong - edge) <= extent / 32).all()
    assert rounds <= 4 and len(result.work) <= 20


def test_two_axes_add_up():
    result, _ = sample((50, 40, 1), lambda x, y, z: 100 + 10 * (x >= 17) + 5 * (y >= 33))
    x, y = np.arange(50)[:, None], np.arange(40)
    assert np.array_equal(estimated_work(result)[:, :, 0], 100 + 10 * (x >= 17) + 5.0 * (y >= 33))


def test_work_without_a_pattern_ends_somewhere():
    result, _ = sample((5000, 1, 1), lambda x, y, z: 10 + x * 7919 % 97)
    assert len(result.work) <= sampling.MOST


#: CTAs that take tiles in turn; some have one more.
PERSISTENT = kernel(
    "mov.f32 %f0, 0f3F800000;\nmov.f32 %f1, 0f3F000000;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %nctaid.x;\nTILE:\n"
    + loop("\n".join(["fma.rn.f32 %f0, %f0, %f1, %f1;"] * 16), 12) +
    f"add.u32 %r3, %r3, %r4;\nsetp.lt.u32 %p1, %r3, TILES;\n@%p1 bra TILE;\n{STORE}"
)  # fmt: skip


@needs_tools
def test_tiles_that_do_not_come_out_even():
    """Of 132 CTAs 37 have a tile more: the launch takes as long as they do, and no longer."""
    uneven, fewer, more = (
        estimate(PERSISTENT.replace("TILES", str(tiles)), [OUT], 132) for tiles in (4 * 132 + 37, 4 * 132, 5 * 132)
    )
    assert fewer.cycles < uneven.cycles == pytest.approx(more.cycles, rel=0.01)
    assert any("clusters do different work" in note for note in uneven.notes)


@needs_tools
def test_work_that_differs_is_the_same_estimate_in_two_runs():
    ptx = PERSISTENT.replace("TILES", str(4 * 132 + 37))
    assert estimate(ptx, [OUT], 132).to_json() == estimate(ptx, [OUT], 132).to_json()
    assert estimate(fma_chain(4, 40), [OUT], 132).to_json() == estimate(fma_chain(4, 40), [OUT], 132).to_json()
