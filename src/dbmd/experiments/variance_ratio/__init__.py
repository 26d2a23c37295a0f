"""What weighing the sources by their precision gains: Theorem 1 and the figure on variance reduction."""
