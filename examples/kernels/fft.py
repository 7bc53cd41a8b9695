"""One stage of Stockham's radix-2 Fourier transform; log2(n) launches with span 1, 2, 4, ... make the transform.

Numbers are complex, real and imaginary parts in arrays of their own.  Grid: n / 2 / T tile blocks.  Pair i, of index
k = i mod span in its group, reads elements i and i + n / 2 and writes places a span apart, which keeps the order
natural without a bit reversal.
"""

import cuda.tile as ct
import numpy as np

TURN = 6.283185307179586


@ct.kernel
def fft_stage(real, imaginary, out_real, out_imaginary, span, T: ct.Constant[int]):
    half = real.shape[0] // 2
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    k = i % span
    angle = ct.astype(k, ct.float32) * (-TURN / 2) / ct.astype(span, ct.float32)
    cosine, sine = ct.cos(angle), ct.sin(angle)
    a_real, a_imaginary = ct.gather(real, i), ct.gather(imaginary, i)
    b_real, b_imaginary = ct.gather(real, i + half), ct.gather(imaginary, i + half)
    c_real = b_real * cosine - b_imaginary * sine
    c_imaginary = b_real * sine + b_imaginary * cosine
    place = (i - k) * 2 + k
    # Both halves at once: two scatters to one array would be kept in order, although their places never meet.
    places = ct.cat((place, place + span), 0)
    ct.scatter(out_real, places, ct.cat((a_real + c_real, a_real - c_real), 0))
    ct.scatter(out_imaginary, places, ct.cat((a_imaginary + c_imaginary, a_imaginary - c_imaginary), 0))


def reference(real, imaginary, out_real, out_imaginary, span):
    """The butterflies of one stage.  With span = n / 2 and the earlier stages done, the result is the transform."""
    half = len(real) // 2
    z = real + 1j * imaginary.astype(np.float64)
    groups = z.reshape(2, half // span, span)
    turned = groups[1] * np.exp(-1j * np.pi * np.arange(span) / span)
    result = np.stack([groups[0] + turned, groups[0] - turned], axis=1).reshape(-1)
    return [result.real, result.imag]


TILEIRAS_EXPORT = {"fft_stage": (fft_stage, "f32[?]", "f32[?]", "f32[?]", "f32[?]", "i32", 64)}
