"""What the solvers send until W is found, and how long that takes over links: Table 1."""
