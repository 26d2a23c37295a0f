"""What more nodes gain, and what a pass costs: the figure on scalability."""
