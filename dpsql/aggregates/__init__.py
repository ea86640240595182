"""Aggregates over people: integer statistics with exact sensitivity, and the estimates that are made of their noisy cells.

base                what a statistic and an estimate are
term, grid          a value as quanta between bounds; how many rows have each quantum
count, count_distinct, distinct_values, sum, unit_total, avg, moments, of_moments
                    vectors that noise is added to, and the columns made of them
histogram               what looks at the values of a group themselves, and what it loses
quantile, extreme, mode, auto_sum, randomized_response
                    what is released of histograms
ends, resampling    intervals: closed ones, and those of what is computed from noisy cells
"""
