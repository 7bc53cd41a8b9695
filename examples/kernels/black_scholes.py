"""Prices of European call and put options by Black and Scholes.

Grid: options / T tile blocks, rounded up.  The normal distribution comes from a polynomial of Abramowitz and Stegun
(26.2.17), which is within 7.5e-8 of it.
"""

from math import erf

import cuda.tile as ct
import numpy as np


def normal(d):
    x = ct.abs(d)
    k = 1.0 / (1.0 + 0.2316419 * x)
    series = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    upper = 0.3989422804014327 * ct.exp(-0.5 * x * x) * series
    return ct.where(d > 0.0, 1.0 - upper, upper)


@ct.kernel
def black_scholes(price, strike, years, call, put, rate, volatility, T: ct.Constant[int]):
    block = ct.bid(0)
    s = ct.load(price, (block,), (T,), padding_mode=ct.PaddingMode.ZERO)
    k = ct.load(strike, (block,), (T,), padding_mode=ct.PaddingMode.ZERO)
    t = ct.load(years, (block,), (T,), padding_mode=ct.PaddingMode.ZERO)
    deviation = volatility * ct.sqrt(t)
    d1 = (ct.log(s / k) + (rate + 0.5 * volatility * volatility) * t) / deviation
    d2 = d1 - deviation
    discounted = k * ct.exp(-rate * t)
    value = s * normal(d1) - discounted * normal(d2)
    ct.store(call, (block,), value)
    # A call less a put is a forward.
    ct.store(put, (block,), value - s + discounted)


def reference(price, strike, years, call, put, rate, volatility):
    s, k, t = (a.astype(np.float64) for a in (price, strike, years))
    below = np.vectorize(lambda d: 0.5 + 0.5 * erf(d / 2**0.5))
    d1 = (np.log(s / k) + (rate + 0.5 * volatility**2) * t) / (volatility * np.sqrt(t))
    discounted = k * np.exp(-rate * t)
    value = s * below(d1) - discounted * below(d1 - volatility * np.sqrt(t))
    return [value, value - s + discounted]


TILEIRAS_EXPORT = {"black_scholes": (black_scholes, *["f32[?]"] * 5, "f32", "f32", 128)}
