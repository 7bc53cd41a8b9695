"""Linear algebra over GF(2) on vectors packed into Python integers.

A vector is an int, bit i being coordinate i; addition is XOR.  A linear map is the list of the images of its unit
vectors (its columns).  Everything a layout needs is application, rank, and solving with a preference among the
unknowns.
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
    """An echelon basis of the vectors added so far, each remembered as a combination of them.

    Vectors are considered in the order in which they are added: one that depends on earlier ones is never used in a
    combination, so adding registers before lanes before warps makes every solution prefer registers.
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
        """Adds a vector; returns whether it was independent of the earlier ones."""
        rest, combination = self.reduce(vector)
        index = self.count
        self.count += 1
        if not rest:
            return False
        self._rows[rest.bit_length() - 1] = (rest, combination ^ (1 << index))
        return True

    def solve(self, vector: int) -> int | None:
        """The combination of added vectors that gives `vector` (free unknowns 0), None outside the span."""
        rest, combination = self.reduce(vector)
        return None if rest else combination


def support(vectors: Iterable[int]) -> int:
    """The coordinates that some vector has, as a mask: a vector without them can be added to any image by `+`."""
    mask = 0
    for vector in vectors:
        mask |= vector
    return mask


def _leading(vectors: Iterable[int]) -> dict[int, int]:
    """An echelon basis of the vectors by leading bit, without the combinations that give it."""
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
    """Columns X with columns(X(y)) == y for all y of `bits` bits, earlier columns preferred; None if not surjective."""
    echelon = Echelon(columns)
    result = [echelon.solve(1 << i) for i in range(bits)]
    return None if any(x is None for x in result) else result  # type: ignore[return-value]


def shifted_masks(columns: Sequence[int]) -> list[tuple[int, int]]:
    """The map as the XOR of `(x & mask) << shift` terms (negative shift: to the right), ordered by shift.

    Every (input bit i, output bit o) entry of the matrix goes to the term of shift o - i, so index expressions cost
    one AND and one shift for each diagonal of the matrix instead of one select for each bit.
    """
    terms: dict[int, int] = {}
    for i, column in enumerate(columns):
        while column:
            low = column & -column
            shift = low.bit_length() - 1 - i
            terms[shift] = terms.get(shift, 0) | 1 << i
            column ^= low
    return [(terms[shift], shift) for shift in sorted(terms)]
