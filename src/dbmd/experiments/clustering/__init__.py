"""DBMD beside k-means and Scalable-NMF on three public data sets: the table on clustering."""
