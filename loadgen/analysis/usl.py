"""The Universal Scalability Law: how throughput grows, levels off and falls with the load.

X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)): gamma is the throughput of one, alpha the
share of work that waits in line, beta the cost of keeping everybody in step.  With beta = 0 there
is no peak.  Source: N. J. Gunther, *Guerrilla Capacity Planning* (2007), ch. 5 and 6; the fit has
three parameters, as that of R's ``usl`` since version 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

FloatArray = NDArray[np.float64]
Parameters = tuple[float, float, float]

LEAST_LEVELS = 6
"""Fewer measured levels are not fitted."""

FARTHEST = 2.0
"""Nothing is said of a load above the highest measured level times this."""

RESAMPLES = 500
_NONE = 1e-9
"""An alpha or a beta below this, on a load scaled to 1, is none."""


@dataclass(frozen=True, slots=True)
class Usl:
    """The parameters, all >= 0; ``gamma`` in the unit of the throughput."""

    alpha: float
    beta: float
    gamma: float

    def __call__(self, load: float) -> float:
        """The throughput at ``load``."""
        waits = self.alpha * (load - 1) + self.beta * load * (load - 1)
        return self.gamma * load / (1 + waits)

    @property
    def peak(self) -> float | None:
        """The load of the highest throughput; None where it grows for ever."""
        if self.beta <= 0 or self.alpha >= 1:
            return None
        return math.sqrt((1 - self.alpha) / self.beta)


@dataclass(frozen=True, slots=True)
class Span:
    """A 95 % percentile interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Fit:
    """The law that fits ``levels`` measured levels up to ``tested``.

    ``peak`` is None when there is none within ``FARTHEST`` times ``tested``; ``peak_span`` when
    not all but 5 % of the resamples had one there.  ``r2`` is the share of variance explained.
    """

    law: Usl
    levels: int
    tested: float
    r2: float
    alpha: Span
    beta: Span
    gamma: Span
    peak: float | None
    peak_span: Span | None


def fit(loads: FloatArray, rates: FloatArray) -> Usl:
    """Least squares with alpha, beta >= 0 and several starts; of 3 and more levels."""
    scaled = _Scaled(loads, rates)
    starts = [scaled.linear(), (1.0, 0.0, 0.0), (1.5, 0.5, 0.5), (3.0, 2.0, 0.0)]
    solved = [scaled.solve(start) for start in starts]
    return scaled.law(min(solved, key=lambda found: found[0])[1])


def describe(loads: FloatArray, rates: FloatArray, seed: int = 1) -> Fit | None:
    """The fit with its ranges; None of fewer than `LEAST_LEVELS` different levels.

    The ranges come from a bootstrap of the relative residuals, with the leverage of three
    parameters given back (Davison and Hinkley, ch. 6 and 7).
    """
    if np.unique(loads).size < LEAST_LEVELS or not (rates > 0).all():
        return None
    law = fit(loads, rates)
    fitted = np.array([law(load) for load in loads])
    laws = _resampled(loads, rates, fitted, law, seed)
    tested = float(loads.max())
    farthest = FARTHEST * tested
    peaks = [made.peak for made in laws]
    known = [peak for peak in peaks if peak is not None and peak <= farthest]
    spread = float(((rates - rates.mean()) ** 2).sum())
    return Fit(
        law=law,
        levels=int(loads.size),
        tested=tested,
        r2=1 - float(((rates - fitted) ** 2).sum()) / spread if spread else 1.0,
        alpha=_span([made.alpha for made in laws]),
        beta=_span([made.beta for made in laws]),
        gamma=_span([made.gamma for made in laws]),
        peak=law.peak if law.peak is not None and law.peak <= farthest else None,
        peak_span=_span(known) if len(known) >= 0.95 * len(laws) else None,
    )


@dataclass(frozen=True, slots=True)
class _Scaled:
    """The points on axes from 0 to 1, with parameters of like size: (gamma, alpha, beta) become
    (gamma N / X, alpha N, beta N^2) for the largest N and X.
    """

    loads: FloatArray
    rates: FloatArray

    @property
    def _x(self) -> FloatArray:
        return np.asarray(self.loads / self.loads.max())

    @property
    def _y(self) -> FloatArray:
        return np.asarray(self.rates / self.rates.max())

    @property
    def _behind(self) -> FloatArray:
        """Of each point how many are there beside one."""
        return np.asarray((self.loads - 1) / self.loads.max())

    def linear(self) -> Parameters:
        """N / X is linear in 1, N - 1 and N (N - 1): a start near the solution."""
        x, y, behind = self._x, self._y, self._behind
        left = np.stack([np.ones_like(x), behind, x * behind], axis=1)
        weights = (y * y / x)[:, None]
        solved = np.linalg.lstsq(left * weights, x / y * weights[:, 0], rcond=None)[0]
        first = max(float(solved[0]), 1e-6)
        return 1 / first, max(0.0, float(solved[1]) / first), max(0.0, float(solved[2]) / first)

    def solve(self, start: Parameters) -> tuple[float, Parameters]:
        """The cost and the parameters that a search from ``start`` ends with."""
        x, y, behind = self._x, self._y, self._behind

        def off(p: FloatArray) -> FloatArray:
            return np.asarray(p[0] * x / (1 + p[1] * behind + p[2] * x * behind) - y)

        def slope(p: FloatArray) -> FloatArray:
            under = 1 + p[1] * behind + p[2] * x * behind
            curve = p[0] * x / under**2
            return np.stack([x / under, -curve * behind, -curve * x * behind], axis=1)

        found = least_squares(
            off, start, jac=slope, bounds=([1e-9, 0, 0], np.inf),
            xtol=1e-15, ftol=1e-15, gtol=1e-15,
        )  # fmt: skip
        gamma, alpha, beta = map(float, found.x)
        return float(found.cost), (gamma, alpha, beta)

    def law(self, parameters: Parameters) -> Usl:
        """The law that scaled parameters stand for."""
        gamma, alpha, beta = parameters
        load, rate = float(self.loads.max()), float(self.rates.max())
        alpha, beta = (value if value > _NONE else 0.0 for value in (alpha, beta))
        return Usl(alpha / load, beta / load**2, gamma * rate / load)

    def parameters(self, law: Usl) -> Parameters:
        """The other way round."""
        load, rate = float(self.loads.max()), float(self.rates.max())
        return max(law.gamma * load / rate, 1e-6), law.alpha * load, law.beta * load**2


def _resampled(
    loads: FloatArray, rates: FloatArray, fitted: FloatArray, law: Usl, seed: int
) -> list[Usl]:
    free = max(1, loads.size - 3)
    residuals = (rates / fitted - 1) * math.sqrt(loads.size / free)
    residuals = residuals - residuals.mean()
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(RESAMPLES):
        drawn = fitted * np.maximum(1 + generator.choice(residuals, loads.size), 1e-3)
        scaled = _Scaled(loads, drawn)
        found.append(scaled.law(scaled.solve(scaled.parameters(law))[1]))
    return found


def _span(values: list[float]) -> Span:
    low, high = np.quantile(values, [0.025, 0.975], method="inverted_cdf")
    return Span(float(low), float(high))
