"""Noise and what it promises: additive integer mechanisms, choices, key selection by threshold, and where randomness comes from.

rounding        the scale that is drawn: a short binary fraction, never below the one that is owed
exact_sampler   discrete Laplace and Gaussian by integer arithmetic on the system's random bytes
exact_choice    one of many candidates, by the exponential mechanism or permute-and-flip
source          who draws: OpenDP for short vectors, exact_sampler for long ones, exact_choice for choices
additive        what any additive noise offers
laplace         discrete Laplace, for pure differential privacy
gaussian_tail   the exact tail of the discrete Gaussian
gaussian        discrete Gaussian, for zero-concentrated differential privacy
helmert         the coordinates of a cube in which its marginals are told apart
residual        discrete Gaussians for these, of which every marginal is read off
weighted        how wide a weighted sum of several draws is
threshold       which private group keys may be shown
truncated       discrete Laplace cut off on both sides, for a count that selects its own key
calibration     the mechanisms that a price buys, a record each
kept            the noise in stored answers
events          what of each of them the ledger keeps
randomized_response  answers that are turned round at random, one by one
"""
