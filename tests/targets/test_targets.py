import pytest

from tileiras.codegen.target_machine import PROCESSORS
from tileiras.dialects.nvvm import intrinsics
from tileiras.layout import LinearLayout, mma_layouts
from tileiras.targets import COPY_ATOMS, MMA_ATOMS, TARGETS, copy_atom, find_mma_atoms, target
from tileiras.targets.sm import FEATURES


def test_targets_are_those_that_code_generation_knows():
    assert {name: row.ptx for name, row in TARGETS.items()} == {name: row.ptx for name, row in PROCESSORS.items()}


def test_features_by_number_and_by_exact_target():
    assert not target("sm_75").has("cp_async") and target("sm_86").has("cp_async")
    assert target("sm_90a").has("wgmma") and target("sm_90").has("wgmma") and not target("sm_100").has("wgmma")
    assert target("sm_107").has("tcgen05") and not target("sm_120").has("tcgen05")
    for requirement in FEATURES.values():
        if requirement.startswith("="):
            assert all(f"sm_{code}" in TARGETS for code in requirement[1:].split(","))


@pytest.mark.parametrize("atom", MMA_ATOMS.values(), ids=list(MMA_ATOMS))
def test_fragments_hold_each_element_once(atom):
    m, n, k = atom.shape
    assert (atom.a.shape, atom.b.shape, atom.c.shape) == ((m, k), (k, n), (m, n))
    for fragment in (atom.a, atom.b, atom.c):
        layout = LinearLayout.from_coordinates(fragment.bases, fragment.shape)
        assert layout.is_injective and layout.is_surjective
        assert layout.count("lane") == 32
        assert fragment.elements % fragment.packing == 0


@pytest.mark.parametrize("atom", MMA_ATOMS.values(), ids=list(MMA_ATOMS))
def test_intrinsics_of_atoms_are_in_the_admitted_table(atom):
    row = intrinsics.INTRINSICS.get(atom.intrinsic)
    assert row is not None
    assert len(row.operands) == sum(f.operands for f in (atom.a, atom.b, atom.c))


def test_fragments_replicate_over_the_warps_that_share_them():
    atom = MMA_ATOMS["mma_m16n8k16_f32_f16_f16"]
    a, b, c = mma_layouts(atom, 64, 64, 32, (2, 2))
    assert c.is_injective and c.is_surjective
    assert a.to_coordinates()["warp"] == [(16, 0), (0, 0)]
    assert b.to_coordinates()["warp"] == [(0, 0), (0, 8)]
    assert c.to_coordinates()["warp"] == [(16, 0), (0, 8)]
    assert a.is_surjective and b.is_surjective
    assert c.to_coordinates()["register"] == [(0, 1), (8, 0), (0, 16), (0, 32), (32, 0)]


def test_result_of_one_mma_feeds_the_next_without_movement():
    atom = MMA_ATOMS["mma_m16n8k16_f32_f16_f16"]
    _, _, c = mma_layouts(atom, 16, 16, 16, (1, 1))
    a, _, _ = mma_layouts(atom, 16, 8, 16, (1, 1))
    assert c == a


def test_largest_atom_that_fits_comes_first():
    names = [a.name for a in find_mma_atoms(target("sm_80"), "f16", "f16", "f32", 64, 64, 32)]
    assert names == ["mma_m16n8k16_f32_f16_f16", "mma_m16n8k8_f32_f16_f16"]
    assert find_mma_atoms(target("sm_75"), "bf16", "bf16", "f32", 64, 64, 32) == []
    assert find_mma_atoms(target("sm_80"), "f16", "f16", "f32", 8, 8, 4) == []


def test_small_tiles_take_the_atom_that_repeats_least():
    names = [a.name for a in find_mma_atoms(target("sm_90"), "f64", "f64", "f64", 8, 8, 16)]
    assert names[0] == "mma_m8n8k4_f64_f64_f64"
    assert find_mma_atoms(target("sm_80"), "f16", "f16", "f32", 1, 64, 32)[0].name == "mma_m16n8k16_f32_f16_f16"


def test_copy_atoms_are_gated_by_target():
    assert copy_atom("cp_async", target("sm_80")) is COPY_ATOMS["cp_async"]
    with pytest.raises(ValueError, match="needs sm_80"):
        copy_atom("cp_async", target("sm_75"))
