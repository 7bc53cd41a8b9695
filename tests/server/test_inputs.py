"""A command that the service answers notices files that its kernel's modules have read, and that have changed since."""

import random

import pytest
from serving import CHECKOUT

from tests.kernels.reading import THINGS, World

pytest.importorskip("cuda.tile", reason="cuTile Python is not installed")

WORDS = ("app/kernels/k.py", "--gpu-name=sm_90", "--emit=bytecode", "-o", "k.tileirbc")


@pytest.mark.parametrize("edits", [2, pytest.param(len(THINGS), marks=pytest.mark.slow)])
def test_a_command_reruns_stages_with_changed_inputs(own_service, tmp_path, edits):
    world = World(tmp_path / "world")
    reads = world.write_kernel("k", random.Random(edits), len(THINGS))
    own_service.variables["PYTHONPATH"] = world.environment(CHECKOUT)["PYTHONPATH"]
    own_service.start()

    def compiled(server="auto", **environment):
        variables = {**world.environment(CHECKOUT), "TILEIRAS_CACHE_DIR": str(tmp_path / "store"), **environment}
        answer = own_service.run(WORDS, world.top, server, environment=variables)
        assert answer.code == 0, answer.error
        return answer.files["k.tileirbc"][1]

    for thing in sorted(reads)[-edits:]:
        served = compiled()
        assert compiled() == served == compiled("off", TILEIRAS_CACHE_DIR="off"), thing
        world.edit(thing)
        assert compiled() != served, thing
    assert own_service.facts()["requests"] >= 3 * edits
