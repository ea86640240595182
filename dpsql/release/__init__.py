"""From a plan to noisy statistics and their intervals: charge, run, add noise, store."""
