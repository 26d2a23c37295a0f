"""What a noise level for each source gains: images with noise added, and mixtures of cells from real batches."""
