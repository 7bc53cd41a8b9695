"""Linear algebra over GF(2) on vectors packed into Python integers.

A vector is an int whose bit i is coordinate i; addition is XOR.  A linear map is the list of the images of the unit
vectors (its columns).  Layouts use application, rank, and solving with a preference among the unknowns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def apply(columns: Sequence[int], x: int) -> int:
    """Image of `x` under the map with these columns."""
    image = 0
    while x:
        low = x & -x
        image ^= columns[low.bit_length() - 1]
        x ^= low
    return image


class Echelon:
    """An echelon basis of the added vectors; each row is stored with the combination of added vectors that gives it.

    A vector that depends on earlier ones is never used in a combination.  If registers are added before lanes, and
    lanes before warps, every solution prefers registers.
    """

    __slots__ = ("_rows", "count")

    def __init__(self, vectors: Iterable[int] = ()):
        self._rows: dict[int, tuple[int, int]] = {}
        self.count = 0
        for vector in vectors:
            self.add(vector)

    def reduce(self, vector: int) -> tuple[int, int]:
        """(remainder, combination): `vector` is the remainder plus the added vectors that the combination selects."""
        rest = combination = 0
        while vector:
            pivot = vector.bit_length() - 1
            row = self._rows.get(pivot)
            if row is None:
                rest |= 1 << pivot
                vector ^= 1 << pivot
            else:
                vector ^= row[0]
                combination ^= row[1]
        return rest, combination

    def add(self, vector: int) -> bool:
        """Add a vector; returns whether it is independent of the earlier ones."""
        rest, combination = self.reduce(vector)
        index = self.count
        self.count += 1
        if not rest:
            return False
        self._rows[rest.bit_length() - 1] = (rest, combination ^ (1 << index))
        return True

    def solve(self, vector: int) -> int | None:
        """The combination of added vectors that gives `vector` (free unknowns 0); None if it is outside the span."""
        rest, combination = self.reduce(vector)
        return None if rest else combination


def support(vectors: Iterable[int]) -> int:
    """Mask of the coordinates that occur in some vector; a disjoint vector can be added to any image with `+`."""
    mask = 0
    for vector in vectors:
        mask |= vector
    return mask


def _leading(vectors: Iterable[int]) -> dict[int, int]:
    """An echelon basis of the vectors by leading bit, without the combinations."""
    rows: dict[int, int] = {}
    for vector in vectors:
        while vector:
            pivot = vector.bit_length() - 1
            row = rows.get(pivot)
            if row is None:
                rows[pivot] = vector
                break
            vector ^= row
    return rows


def rank(vectors: Iterable[int]) -> int:
    return len(_leading(vectors))


def intersection_dimension(a: Sequence[int], b: Sequence[int]) -> int:
    """Dimension of the intersection of the two spans."""
    return rank(a) + rank(b) - rank([*a, *b])


def complement(vectors: Iterable[int], bits: int) -> list[int]:
    """Unit vectors that extend the span of `vectors` to the whole space of `bits` dimensions, ascending."""
    pivots = _leading(vectors)
    return [1 << i for i in range(bits) if i not in pivots]


def right_inverse(columns: Sequence[int], bits: int) -> list[int] | None:
    """Columns of a map X with columns(X(y)) == y for all y of `bits` bits; earlier columns are preferred.

    None if the map is not surjective.
    """
    echelon = Echelon(columns)
    result = [echelon.solve(1 << i) for i in range(bits)]
    return None if any(x is None for x in result) else result  # type: ignore[return-value]


def shifted_masks(columns: Sequence[int]) -> list[tuple[int, int]]:
    """The map as the XOR of `(x & mask) << shift` terms (negative shift: to the right), ordered by shift.

    The matrix entry of input bit i and output bit o belongs to the term of shift o - i, so an index expression costs
    one AND and one shift per nonzero diagonal of the matrix instead of one select per bit.
    """
    terms: dict[int, int] = {}
    for i, column in enumerate(columns):
        while column:
            low = column & -column
            shift = low.bit_length() - 1 - i
            terms[shift] = terms.get(shift, 0) | 1 << i
            column ^= low
    return [(terms[shift], shift) for shift in sorted(terms)]
