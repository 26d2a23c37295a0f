"""Memberships against known truth: DBMD by both inferences, beside k-means, NMF and two further packages."""
