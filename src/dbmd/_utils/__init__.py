"""Plumbing that every layer may use: text for terminals, threads of BLAS, careful reading of files, names of files."""
