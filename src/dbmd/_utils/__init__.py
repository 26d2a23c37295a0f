"""Plumbing that knows nothing of the model: text for terminals, threads of BLAS, wary reading of files."""
