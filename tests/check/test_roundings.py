"""Roundings that a program does not request are reported, though their results are within the bounds of sums."""

from __future__ import annotations

import re

import pytest
from faults import faults

import tileiras
from tests.kernels.checked import row_sums, rows
from tileiras.check.roundings import unasked
from tileiras.check.verdict import RIGHT, WRONG

T = "tile<256xf32>"


def unasked_in(text: str, ptx: str) -> tuple[int, str] | None:
    return unasked(tileiras.parse(text), ptx)


def test_a_rounding_inside_of_a_sum_is_found():
    text = row_sums()
    fault = faults(tileiras.compile(text, gpu_name="sm_90").text, "rounding")[0]
    verdict = tileiras.check(text, gpu_name="sm_90", image=fault.ptx)
    assert verdict.status == WRONG and fault.changed.split(".")[0] == "add"
    (finding,) = [each for each in verdict.findings if each.is_wrong]
    assert fault.ptx.splitlines()[finding.ptx_line - 1].strip() == f"{fault.changed};"


@pytest.mark.parametrize(("operation", "exact", "approximate"), [
    ("divf %value, %other", "div.rn", "div.full"), ("sqrt %value", "sqrt.rn", "sqrt.approx"),
])  # fmt: skip
def test_an_approximation_for_a_rounded_operation_is_found(operation, exact, approximate):
    """Its nearest result is that of the operation, but hardware may return the other neighbour."""
    text = rows(f"""
    %other = addf %value, %value : {T}
    %more = addf %other, %value : {T}
    %result = {operation.replace("%other", "%more")} : {T}""")
    ptx = tileiras.compile(text, gpu_name="sm_90").text
    assert f"{exact}.f32" in ptx
    verdict = tileiras.check(text, gpu_name="sm_90", image=ptx.replace(exact, approximate))
    assert verdict.status == WRONG and verdict.findings[-1].kind == "value", str(verdict)


@pytest.mark.parametrize(("operation", "is_found"), [
    ("divf %value, %other", True), ("divf %value, %other rounding<approx>", False),
    ("divf %value, %other rounding<full>", False), ("tanh %value", False),
])  # fmt: skip
def test_an_approximation_below_a_rounding_is_found(operation, is_found):
    """Whole numbers behind it are the same: only the instruction shows it."""
    text = rows(f"""
    %other = addf %value, %value : {T}
    %part = {operation} : {T}
    %result = floor %part : {T}""")
    ptx = re.sub(r"div\.(?:rn|full|approx)\.", "div.approx.", tileiras.compile(text, gpu_name="sm_90").text)
    assert "tanh" in operation or "div.approx." in ptx
    assert (unasked_in(text, ptx) is not None) == is_found
    assert unasked(tileiras.parse(text), ptx, approx=True) is None


def test_an_approximation_that_is_not_permitted_is_found():
    text, other = (rows(f"%result = tanh %value{mode} : {T}") for mode in ("", " rounding<approx>"))
    ptx = tileiras.compile(other, gpu_name="sm_90").text
    assert tileiras.check(text, gpu_name="sm_90", image=ptx).status == WRONG
    assert tileiras.check(other, gpu_name="sm_90", image=ptx).status == RIGHT


@pytest.mark.parametrize("name", ["exp", "remf", "pow", "sin", "tanh"])
def test_expansions_of_functions_round_as_the_table_says(name):
    text = rows(f"%result = {name} %value{', %value' if name in ('remf', 'pow') else ''} : {T}")
    ptx = tileiras.compile(text, gpu_name="sm_90").text
    assert unasked_in(text, ptx) is None
    if name != "remf":
        assert all(unasked_in(text, each.ptx) for each in faults(ptx, "rounding")[:3])


@pytest.mark.parametrize("target", ["tf32", "f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("source", ["f64", "i32", "i64"])
def test_conversions_to_narrow_formats_round_to_odd_first(source, target):
    there, back = ("itof", "ftoi") if source[0] == "i" else ("ftof", "ftof")
    sign = "signed " if source[0] == "i" else ""
    text = rows(f"""%w = {there} %value {sign}: tile<256x{source}> -> tile<256x{target}>
        %result = {back} %w {sign}: tile<256x{target}> -> tile<256x{source}>""", 256, source)  # fmt: skip
    ptx = tileiras.compile(text, gpu_name="sm_90").text
    assert "cvt.rz.f32" in ptx and unasked_in(text, ptx) is None
    assert unasked_in(text, ptx.replace("cvt.rz.f32", "cvt.rm.f32", 1))
    other = rows(f"%result = {'addi' if source[0] == 'i' else 'addf'} %value, %value : tile<256x{source}>", 256, source)
    assert unasked_in(other, ptx)


def test_a_mode_that_the_program_names_is_its_own():
    text = rows(f"%result = addf %value, %value rounding<zero> : {T}")
    ptx = tileiras.compile(text, gpu_name="sm_90").text
    assert ".rz." in ptx and unasked_in(text, ptx) is None
    assert unasked_in(text, ptx.replace(".rz.", ".rm.", 1))
