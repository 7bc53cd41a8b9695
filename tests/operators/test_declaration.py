"""Declarations that are not well formed, or do not fit their kernel: one error each, which names the key."""

import pytest

from tileiras.cli import verbs
from tileiras.diagnostics import CompileError
from tileiras.operators import declaration

GOOD = """
namespace = "shop"
source = "k.mlir"
gpus = ["sm_90"]

[operator.k]
parameters = ["x: f32[n]", "a: int"]
mutates = ["x"]
grid = ["ceildiv(n, 128)"]
arguments = ["x", "n"]
"""


@pytest.mark.parametrize("old, new, message", [
    ('namespace = "shop"', "", "'namespace' is missing"),
    ('namespace = "shop"', 'namespace = "a b"', "namespace: 'a b' cannot be a name"),
    ('namespace = "shop"', 'namespace = 1', "namespace: a value of another type"),
    ('["sm_90"]', '["sm_90", 1]', "gpus: a list of strings"),
    ('gpus', 'gpu', "'gpu' is unknown"),
    ('["sm_90"]', '["sm_90"]\nemit = "sass"', "emit: ptx or cubin"),
    ('= "shop"', '= ', "not TOML"),
    ('a: int', 'a', "is not of the form"),
    ('a: int', 'a: i32', "'i32' is no scalar"),
    ('x: f32[n]', 'x: g32[n]', "'g32' is no element type"),
    ('x: f32[n]', 'x: f32[n+1]', "'n + 1' cannot be a name"),
    ('x: f32[n]', 'x: f32[n,,]', "is no list of dimensions"),
    ('x: f32[n]', 'x: int', "a tensor is expected among the parameters"),
    ('a: int', 'n: int', "'n' is declared twice"),
    ('a: int', 'lambda: int', "'lambda' cannot be a name"),
    ('mutates = ["x"]', 'mutates = ["a"]', "'a' is no tensor"),
    ('mutates = ["x"]', '', "has results or changes a tensor"),
    ('mutates = ["x"]', 'results = ["r: f32[m]"]', "results: 'm' contains 'm'; known numbers: a, n"),
    ('mutates = ["x"]', 'results = ["r: int"]', "a result is a tensor"),
    ('mutates = ["x"]', 'mutates = ["x"]\naligned = 3', "aligned: a power of two"),
    ('ceildiv(n, 128)', 'ceildiv(n)', "calls ceildiv with 1 arguments"),
    ('ceildiv(n, 128)', 'n / 2', "is more than integer arithmetic"),
    ('ceildiv(n, 128)', '__import__(n)', "is more than integer arithmetic"),
    ('ceildiv(n, 128)', 'n.__class__', "is more than integer arithmetic"),
    ('ceildiv(n, 128)', 'x.size(1)', "names a dimension that 'x' of rank 1"),
    ('ceildiv(n, 128)', 'a.size(0)', "contains 'a', which is no tensor"),
    ('ceildiv(n, 128)', 'n n', "is no expression"),
    ('["ceildiv(n, 128)"]', '["1", "1", "1", "1"]', "at most three"),
])  # fmt: skip
def test_mistakes_are_named(old, new, message):
    assert old in GOOD
    with pytest.raises(CompileError) as error:
        declaration.read(GOOD.replace(old, new, 1))
    assert error.value.code == 2 and message in error.value.diagnostics[0].message


def test_a_declaration_is_read():
    (operator,) = declaration.read(GOOD).operators
    assert operator.dimensions() == {"n": ("x", 0)} and operator.kernel == "k" and operator.aligned == 16
    assert operator.grid[0].python() == "(-(-n // 128))"


KERNEL = "cuda_tile.module @m { entry @k(%x: tile<ptr<f32>>, %n: tile<i32>) { return } }"


@pytest.mark.parametrize("arguments, message", [
    ('["x"]', "kernel 'k' takes 2 arguments, 1 are declared"),
    ('["n", "x"]', "argument 0 of kernel 'k' is of type ptr<f32>"),
    ('["x", "x"]', "argument 1 of kernel 'k' is of type i32, not 'x'"),
])  # fmt: skip
def test_arguments_that_are_not_the_kernels_are_named(tmp_path, capsys, arguments, message):
    (tmp_path / "k.mlir").write_text(KERNEL)
    (tmp_path / "k.toml").write_text(GOOD.replace('["x", "n"]', arguments))
    assert verbs.run(["operators", str(tmp_path / "k.toml"), "-o", str(tmp_path / "k.py")]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "k.py").exists()


def test_unknown_kernels_and_outputs_among_inputs_are_refused(tmp_path, capsys):
    (tmp_path / "k.mlir").write_text(KERNEL.replace("@k", "@other"))
    (tmp_path / "k.toml").write_text(GOOD)
    assert verbs.run(["operators", str(tmp_path / "k.toml"), "-o", str(tmp_path / "k.py")]) == 2
    assert "no kernel 'k' in the source; it has: other" in capsys.readouterr().err
    assert verbs.run(["operators", str(tmp_path / "k.toml"), "-o", str(tmp_path / "k.toml")]) == 1
    assert (tmp_path / "k.toml").read_text() == GOOD
    assert verbs.run(["operators", str(tmp_path / "absent.toml"), "-o", str(tmp_path / "k.py")]) == 1


def test_the_rule_for_make_names_the_inputs(tmp_path):
    (tmp_path / "k.mlir").write_text(KERNEL)
    (tmp_path / "k.toml").write_text(GOOD)
    words = ["operators", str(tmp_path / "k.toml"), "-o", str(tmp_path / "k.py"), "--depfile", str(tmp_path / "k.d")]
    assert verbs.run(words) == 0
    assert f"{tmp_path}/k.mlir" in (tmp_path / "k.d").read_text()
