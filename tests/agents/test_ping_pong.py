"""Two agents that compute take the tiles of a loop by turns, each with one tile for itself."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

import tileiras
from tests.agents.running import SEEDS, sites, survives, verify
from tests.kernels import tensor_maps, tile_rounds, uncounted_rounds
from tests.kernels.ping_pong import asked
from tests.kernels.reasons import stated
from tests.kernels.swizzled_products import Products, persistent
from tileiras.diagnostics import CompileError
from tileiras.ir import parse_module, print_op

TAKEN = "turns.tiles-alternate agents=2 warps=4"
TILES = 64, 64, 64
BOX_STORE = "cp.async.bulk.tensor.2d.global.shared::cta"
STORES = {"tensor_maps": "host", "unspecialized_pipeline_num_stages": 8}
"""With eight stages an SM has room for one CTA, and a further agent stores."""

ROUNDS = {
    **{f"{count} rounds": lambda count=count: tile_rounds.rounds(TILES, count) for count in (2, 3, 6)},
    "guarded": lambda: tile_rounds.rounds(TILES, 5, guarded=True),
    "in one place": lambda: tile_rounds.rounds(TILES, 4, in_one_place=True),
    "added to what is there": lambda: tile_rounds.rounds(TILES, 3, loaded=True),
    "f8": lambda: tile_rounds.rounds((64, 64, 128), 3, element="f8E4M3FN"),
    "of two loops": lambda: tile_rounds.gated_products(TILES, 3, apart=True),
    "of two products": lambda: tile_rounds.gated_products(TILES, 3),
}


STORED_BY_THREADS = ("added to what is there", "of two loops", "of two products")
"""Of the first, loads are ordered with the stores; of the others an SM holds three CTAs, and two with a stage for
stores."""


def options(maps: str) -> dict[str, object]:
    result = {name.replace("unspecialized_pipeline_", ""): value for name, value in STORES.items()}
    return result if maps == "stored in boxes" else {"tensor_maps": maps}


def artifact_of(text: str):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "k.tileas.mlir")  # the suffix states the stage
        path.write_text(text)
        return tileiras.compile(path, gpu_name="sm_90")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("maps", ["none", "host", "stored in boxes"])
@pytest.mark.parametrize("name", ROUNDS)
def test_tiles_in_any_order_of_the_agents(name, maps, assemble):
    """Round t has t iterations, none in the first one."""
    kernel = ROUNDS[name]()
    text, result = asked(kernel.text, **options(maps))
    assert TAKEN in result
    verify(text)
    artifact = artifact_of(text)
    assert assemble(artifact.text, "sm_90").stack == 0
    assert (BOX_STORE in artifact.text) == (maps == "stored in boxes" and name not in STORED_BY_THREADS)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("blocks", [1, 2, 5, 7])
@pytest.mark.parametrize("k", [0, 100])
def test_tiles_of_a_grid(blocks, k, monkeypatch):
    """Six tiles; a tile block takes between zero and all of them.  The extent of K is an argument, and may be zero."""
    monkeypatch.setattr(tensor_maps, "TILES", (64, 64, 64))
    text, result = asked(persistent(), tensor_maps="host")
    assert TAKEN in result
    artifact = artifact_of(text)
    Products(180, 100, k).run(artifact.text, artifact.kernels[0].metadata, 1, blocks=blocks)


def test_tile_blocks_that_share_copies(monkeypatch, assemble):
    monkeypatch.setattr(tensor_maps, "TILES", (64, 64, 128))
    text, result = asked(persistent(), tensor_maps="host")
    assert TAKEN in result
    artifact = artifact_of(text)
    assert ".multicast::cluster" in artifact.text and assemble(artifact.text, "sm_90").stack == 0
    for blocks in (2, 4):
        Products(180, 100, 300).run(artifact.text, artifact.kernels[0].metadata, 0, blocks=blocks)


def _with_print(text: str) -> str:
    """Each round prints its number."""
    return _changed(text, r"( *)(%end_c = store_view_tko)", r'\1%said = print_tko "%d", %t : tile<i32> -> token\n\1\2')


def _changed(text: str, pattern: str, by: str) -> str:
    changed, count = re.subn(pattern, by, text, count=1)
    assert count == 1
    return changed


@pytest.mark.parametrize("_, text, why", [
    ("no counter", lambda: uncounted_rounds.rounds(TILES).text, "turns.no-counter"),
    ("a loop around", lambda: uncounted_rounds.rounds(TILES, way="within").text, "turns.while-waits"),
    ("print", lambda: _with_print(tile_rounds.rounds(TILES, 3).text), "turns.in-order op=nv_tileas.print"),
    ("warps", lambda: tile_rounds.rounds((16, 32, 32), 3).text, "turns.part-of-warpgroup warps=2"),
    ("registers", lambda: tile_rounds.rounds((256, 128, 32), 2, hints="").text, "agents.too-few-registers "),
])  # fmt: skip
def test_loops_that_stay_with_one_agent(_, text, why):
    result, value = asked(text())
    assert not any("turns.tiles-alternate" in each for each in value)
    assert "by_turns" not in result and "ping_pong" not in result
    assert any("turns.tiles-together; " in each and why in each for each in value), value


def test_the_text_is_read_again():
    text, _ = asked(tile_rounds.rounds(TILES, 3).text, tensor_maps="host")
    assert re.search(r"inc_iter %\w+ by %\w+ : i32", text) and text.count("{by_turns") == 1
    assert print_op(parse_module(text, "again.mlir")) == text


TAIL = """\
      %tail = nv_tileas.async.pipeline.create_iterator %producer : !nv_tileas.producer_token
      nv_tileas.async.pipeline.producer_tail %producer, %tail
"""


@pytest.mark.parametrize("pattern, by, why", [
    (r"by_turns, ", "", "waits for ever"),
    (r"inc_iter (%\w+) by %\w+ : i32", r"inc_iter \1", "in a round in which agent"),
    (r"cmpi eq, (%\w+), (%\w+) : i32(?=\n.*\n +%\w+:2 = scf.if)", r"cmpi ne, \1, \2 : i32", "in which agent"),
    (r"producer_acquire (%producer_0, %\w+)", r"producer_acquire \1 {known}", "which it takes for known"),
    (r"_per_group = \[2, 1\] num_warps = \[4, 4, 1\]", "_per_group = [1, 1, 1] num_warps = [4, 8, 1]",
     "agents drain by turns, of 4 and 8 warps"),
    (r"( *nv_tileas.async.pipeline.yield\n    \}\n    nv_tileas.dealloc)", TAIL + r"\1", "agents cannot take turns"),
])  # fmt: skip
def test_the_verifier_knows_turns(pattern, by, why):
    text, _ = asked(tile_rounds.rounds(TILES, 6).text, tensor_maps="host", unspecialized_pipeline_num_stages=4)
    verify(text)
    with pytest.raises(CompileError, match=why):
        verify(_changed(text, pattern, by))


def _with_epilogue(text: str, operations: int) -> str:
    """Add the stored elements to themselves and subtract them again, in turn: whole numbers keep their values."""
    lines, tile = [], re.search(r"%none = constant <f32: 0.0> : (\S+)", text)[1]
    for number in range(operations):
        before = f"%e{number - 1}" if number else "%sum"
        lines.append(f"%e{number} = {('addf', 'subf')[number % 2]} {before}, %sum rounding<nearest_even> : {tile}")
    stored = f"%e{operations - 1}" if operations else "%sum"
    text = text.replace("store_view_tko weak %sum", f"store_view_tko weak {stored}")
    return text.replace("%end = store", "\n    ".join([*lines, "%end = store"]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("operations, given, taken", [
    (4, {"tensor_maps": "host"}, True),
    (2, {"tensor_maps": "host"}, False),
    (4, {}, False),
    (4, {"tensor_maps": "host", "pipeline_strategy": "unspecialize"}, False),
    (4, {"tensor_maps": "host", "num_warps": 8}, False),
])  # fmt: skip
def test_the_rule(operations, given, taken, monkeypatch, assemble):
    """Six tiles by two tile blocks, or one."""
    monkeypatch.setattr(tensor_maps, "TILES", (128, 128, 64))
    artifact = tileiras.compile(_with_epilogue(persistent(), operations), gpu_name="sm_90", **given)
    assert (TAKEN in stated(artifact.diagnostics)) == taken
    assert assemble(artifact.text, "sm_90").stack == 0
    Products(300, 200, 150).run(artifact.text, artifact.kernels[0].metadata, 0, blocks=2 if taken else 1)


@pytest.mark.slow
def test_synchronization_of_the_agents_is_minimal():
    """A round takes more stages than the ring has, so that an agent that is ahead confuses the parities of two rounds.
    One passage in three is deleted."""
    kernel = tile_rounds.rounds(TILES, 6, in_one_place=True)
    text, result = asked(kernel.text, num_stages=2)
    assert TAKEN in result
    artifact = artifact_of(text)

    def judge(code: str, seed: int | None) -> None:
        kernel.emulated(artifact, seed, code)

    assert survives(artifact.text, judge, SEEDS[:1])
    own = [(line, broken) for line, broken in sites(artifact.text) if "mbarrier" in line]
    assert len(own) >= 12
    assert [line for line, broken in own[1::3] if survives(broken, judge, SEEDS)] == []


@pytest.mark.slow
def test_no_wait_is_superfluous_where_an_agent_stores(monkeypatch):
    """Without products tiles follow each other faster than they are stored.  Waits for other CTAs are not deleted: this
    launch has one CTA."""
    monkeypatch.setattr(tensor_maps, "TILES", (64, 64, 256))
    text, result = asked(persistent(), tensor_maps="host", num_stages=2)
    assert TAKEN in result and "agents.stores-specialized stores=1" in result
    artifact = artifact_of(text)
    metadata = artifact.kernels[0].metadata

    def judge(code: str, seed: int | None) -> None:
        for k in (0, 700):
            Products(180, 100, k).run(code, metadata, seed, blocks=1)

    own = [broken for line, broken in sites(artifact.text) if "try_wait" in line and "cluster" not in line]
    assert len(own) == 10 and survives(artifact.text, judge, SEEDS[:1])
    assert [broken for broken in own if survives(broken, judge, SEEDS)] == []


def test_two_ctas_of_a_tile_block(monkeypatch):
    """Each has half of the rows of a tile, and two agents that compute."""
    monkeypatch.setattr(tensor_maps, "TILES", (256, 128, 64))
    artifact = tileiras.compile(_with_epilogue(persistent(), 4), gpu_name="sm_90", tensor_maps="host", num_ctas=2)
    assert TAKEN in stated(artifact.diagnostics)
    Products(300, 130, 64).run(artifact.text, artifact.kernels[0].metadata, 0, blocks=2)
