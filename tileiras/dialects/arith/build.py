"""Arithmetic at a builder's place."""

from __future__ import annotations

from typing import Any

from tileiras.ir import Builder, IntegerAttr, IntegerType, Value, i32

from . import ops as arith


def integer(builder: Builder, value: int, type: IntegerType = i32) -> Value:
    return builder.insert(arith.ConstantOp(IntegerAttr(value, type))).results[0]


def compare(builder: Builder, predicate: str, lhs: Value, rhs: Value) -> Value:
    return builder.insert(arith.CmpIOp(lhs, rhs, predicate=arith.CmpIPredicateAttr(predicate))).results[0]


def binary(builder: Builder, cls: Any, lhs: Value, rhs: Value) -> Value:
    return builder.insert(cls(lhs, rhs)).results[0]
