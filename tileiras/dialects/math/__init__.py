"""The math dialect, as far as the pipeline uses it: functions of floats, and integer absolute value.

Accuracy is chosen when lowered: precise by default, the hardware's approximation where `approx` is set.
"""

from __future__ import annotations

from tileiras.dialects.arith import float_like, integer_like
from tileiras.ir import AllTypesMatch, Elementwise, Operation, Pure, UnitAttr, attribute, operand, result


class _Unary(Operation):
    traits = (Pure, AllTypesMatch("operand", "result"))
    operand = operand(float_like)
    result = result(float_like)
    flush_to_zero = attribute(UnitAttr, "treat subnormal inputs and results as zero", optional=True)
    approx = attribute(UnitAttr, "the hardware's approximation will do", optional=True)
    assembly_format = "$operand attr-dict `:` type($result)"


class AbsFOp(_Unary, name="math.absf"): ...


class AbsIOp(Operation, name="math.absi", traits=(Pure, AllTypesMatch("operand", "result"))):
    operand = operand(integer_like)
    result = result(integer_like)
    assembly_format = "$operand attr-dict `:` type($result)"


class CeilOp(_Unary, name="math.ceil"): ...
class FloorOp(_Unary, name="math.floor"): ...
class ExpOp(_Unary, name="math.exp"): ...
class Exp2Op(_Unary, name="math.exp2"): ...
class LogOp(_Unary, name="math.log"): ...
class Log2Op(_Unary, name="math.log2"): ...
class RsqrtOp(_Unary, name="math.rsqrt"): ...
class SqrtOp(_Unary, name="math.sqrt"): ...
class SinOp(_Unary, name="math.sin"): ...
class CosOp(_Unary, name="math.cos"): ...
class TanOp(_Unary, name="math.tan"): ...
class SinhOp(_Unary, name="math.sinh"): ...
class CoshOp(_Unary, name="math.cosh"): ...
class TanhOp(_Unary, name="math.tanh"): ...


class _Binary(Operation):
    traits = (Pure, AllTypesMatch("lhs", "rhs", "result"))
    lhs = operand(float_like)
    rhs = operand(float_like)
    result = result(float_like)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"


class PowFOp(_Binary, name="math.powf"): ...
class Atan2Op(_Binary, name="math.atan2"): ...


class FmaOp(Operation, name="math.fma", traits=(Pure, AllTypesMatch("a", "b", "c", "result"))):
    """`a * b + c`, rounded once."""

    a = operand(float_like)
    b = operand(float_like)
    c = operand(float_like)
    result = result(float_like)
    assembly_format = "$a `,` $b `,` $c attr-dict `:` type($result)"


class FPowIOp(Operation, name="math.fpowi", traits=(Pure, AllTypesMatch("lhs", "result"), Elementwise)):
    """A float to an integer power."""

    lhs = operand(float_like)
    rhs = operand(integer_like)
    result = result(float_like)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs)"
