"""W given the statistics of the nodes: four ways to the same minimiser.

All solve problem (P),  min_W sum_i f_i(W) + lam ||W||_1,  where f_i is the term of node i: a
:class:`~dbmd.model.statistics.Quadratic` in which every source is weighted by 1 / sigma_c^2. A solver is a module that
satisfies :class:`dbmd.protocols.Solver`.

A solver never sees X: a round costs O(m r^2) at a node, whatever the number of its samples. Parameters of a method
(rho, gamma, the r step sizes) travel with the function; the floats that are counted are the m x r matrices, as in
Table 1 of the paper.
"""

from dbmd.solvers._step import WStep

__all__ = ["WStep"]
