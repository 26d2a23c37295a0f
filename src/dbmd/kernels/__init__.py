"""The hot loop: the H-step for many samples.

A kernel is a module with two functions on plain arrays, and a class that adds up:

``solve_h(Q, Bt, a, Ht0=None, out=None)``
    For every row b of Bt the minimiser of 1/2 h'Qh - b'h - sum_k a_k ln h_k on the simplex.
``sum_log(Ht)``
    The column sums of ln Ht.

``FaceCovariance(Q, noise)``
    The covariance of memberships. ``add(Ht, weights=None)`` takes in samples, ``total()`` returns the sum of their
    covariances and of the logarithms of the determinants.

``reference`` is plain NumPy and the oracle of the tests; ``cpu`` is the one that is used.
"""
