"""Result types that follow from operands, for building operations without naming them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

from tileiras.ir import Attribute, VerifyError, i1

if TYPE_CHECKING:
    pass


class ComparesOperands:
    """Mixin: the result is a tile of i1 with the shape of `lhs`."""

    __slots__ = ()

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [operands[0].type.with_element_type(i1)]

    verifies_locally = True

    def verify_op(self: Any) -> None:
        if self.results[0].type is not self.operands[0].type.with_element_type(i1):
            raise VerifyError("failed to verify that Result type has i1 element type and same shape as operands")
