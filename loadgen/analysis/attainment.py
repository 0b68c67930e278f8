"""Is a share of turns proven, disproven or open?  The early-stopping test of MLPerf.

"At least ``share`` of all turns are good" is accepted with t misses of n when so few misses would
be seen with probability below 1 - c if the share were only just missed: P(Bin(n, 1-share) <= t);
it is refuted when so many would be if it were only just met (inference_rules.adoc, appendix Early
Stopping; c = 0.99, no tolerance).  Between the two nothing is known.  A share of 1 is no statement
about turns that were not asked: it is compared as it stands.

Turns of one conversation may resemble each other; then n of them are worth n / inflation
(Kish's design effect), and the binomial tail is continued to such n by the incomplete beta
function: P(Bin(n, p) <= t) = I(1-p; n-t, t+1).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from scipy.special import betainc

from loadgen.analysis import rates
from loadgen.analysis.shift import Z_95
from loadgen.analysis.verdict import Verdict

CONFIDENCE = 0.99
_FARTHEST = 1 << 30


def decide(
    met: int, judged: int, share: Fraction, confidence: float = CONFIDENCE, inflation: float = 1.0
) -> Verdict:
    """PASS, FAIL or INCONCLUSIVE of ``met`` of ``judged`` turns; INCONCLUSIVE of none."""
    if not judged:
        return Verdict.INCONCLUSIVE
    misses = judged - met
    if share >= 1:
        return Verdict.FAIL if misses else Verdict.PASS
    rate, doubt = float(1 - share), 1 - confidence
    turns, bad = judged / inflation, misses / inflation
    if bad < turns and betainc(turns - bad, bad + 1, 1 - rate) < doubt:
        return Verdict.PASS
    if bad and betainc(bad, turns - bad + 1, rate) < doubt:
        return Verdict.FAIL
    return Verdict.INCONCLUSIVE


def interval(part: int, whole: int) -> tuple[float | None, float | None]:
    """The 95 % Wilson score interval of a share; (None, None) of nothing."""
    return rates.score(part / whole, whole, Z_95) if whole else (None, None)


def needed(share: Fraction, misses: int = 0, confidence: float = CONFIDENCE) -> int | None:
    """The smallest number of turns that is a PASS with ``misses``; None for a share of 1."""
    if share >= 1:
        return None
    return _first(lambda n: decide(n - misses, n, share, confidence) is Verdict.PASS, misses)


def settles_at(met: int, judged: int, share: Fraction, inflation: float = 1.0) -> int | None:
    """About how many turns settle it if the rate of misses stays; None where it is too near."""
    if not judged or share >= 1:
        return needed(share)
    rate = Fraction(judged - met, judged)

    def settled(turns: int) -> bool:
        misses = round(rate * turns)
        return decide(turns - misses, turns, share, inflation=inflation) is not Verdict.INCONCLUSIVE

    return _first(settled, 0)


def _first(holds: Callable[[int], bool], least: int) -> int | None:
    """The smallest n above ``least`` at which ``holds``, which then stays so."""
    low, high = least, max(1, 2 * least)
    while not holds(high):
        low, high = high, high * 2
        if high > _FARTHEST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
