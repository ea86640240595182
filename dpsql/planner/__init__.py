"""From SQL text to a compiled plan, reading only the text and the declared schema: parse, resolve, limit, measure, lower.

parse, grammar, parameters, options   the text
resolve/                                         names and types; which queries are about people
limit                                            what one unit may contribute
statistics                                       aggregates as few parts as hold them all
measure                                          a release of these, with its price
request, buying, shares, accurate, noises, least_price
                                                 what the parts cost: a price shared, or an accuracy asked for
lower/                                           the engine SQL
explain/                                         the plan in words
planning                                         these stages in their order
"""
