"""From SQL text to a compiled plan, reading only the text and the declared schema: parse, resolve, limit, measure, lower."""
