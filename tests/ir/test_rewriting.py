"""The greedy driver, dialect conversion and pass pipelines."""

from __future__ import annotations

import pytest

from tileiras.diagnostics import CompileError
from tileiras.dialects import arith, builtin
from tileiras.ir import (
    ConversionTarget,
    Pass,
    PassManager,
    RewritePattern,
    TypeConverter,
    VerifyError,
    apply_conversion,
    apply_patterns_greedily,
    i32,
    i64,
    parse_module,
)
from tileiras.ir.pass_instrumentation import IRPrinter
from tileiras.ir.pass_manager import parse_pipeline
from tileiras.ir.types import IntegerType
from tileiras.passes import lookup_pass

HEAD = 'attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"}'


def module(body: str) -> builtin.ModuleOp:
    return parse_module(
        f"module {{\n nv_tileaa.func @f(%n: i32, %p: !nv_tileaa.ptr<i32>) {HEAD} {{\n{body}\n nv_tileaa.return }}\n}}",
        "f.mlir",
    )


def names(root) -> list[str]:
    return [op.name for op in root.walk()][2:-1]


class AddToMultiply(RewritePattern):
    """x + x is x * 2."""

    op = arith.AddIOp

    def match_and_rewrite(self, op, rewriter) -> bool:
        if op.lhs is not op.rhs:
            return rewriter.notify_match_failure(op, "operands differ")
        from tileiras.ir import IntegerAttr

        two = rewriter.insert(arith.ConstantOp(IntegerAttr(2, op.result.type)))
        rewriter.replace_op(op, arith.MulIOp(op.lhs, two.result))
        return True


STORE = "%t = nv_tileaa.store %p, {} : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token"


def test_patterns_reach_a_fixpoint_and_dead_operations_go() -> None:
    root = module("%a = arith.addi %n, %n : i32\n%b = arith.addi %a, %a : i32\n%c = arith.addi %a, %b : i32\n"
                  + STORE.format("%b"))  # fmt: skip
    assert apply_patterns_greedily(root, [AddToMultiply()])
    assert names(root) == ["arith.constant", "arith.muli", "arith.constant", "arith.muli", "nv_tileaa.store"]
    assert not apply_patterns_greedily(root, [AddToMultiply()])


def test_replacements_inherit_the_location() -> None:
    root = module("%a = arith.addi %n, %n : i32\n" + STORE.format("%a"))
    line = next(op for op in root.walk() if op.name == "arith.addi").location.resolve().line
    apply_patterns_greedily(root, [AddToMultiply()])
    assert {op.location.resolve().line for op in root.walk() if op.dialect == "arith"} == {line}


def test_patterns_that_undo_one_another_end() -> None:
    class Swap(RewritePattern):
        op = arith.AddIOp

        def match_and_rewrite(self, op, rewriter) -> bool:
            rewriter.replace_op(op, arith.AddIOp(op.rhs, op.lhs))
            return True

    root = module("%a = arith.addi %n, %n : i32\n" + STORE.format("%a"))
    with pytest.raises(CompileError, match="failed to apply patterns greedily"):
        apply_patterns_greedily(root, [Swap()], max_rewrites=50)
    assert names(root) == ["arith.addi", "nv_tileaa.store"]


def widen(op, args, rewriter):
    return rewriter.insert(
        type(op).create(args, [rewriter.convert_type(r.type) for r in op.results], dict(op.attributes))
    )


def test_conversion_changes_operations_types_and_nested_regions() -> None:
    root = module(
        """%z = arith.addi %n, %n : i32
           %r = scf.for %i = %n to %z step %n iter_args(%x = %z) -> (i32) : i32 {
             %y = arith.muli %x, %i : i32
             scf.yield %y : i32
           }"""
    )
    from tileiras.dialects import scf
    from tileiras.ir import verify

    def widen_for(op, args, rewriter):
        body = rewriter.convert_region(op.body)
        return rewriter.insert(scf.ForOp.create(args, [i64], {}, (body,)))

    func = root.regions[0].block.first
    types = TypeConverter({IntegerType: lambda type: i64 if type is i32 else type})
    patterns = {arith.AddIOp: widen, arith.MulIOp: widen, scf.ForOp: widen_for, scf.YieldOp: widen}
    target = ConversionTarget(["nv_tileaa"])
    apply_conversion(func, patterns, target, types, failure="failed to widen")
    from tileiras.ir import FunctionType

    func.attributes["function_type"] = FunctionType([a.type for a in func.body.block.arguments])
    verify(root)
    assert all(r.type is i64 for op in root.walk() for r in op.results)


def test_an_operation_without_a_rule_is_named_where_it_stands() -> None:
    root = module("%a = arith.addi %n, %n : i32\n" + STORE.format("%a"))
    with pytest.raises(CompileError) as caught:
        apply_conversion(
            root, {}, ConversionTarget(["nv_tileaa"]), TypeConverter({}), failure="failed to convert a to b"
        )
    first, second = caught.value.diagnostics
    assert first.message == "failed to legalize operation 'arith.addi'" and first.position.line == 3
    assert second.message == "failed to convert a to b"
    assert caught.value.code == 5


def test_a_rule_may_refuse_with_its_reason() -> None:
    def refuse(op, args, rewriter):
        raise VerifyError("cannot be widened")

    root = module("%a = arith.addi %n, %n : i32\n" + STORE.format("%a"))
    with pytest.raises(CompileError) as caught:
        apply_conversion(
            root, {arith.AddIOp: refuse}, ConversionTarget(["nv_tileaa"]), TypeConverter({}), failure="failed"
        )
    assert caught.value.diagnostics[0].message == "'arith.addi' op cannot be widened"


class Break(Pass):
    """Leaves an operation with too many operands behind."""

    name = "break"

    def run(self, op, context) -> None:
        for inner in op.walk():
            if inner.name == "arith.addi":
                inner.operands = (*inner.operands, inner.operands[0])


def test_the_verifier_names_the_pass_that_broke_the_ir() -> None:
    root = module("%a = arith.addi %n, %n : i32\n" + STORE.format("%a"))
    seen: list[str] = []
    manager = PassManager([Break()], instrumentation=[IRPrinter(seen.append, after=True)])
    with pytest.raises(CompileError) as caught:
        manager.run(root)
    assert caught.value.diagnostics[-1].message == "between-pass verifier rejected IR after 'break'"
    assert [text.split("\n")[0] for text in seen] == ["// *** IR Dump After break ***"]


def test_pipelines_nest_and_carry_options() -> None:
    passes = parse_pipeline(
        "builtin.module(cse,tileas-assign-num-warps{compute-capability=sm_80 num-warps=2})", lookup_pass
    )
    assert [p.name for p in passes] == ["cse", "tileas-assign-num-warps"]
    assert (passes[1].compute_capability, passes[1].num_warps) == ("sm_80", 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no-such-pass", "does not refer to a registered pass"),
        ("cse{speed=1}", "pass 'cse' has no option 'speed'"),
        ("no.op(cse)", "unknown pipeline anchor 'no.op'"),
        ("arith.addi(cse)", "nested pipeline anchor must be IsolatedFromAbove"),
        ("builtin.module(cse", "expected ')'"),
    ],
)
def test_mistakes_in_a_pipeline_are_configuration_errors(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message.replace("(", r"\(").replace(")", r"\)")) as caught:
        parse_pipeline(text, lookup_pass)
    assert caught.value.code == 2
