"""How accuracy falls as one of three sources gets noisier: dbmd against k-means on scikit-learn's digits.

Run with: .venv/bin/python examples/noise_sweep.py
"""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from dbmd import DBMD
from dbmd.metrics import clustering_accuracy

X, digit = load_digits(return_X_y=True)
SEEDS = range(10)

print("noise of source 2   dbmd   dbmd, one noise level for all   k-means     (accuracy, mean of 10 seeds)")
for level in (0, 10, 20, 30):
    scores = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        source = rng.integers(0, 3, len(X))
        noisy = X + rng.normal(size=X.shape) * np.array([0.0, 0.0, level])[source][:, None]
        labels = [
            DBMD(10, n_init=4, random_state=seed).fit(noisy, source=source).labels_,
            DBMD(10, n_init=4, random_state=seed, noise="shared").fit(noisy, source=source).labels_,
            KMeans(10, n_init=10, random_state=seed).fit_predict(noisy),
        ]
        scores.append([clustering_accuracy(digit, found) for found in labels])
    ours, shared, kmeans = np.mean(scores, axis=0)
    print(f"{level:17d}   {ours:.2f}   {shared:29.2f}   {kmeans:7.2f}")
