"""Certificates of order in verdicts, and two builds against each other: claims and executions."""

from __future__ import annotations

import dataclasses
import functools

import pytest

import tileiras
from tests.kernels import summed
from tileiras.check import order
from tileiras.check.checker import check, choose, image_of
from tileiras.check.places import places_in, relocate
from tileiras.check.same_order import Comparison, Executed, execute
from tileiras.check.stage import with_verdict
from tileiras.check.verdict import Verdict
from tileiras.cli.tileiras_check import main
from tileiras.ir import parse_module
from tileiras.stages.units import module_text

GPU = "sm_90"
ROWS = summed.row_sums(1, 256)
PRODUCT = summed.product()


@functools.cache
def image(text: str, **options):
    return image_of(text, "k", GPU, None, options.pop("opt_level", 3), options)


def claims(text: str, first: dict, second: dict, gpus: tuple[str, str] = (GPU, GPU)) -> list[order.Claim]:
    both = [order.of_kernel(image(text, **options).metadata, "k") for options in (first, second)]
    known = [{**options, "gpu_name": gpu} for options, gpu in zip((first, second), gpus)]
    module = tileiras.parse(text)
    return order.compare(*both, known, order.locate(both[0], module, "k", GPU)["sums"])


def executed(text: str, first: dict, second: dict, most: int = 8) -> Executed:
    module = tileiras.parse(text)
    images = [image(text, **first), image(text, **second)]
    return execute(module, choose(module, "k"), images, 60, most)


# ---- verdicts --------------------------------------------------------------------------------------------------------


@functools.cache
def verdict() -> Verdict:
    return check(ROWS, gpu_name=GPU, budget=0)


def test_a_verdict_has_the_certificate_with_lines():
    (row,) = verdict().order["sums"]
    line = ROWS[: ROWS.index("%r_s = reduce")].count("\n") + 1
    assert row["location"].rsplit(":", 2)[1] == str(line) and row["length"] == 256
    (out,) = verdict().order["outputs"]
    assert out["repeatable"] == "yes" and "grid" in out["invariant"]
    text = verdict().summary()
    assert "order: argument 1 is the same from run to run" in text and "reduce of 256 f32: 8 of a thread" in text


def test_it_is_data_of_the_verdict():
    assert Verdict.from_json(verdict().to_json()) == verdict()
    assert "order" not in verdict().short()
    assert with_verdict({"kernels": [{"name": "k"}]}, verdict())


def test_an_image_from_elsewhere_has_no_certificate():
    own = image(ROWS)
    assert check(ROWS, gpu_name=GPU, image=own.ptx, metadata=own.metadata, budget=0).order is None


# ---- claims ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [{"pipeline_strategy": "none"}, {"opt_level": 0}, {"num_ctas": 2}])
def test_builds_whose_sums_have_one_order_are_the_same(other):
    (claim,) = claims(ROWS, {}, other)
    assert (claim.says, claim.differences) == ("same", ())
    assert executed(ROWS, {}, other).different == {}


def test_another_tree_is_named_with_its_line():
    (claim,) = claims(ROWS, {"num_warps": 1}, {"num_warps": 4})
    (reason,) = claim.differences
    assert claim.says == "different" and "reduce" in reason.why and "warps" in reason.second
    assert reason.location.count(":") == 2
    assert executed(ROWS, {"num_warps": 1}, {"num_warps": 4}).different.get(1)


def test_other_instructions_with_the_same_steps_are_not_known():
    (claim,) = claims(summed.product(64, 64, 64), {}, {"opt_level": 0})
    assert claim.says == "unknown" and "the hardware's" in claim.differences[0].why


def test_other_roundings_and_gpus_are_no_matter_of_order():
    (flushed,), (elsewhere,) = claims(ROWS, {}, {"ftz": True}), claims(ROWS, {}, {}, (GPU, "sm_80"))
    assert (flushed.says, elsewhere.says) == ("different", "unknown")


@pytest.mark.parametrize("option", [{"libdevice": "other.bc"}, {"blob_linked_lib": ["other.bc"]}])
def test_another_library_makes_the_bits_unknown(option):
    known = order.of_kernel(image(ROWS).metadata, "k")
    (claim,), (equal,) = (order.compare(known, known, [first, option]) for first in ({}, option))
    assert (claim.says, equal.says) == ("unknown", "same")


def test_unrepeatable_outputs_are_not_the_same():
    text = summed.shared_sums()
    (claim,) = claims(text, {}, {})
    assert claim.says == "different" and claim.differences[0].why == "may differ from run to run"


def test_without_certificates_nothing_is_known():
    known = order.of_kernel(image(ROWS).metadata, "k")
    other = order.of_kernel(image(PRODUCT).metadata, "k")
    for first, second in ((known, None), (known, other)):
        (claim,) = order.compare(first, second, [{}, {}])
        assert claim.says == "unknown"


def test_a_claim_that_an_execution_contradicts_is_an_error(monkeypatch, tmp_path, capsys):
    """The certificate of the second build, as if its tree were the first one's."""
    path = tmp_path / "k.mlir"
    path.write_text(ROWS)
    monkeypatch.setattr(order, "of_kernel", lambda metadata, entry: order_of_first)
    order_of_first = image(ROWS).metadata["kernels"][0]["order"]
    assert main([str(path), "--gpu-name", GPU, "--num-warps", "1", "--same-order=--num-warps=4"]) == 7
    assert "error: k: argument 1: bitwise equal; executed: other bits in" in capsys.readouterr().out


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("source") / "k.mlir"
    path.write_text(ROWS)
    return str(path)


@pytest.mark.parametrize("options, code, says", [
    ("-O0", 0, "bitwise equal"), ("--num-warps=1 --ftz", 9, "may differ"), ("--gpu-name=sm_80", 8, "not known"),
])  # fmt: skip
def test_the_command_compares_with_other_options(source, capsys, options, code, says):
    assert main([source, "--gpu-name", GPU, "--num-warps=4", f"--same-order={options}"]) == code
    assert f"k: argument 1: {says}" in capsys.readouterr().out


def test_data_of_a_comparison(source, capsys):
    import json

    main([source, "--gpu-name", GPU, "--same-order=-O0", "--json"])
    (result,) = json.loads(capsys.readouterr().out)
    assert (result["claim"], result["contradiction"], result["outputs"][0]["different"]) == ("same", False, 0)
    assert result["launches"] > 2


@pytest.mark.parametrize("words", [
    ["--same-order=--nonsense"], ["--same-order='"], ["--same-order=-O0", "--image", "x"],
    ["--same-order=-O0", "--junit", "x"],
])  # fmt: skip
def test_words_that_do_not_fit(source, words, capsys):
    assert main([source, "--gpu-name", GPU, *words]) in (1, 2)
    assert "same-order" in capsys.readouterr().err or "nonsense" in words[0]


def test_missing_launches_are_printed():
    text = str(Comparison("k", (order.Claim(1, "same"),), Executed(0, {}, "no launch was found")))
    assert "not executed further: no launch was found" in text


def test_places_of_a_certificate_move_with_the_source():
    source = tileiras.parse(ROWS, source_name="k.mlir")
    artifact = parse_module(module_text(source).decode(), "k.cuda_tile.mlir")
    certificate = order.of_kernel(image(ROWS).metadata, "k")
    result = dataclasses.replace(verdict(), order=order.locate(certificate, artifact, "k", GPU))
    assert result.order["sums"][0]["location"].startswith("k.cuda_tile.mlir:")
    (row,) = relocate(result, places_in(artifact, source)).order["sums"]
    assert row["location"].startswith("k.mlir:")
    assert row["location"].rsplit(":", 2)[1] == verdict().order["sums"][0]["location"].rsplit(":", 2)[1]
