"""How the curvature of the W-step grows with the samples: the figure on the eigenvalues of sum_c H_c H_c'."""
