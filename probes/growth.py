"""How a quantity grows: the fits that turn a handful of measured points into an exponent or into parts."""

from __future__ import annotations

import math
from collections.abc import Sequence


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Slope of log(value) over log(size) by least squares: 1 is linear growth, 2 quadratic."""
    xs, ys = [math.log(x) for x in sizes], [math.log(y) for y in values]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    deviations = [x - x_mean for x in xs]
    return sum(d * (y - y_mean) for d, y in zip(deviations, ys, strict=True)) / sum(d * d for d in deviations)


def parts(sizes: Sequence[float], values: Sequence[float]) -> tuple[float, float, float]:
    """`a, b, c >= 0` of `a + b n + c n^2` with the least squared relative error.

    Each of the seven sets of terms is fitted, and the best of those without a negative coefficient is taken: a cost
    cannot be negative, and with noise on five points the unconstrained fit often says that one is.
    """
    best, error = (0.0, 0.0, 0.0), math.inf
    for terms in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        # Dividing each equation by its value makes the residual relative: the short lengths count as much as the long.
        rows = [[n**t / v for t in terms] for n, v in zip(sizes, values, strict=True)]
        solution = _normal_equations(rows)
        if min(solution) < 0:
            continue
        squares = sum((sum(c * x for c, x in zip(solution, row, strict=True)) - 1) ** 2 for row in rows)
        if squares < error:
            found = dict(zip(terms, solution, strict=True))
            best, error = (found.get(0, 0.0), found.get(1, 0.0), found.get(2, 0.0)), squares
    return best


def _normal_equations(rows: Sequence[Sequence[float]]) -> list[float]:
    """Least-squares solution of `rows @ c = 1`, by Gaussian elimination on columns of unit length."""
    width = len(rows[0])
    scale = [math.sqrt(sum(row[i] ** 2 for row in rows)) for i in range(width)]
    a = [
        [sum(row[i] * row[j] for row in rows) / (scale[i] * scale[j]) for j in range(width)]
        + [sum(row[i] for row in rows) / scale[i]]
        for i in range(width)
    ]
    for i in range(width):
        pivot = max(range(i, width), key=lambda r: abs(a[r][i]))
        a[i], a[pivot] = a[pivot], a[i]
        for r in range(width):
            if r != i:
                factor = a[r][i] / a[i][i]
                a[r] = [x - factor * y for x, y in zip(a[r], a[i], strict=True)]
    return [a[i][width] / a[i][i] / scale[i] for i in range(width)]
