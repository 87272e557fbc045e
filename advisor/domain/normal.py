"""The normal distribution, without `statistics`, whose import costs as much as ten answers' use."""

from math import erfc, exp, log, pi, sqrt


def cdf(z: float) -> float:
    """Probability that a standard normal is below z."""
    return 0.5 * erfc(-z / sqrt(2.0))


def quantile(p: float) -> float:
    """The z below which a standard normal lies with probability p; Halley's method on `cdf`."""
    if p > 0.5:
        return -quantile(1.0 - p)
    z = log(p / (1.0 - p)) / 1.702
    for _ in range(20):
        off = (cdf(z) - p) * sqrt(2.0 * pi) * exp(z * z / 2.0)
        z -= off / (1.0 + z * off / 2.0)
        if abs(off) < 1e-13:
            break
    return z


Z10 = quantile(0.9)  # half the width of an 80 % interval, in standard deviations
