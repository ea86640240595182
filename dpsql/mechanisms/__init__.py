"""Noise and what it promises: additive integer mechanisms, key selection by threshold, and where randomness comes from.

rounding        the scale that is drawn: a short binary fraction, never below the one that is owed
exact_sampler   discrete Laplace and Gaussian by integer arithmetic on the system's random bytes
source          who draws: OpenDP for short vectors, exact_sampler for long ones
additive        what any additive noise offers
laplace         discrete Laplace, for pure differential privacy
gaussian_tail   the exact tail of the discrete Gaussian
gaussian        discrete Gaussian, for zero-concentrated differential privacy
threshold       which private group keys may be shown
truncated       discrete Laplace cut off on both sides, for a count that selects its own key
"""
