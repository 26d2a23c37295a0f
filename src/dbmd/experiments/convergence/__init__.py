"""How fast each solver of the W-step is, and what governs it: the figure on the log loss, and Theorem 2."""
