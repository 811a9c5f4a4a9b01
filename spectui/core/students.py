"""Normal and Student's t distribution: what a mean of few, spread values is judged by.

Own, since ``statistics`` has no t and costs 5 ms to import before the first paint.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import erfc, exp, inf, lgamma, log, log1p, pi, sqrt


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's rule."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 400):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + term / c
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    return value


def _beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, 1.0 - x) / b


def t_cdf(t: float, freedom: float) -> float:
    if freedom == inf:
        return normal_cdf(t)
    tail = 0.5 * _beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
    return 1.0 - tail if t > 0 else tail


@lru_cache(maxsize=512)
def t_quantile(share: float, freedom: float) -> float:
    """The value below which ``share`` of the distribution with ``freedom`` > 0 degrees lies."""
    if freedom == inf or freedom > 1e6:
        return normal_quantile(share)
    if share < 0.5:
        return -t_quantile(1.0 - share, freedom)
    z = normal_quantile(share)
    guess = z * (1.0 + (z * z + 1.0) / (4.0 * freedom))  # Cornish and Fisher's first term: near from three degrees on
    low, high = 0.0, max(2.0, 2.0 * guess)
    while t_cdf(high, freedom) < share:
        low, high = high, high * 2.0
        if high > 1e12:
            return inf
    return _newton(share, freedom, low, high, guess)


def _newton(share: float, freedom: float, low: float, high: float, t: float) -> float:
    """Newton's steps from ``t`` inside a bracket that shrinks with them: a handful where halving takes fifty."""
    scale = exp(lgamma((freedom + 1.0) / 2.0) - lgamma(freedom / 2.0)) / sqrt(freedom * pi)
    if not low < t < high:
        t = 0.5 * (low + high)
    for _ in range(80):
        over = t_cdf(t, freedom) - share
        low, high = (low, t) if over > 0 else (t, high)
        density = scale * exp(-0.5 * (freedom + 1.0) * log1p(t * t / freedom))
        new = t - over / density if density > 0 else low
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - t) <= 1e-13 * t:
            return new
        t = new
    return t


def _between(cdf: Callable[[float], float], share: float, low: float, high: float) -> float:
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cdf(middle) < share else (low, middle)
    return 0.5 * (low + high)


def normal_cdf(z: float) -> float:
    return 0.5 * erfc(-z / sqrt(2.0))


@lru_cache(maxsize=64)
def normal_quantile(share: float) -> float:
    return _between(normal_cdf, share, -40.0, 40.0)
