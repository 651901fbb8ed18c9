"""One prediction from several regressions, weighed by how well each foretells what it has not seen.

The families run from the declared line as it stands to a linear basis with smooth functions. Outliers
weigh less, as under Student's t with 4 degrees of freedom (Lange, Little and Taylor 1989, section 2).
A member's weight falls with its leave-one-out predictive density (Gelfand and Dey 1994; tempered,
because members are many and labels few); each family counts as one, however many members it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import solve_triangular

from scheduler.chain_ridge import Spectrum
from scheduler.chain_smooth import LENGTHS, Basis, Smooth
from scheduler.observations import Floats, Ints

Family = Literal["line", "shift", "free", "smooth"]

STUDENT = 4.0
NUGGETS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
TYPICAL_NUGGET = 0.3
MIXES = ((0.2, 0.03), (0.2, 0.3), (0.8, 0.03), (0.8, 0.3))  # (share of the curves, linear variance)
FREE_VARIANCE = 100.0
UNSHRUNKEN = 1e4
TEMPERATURE = 4.0
NEGLIGIBLE = 0.01
MOST_CURVES = 16
FEWEST_ROWS = 4
SEARCH_ROWS = 400
KEPT_AFTER_SEARCH = 3


@dataclass(frozen=True, eq=False, slots=True)
class Problem:
    """What is fitted: linear columns (n, q) whose first ``free`` are hardly shrunken (the constant
    first), columns ``z`` (n, d) for smooth functions, target and weight (n,)."""

    linear: Floats
    free: int
    z: Floats
    target: Floats
    weight: Floats

    def only(self, rows: Ints) -> Problem:
        return Problem(self.linear[rows], self.free, self.z[rows], self.target[rows], self.weight[rows])


@dataclass(frozen=True, eq=False, slots=True)
class Average:
    """``linear`` @ coefficients + smooth(z); ``left_out`` (n,): residual at each row had it been left
    out, with the members' weights as they are."""

    coefficients: Floats
    smooth: Smooth | None
    left_out: Floats


@dataclass(frozen=True, slots=True)
class Recipe:
    """A family and its prior: length of the joint process, share of the curves, linear variance."""

    family: Family
    length: float = 0.0
    curves: float = 0.0
    slopes: float = 0.0


@dataclass(frozen=True, eq=False, slots=True)
class Member:
    """One fit: its recipe and nugget, minus its log predictive density, its solution and residuals."""

    recipe: Recipe
    nugget: float
    loss: float
    coefficients: Floats
    left_out: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Designs:
    """Builds the scaled design of a recipe and takes its solution apart again."""

    problem: Problem
    basis: Basis | None
    relevance: Floats
    curves: Floats
    joints: dict[float, Floats]

    @classmethod
    def of(cls, problem: Problem, basis: Basis | None, residual: Floats) -> Designs:
        if basis is None:
            return cls(problem, None, np.empty(0), np.empty((len(problem.target), 0)), {})
        curves = basis.curves(problem.z)
        relevance = relevance_of(curves, residual)
        scaled = [np.sqrt(share) * curve for share, curve in zip(relevance, curves, strict=True)]
        stacked = np.hstack(scaled) if scaled else np.empty((len(problem.target), 0))
        return cls(problem, basis, relevance, stacked, {m: basis.joint(problem.z, m) for m in LENGTHS})

    def scales(self, recipe: Recipe) -> Floats:
        """Prior standard deviation of each linear coefficient."""
        width, free = self.problem.linear.shape[1], self.problem.free
        found = np.zeros(width)
        if recipe.family == "shift":
            found[0] = np.sqrt(UNSHRUNKEN)
        elif recipe.family == "free":
            found[:free] = np.sqrt(UNSHRUNKEN)
        elif recipe.family == "smooth":
            found[:free] = np.sqrt(FREE_VARIANCE)
            found[free:] = np.sqrt(recipe.slopes / max(1, width - free))
        return found

    def of_recipe(self, recipe: Recipe) -> Floats:
        linear = self.problem.linear * self.scales(recipe)
        if recipe.family != "smooth" or self.basis is None:
            return linear
        joint = self.joints[recipe.length]
        return np.hstack([linear, np.sqrt(recipe.curves) * self.curves, np.sqrt(1 - recipe.curves) * joint])

    def joined(self, members: Sequence[tuple[float, Member]]) -> tuple[Floats, Smooth | None]:
        """Weighted sum of the members' functions."""
        width = self.problem.linear.shape[1]
        linear = np.zeros(width)
        heights = np.zeros(self.curves.shape[1])
        joint: dict[float, Floats] = {}
        for share, member in members:
            recipe = member.recipe
            linear += share * self.scales(recipe) * member.coefficients[:width]
            if recipe.family == "smooth" and self.basis is not None:
                middle = width + len(heights)
                heights += share * np.sqrt(recipe.curves) * member.coefficients[width:middle]
                root = self.basis.joint_root(recipe.length)
                weights = solve_triangular(root.T, member.coefficients[middle:], lower=False)
                so_far = joint.get(recipe.length, np.zeros(len(weights)))
                joint[recipe.length] = so_far + share * np.sqrt(1 - recipe.curves) * weights
        if self.basis is None or not joint:
            return linear, None
        return linear, self._smooth(self.basis, heights, joint)

    def _smooth(self, basis: Basis, heights: Floats, joint: dict[float, Floats]) -> Smooth:
        kept, knots, values, start = [], [], [], 0
        for j, at, root, share in zip(basis.column, basis.knots, basis.roots, self.relevance, strict=True):
            stop = start + root.shape[1]
            if share > 0:
                kept.append(j)
                knots.append(at)
                values.append(np.sqrt(share) * root @ heights[start:stop])
            start = stop
        return Smooth(np.array(kept, dtype=np.int64), tuple(knots), tuple(values), basis.centres, joint)


def fit_average(
    problem: Problem, seen: Floats, families: Sequence[Family], rng: np.random.Generator
) -> Average:
    """Fit every member and average. ``seen`` (m, d): columns ``z`` of all candidates, for the knots."""
    n = len(problem.target)
    residual, size = _after_free(problem)
    unit = Problem(problem.linear, problem.free, problem.z, problem.target / size, problem.weight)
    smooth = "smooth" in families and n >= FEWEST_ROWS
    basis = Basis.of(seen, problem.z, rng) if smooth and problem.z.shape[1] else None
    recipes = list(_recipes(families if smooth else [f for f in families if f != "smooth"], basis))
    designs = Designs.of(unit, basis, residual)
    robust = unit.weight * _student_weights(designs, recipes[0])
    pairs = [(recipe, nugget) for recipe in recipes for nugget in _nuggets(recipe)]
    if n > SEARCH_ROWS:
        rows = np.sort(rng.permutation(n)[:SEARCH_ROWS])
        part = Designs.of(unit.only(rows), basis, residual[rows])
        found = _shares(_members(part, pairs, robust[rows]))
        found = sorted(found, key=lambda item: -item[0])[:KEPT_AFTER_SEARCH]
        pairs = [(member.recipe, member.nugget) for _, member in found]
    members = _shares(_members(designs, pairs, robust))
    coefficients, function = designs.joined(members)
    left_out = np.sum([share * member.left_out for share, member in members], axis=0)
    return Average(size * coefficients, None if function is None else function.times(size), size * left_out)


def relevance_of(curves: Sequence[Floats], residual: Floats) -> Floats:
    """Share of each curve: how much of the residual it explains, relative to chance; they sum to 1.

    The score is r' K r / tr K with K the curve's centred covariance, 1 on average for pure noise; only
    the best 16 columns keep a curve.
    """
    scores = np.zeros(len(curves))
    for j, curve in enumerate(curves):
        centred = curve - curve.mean(axis=0)
        size = float((centred**2).sum())
        scores[j] = float(((centred.T @ residual) ** 2).sum()) / size if size > 0 else 0.0
    scores[np.argsort(-scores, kind="stable")[MOST_CURVES:]] = 0.0
    total = scores.sum()
    return scores / total if total > 0 else scores


def _recipes(families: Sequence[Family], basis: Basis | None) -> Iterator[Recipe]:
    """The smooth ones first."""
    if "smooth" in families:
        for length in LENGTHS if basis is not None else (0.0,):
            for curves, slopes in MIXES if basis is not None else MIXES[:2]:
                yield Recipe("smooth", length, curves, slopes)
    for family in families:
        if family != "smooth":
            yield Recipe(family)


def _nuggets(recipe: Recipe) -> tuple[float, ...]:
    return NUGGETS if recipe.family == "smooth" else (1.0,)


def _after_free(problem: Problem) -> tuple[Floats, float]:
    """Clipped, standardised residual after the free columns, and its size in units of the target."""
    root = np.sqrt(problem.weight)
    free = problem.linear[:, : problem.free] * root[:, None]
    gram = free.T @ free + 1e-3 * np.eye(problem.free)
    residual = problem.target - problem.linear[:, : problem.free] @ np.linalg.solve(
        gram, free.T @ (root * problem.target)
    )
    size = float(np.sqrt(np.average(residual**2, weights=problem.weight)))
    size = max(size, 1e-9 * float(np.abs(problem.target).max()), np.finfo(float).tiny ** 0.5)
    middle = np.median(residual)
    robust = 1.4826 * float(np.median(np.abs(residual - middle))) + 1e-3 * size
    clipped = np.clip((residual - middle) / robust, -3.0, 3.0)
    clipped -= clipped.mean()
    spread = clipped.std()
    return (clipped / spread if spread > 0 else clipped), size


def _student_weights(designs: Designs, recipe: Recipe) -> Floats:
    """Factor (n,) in (0, 1] per row, from two rounds of reweighting by leave-one-out residuals."""
    design, target = designs.of_recipe(recipe), designs.problem.target
    factor = np.ones(len(target))
    nugget = TYPICAL_NUGGET if recipe.family == "smooth" else 1.0
    for _ in range(2):
        root = np.sqrt(factor * designs.problem.weight)
        dual, diagonal = Spectrum.of(design * root[:, None]).solve(root * target, nugget)
        squares = dual**2 / diagonal / _scale(root * target, dual)
        factor = np.minimum((STUDENT + 1.0) / (STUDENT + squares), 1.0)
    return factor


def _members(designs: Designs, pairs: Sequence[tuple[Recipe, float]], weight: Floats) -> list[Member]:
    root = np.sqrt(weight)
    target = root * designs.problem.target
    importance = designs.problem.weight / designs.problem.weight.mean()
    found: list[Member] = []
    for recipe in dict.fromkeys(recipe for recipe, _ in pairs):
        design = designs.of_recipe(recipe) * root[:, None]
        spectrum = Spectrum.of(design)
        for nugget in (nugget for other, nugget in pairs if other == recipe):
            dual, diagonal = spectrum.solve(target, nugget)
            variance = _scale(target, dual) / diagonal
            residual = dual / diagonal
            tails = 0.5 * (STUDENT + 1.0) * np.log1p(residual**2 / variance / STUDENT)
            loss = float(importance @ (0.5 * np.log(variance) + tails))
            found.append(Member(recipe, nugget, loss, design.T @ dual, residual / root))
    return found


def _scale(target: Floats, dual: Floats) -> float:
    """Variance that the covariance is a multiple of, by maximum likelihood."""
    return max(float(target @ dual) / len(target), np.finfo(float).tiny ** 0.5)


def _shares(members: Sequence[Member]) -> list[tuple[float, Member]]:
    """Members with their weights, which sum to 1; without those that hardly count."""
    count = Counter(member.recipe.family for member in members)
    loss = np.array([m.loss + TEMPERATURE * np.log(count[m.recipe.family]) for m in members])
    shares = np.exp(-(loss - loss.min()) / TEMPERATURE)
    shares[shares < NEGLIGIBLE * shares.max()] = 0.0
    shares /= shares.sum()
    return [(float(share), member) for share, member in zip(shares, members, strict=True) if share > 0]
