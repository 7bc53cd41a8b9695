"""The greedy driver on nested operations: operations erased with their parents, constants, and the effects of
terminators."""

from __future__ import annotations

from tileiras.dialects import cuda_tile
from tileiras.ir import RewritePattern, apply_patterns_greedily, has_no_effect, parse_module, verify


def kernel(body: str):
    parameters = "%x: tile<i32>, %c: tile<i1>"
    return parse_module(f"cuda_tile.module @m {{\nentry @k({parameters}) {{\n{body}\nreturn\n}}\n}}", "k.mlir")


def find(root, name: str) -> list:
    return [op for op in root.walk() if op.name == f"cuda_tile.{name}"]


def test_operations_in_an_erased_one_are_not_visited() -> None:
    visited = []

    class EraseIf(RewritePattern):
        op = cuda_tile.IfOp

        def match_and_rewrite(self, op, rewriter) -> bool:
            rewriter.erase_op(op)
            return True

    class Visit(RewritePattern):
        op = cuda_tile.PrintTkoOp

        def match_and_rewrite(self, op, rewriter) -> bool:
            visited.append(op.attributes["str"].value)
            return False

    root = kernel('if %c {\n%t = print_tko "in" -> token\n}\n%t = print_tko "out" -> token')
    apply_patterns_greedily(root, [EraseIf(), Visit()])
    assert visited == ["out"]


def test_values_used_only_by_an_erased_region_are_dead() -> None:
    class EraseIf(RewritePattern):
        op = cuda_tile.IfOp

        def match_and_rewrite(self, op, rewriter) -> bool:
            rewriter.erase_op(op)
            return True

    root = kernel('%y = addi %x, %x : tile<i32>\nif %c {\n%t = print_tko "%d", %y : tile<i32> -> token\n}')
    apply_patterns_greedily(root, [EraseIf()])
    assert not find(root, "addi")


TWO_CONSTANTS = """
if %c {
  %one = constant <i32: 1> : tile<i32>
  %t = print_tko "%d", %one : tile<i32> -> token
} else {
  %one = constant <i32: 1> : tile<i32>
  %t = print_tko "%d", %one : tile<i32> -> token
}
"""


def test_equal_constants_become_one_at_the_start_when_asked_for() -> None:
    root = kernel(TWO_CONSTANTS)
    assert not apply_patterns_greedily(root, [])
    assert len(find(root, "constant")) == 2
    assert apply_patterns_greedily(root, [], unique_constants=True)
    verify(root)
    (constant,) = find(root, "constant")
    assert constant is find(root, "entry")[0].body.block.first
    assert not apply_patterns_greedily(root, [], unique_constants=True)


def test_kernels_do_not_share_constants() -> None:
    body = '%one = constant <i32: 1> : tile<i32>\n%t = print_tko "%d", %one : tile<i32> -> token'
    kernels = "\n".join(f"entry @{name}() {{\n{body}\n}}" for name in "ab")
    root = parse_module(f"cuda_tile.module @m {{\n{kernels}\n}}", "k.mlir")
    apply_patterns_greedily(root, [], unique_constants=True)
    verify(root)
    assert len(find(root, "constant")) == 2


def test_a_leaving_terminator_is_an_effect_of_its_region_only() -> None:
    root = kernel(
        """%one = constant <i32: 1> : tile<i32>
        for %i in (%one to %x, step %one) : tile<i32> {
          if %c {
            continue
          }
          continue
        }"""
    )
    assert not has_no_effect(find(root, "if")[0])
    assert has_no_effect(find(root, "for")[0])


def test_a_loop_that_may_run_forever_has_an_effect() -> None:
    assert not has_no_effect(find(kernel("loop {\nif %c {\nbreak\n}\ncontinue\n}"), "loop")[0])
