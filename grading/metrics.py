"""Agreement between awards and labels: accuracy, macro F1, quadratic-weighted kappa, mean absolute error, recall."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

AWARDS = (0.0, 0.5, 1.0)


def accuracy(given: Sequence[float], labels: Sequence[float]) -> float | None:
    """Share of awards that equal their label; None of nothing."""
    return fmean(a == b for a, b in zip(given, labels, strict=True)) if labels else None


def macro_f1(given: Sequence[float], labels: Sequence[float]) -> float | None:
    """Mean F1 over the awards 0, half and full; an award that neither side uses is left out. None of nothing."""
    pairs = list(zip(given, labels, strict=True))
    scores = []
    for award in AWARDS:
        both = sum(a == award == b for a, b in pairs)
        either = sum(a == award for a, _ in pairs) + sum(b == award for _, b in pairs)
        if either:
            scores.append(2 * both / either)
    return fmean(scores) if scores else None


def weighted_kappa(given: Sequence[float], labels: Sequence[float]) -> float | None:
    """Cohen's kappa with quadratic weights, of numbers as they stand (no bins).

    1 is agreement, 0 what chance gives. None where all numbers of both sides are the same.
    """
    if not labels:
        return None
    observed = fmean((a - b) ** 2 for a, b in zip(given, labels, strict=True))
    by_chance = fmean((a - b) ** 2 for a in given for b in labels)
    return 1 - observed / by_chance if by_chance else None


def mean_absolute_error(given: Sequence[float], labels: Sequence[float]) -> float | None:
    """Mean distance; None of nothing."""
    return fmean(abs(a - b) for a, b in zip(given, labels, strict=True)) if labels else None


def bias(given: Sequence[float], labels: Sequence[float]) -> float | None:
    """Mean of what is given over what is due; None of nothing."""
    return fmean(a - b for a, b in zip(given, labels, strict=True)) if labels else None


def share(some: int, of: int) -> float | None:
    """some/of; None of nothing."""
    return some / of if of else None
