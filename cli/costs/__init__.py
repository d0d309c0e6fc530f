"""The cost model: list prices, measured storage operations, and the bill of a month."""
