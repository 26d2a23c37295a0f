"""Random problems, each made from a generator, and hypothesis strategies over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from dbmd.model.node import Node
from dbmd.model.problem import Problem
from dbmd.model.statistics import PerSource, Quadratic, Statistics
from dbmd.registry import load_kernel


def statistics_of(Xt, Ht, prior=0.0):
    """Return the statistics of samples with memberships, by their definition."""
    return Statistics(
        XHt=Xt.T @ Ht,
        HHt=Ht.T @ Ht,
        sq_norm=float((Xt**2).sum()),
        n=len(Xt),
        h_cost=-float((prior * np.log(Ht)).sum()) if np.any(prior) else 0.0,
    )


def sums_of(Xt, Ht, weights=None):
    """Return the sums over samples with memberships, as a pass finds them."""
    sums = load_kernel("cpu").Sums(Xt.shape[1], Ht.shape[1], Xt.dtype)
    sums.add(Xt, Ht, weights, norms=True)
    return sums.total()


def statistics(Xt, Ht, rest, weights=None):
    """Return the statistics of samples with memberships about a point, as a pass finds them."""
    return Statistics.of(sums_of(Xt, Ht, weights), rest)


def memberships(rng, n, r, kind="plain"):
    """Return Ht, shape (n, r), rows on the simplex.

    kind: "plain"; "duplicate": the first and last component are always equal; "empty": the last is never used.
    """
    if kind == "plain" or r == 1:
        return rng.dirichlet(np.ones(r), n)
    Ht = np.hstack([rng.dirichlet(np.ones(r - 1), n), np.zeros((n, 1))])
    if kind == "duplicate":
        Ht[:, 0] /= 2.0
        Ht[:, -1] = Ht[:, 0]
    return Ht


@dataclass(frozen=True)
class WProblem:
    """A problem (P) cut into nodes, and where to start."""

    nodes: list[Node]
    problem: Problem
    W0: np.ndarray

    @property
    def total(self) -> Quadratic:
        f = self.nodes[0].quadratic
        for node in self.nodes[1:]:
            f = f + node.quadratic
        return f

    def objective(self, W):
        return self.total.value(W) + self.problem.penalty.value(W)


def w_problem(rng, *, sizes=(40, 60, 50), sigma2=1.0, lam=0.0, m=6, r=3, kind="plain", nonnegative=None):
    """Return (P) with a node for each source.

    sizes: samples of each node. sigma2: noise of each. lam: relative to the least one that makes W = 0 the solution; a
    number, or one for each column. nonnegative: bools, one for each column.
    """
    sigma2 = np.broadcast_to(np.asarray(sigma2, float), (len(sizes),))
    W = rng.normal(size=(m, r)) * (rng.random((m, r)) < 0.7)
    stats = []
    for n, level in zip(sizes, sigma2, strict=True):
        Ht = memberships(rng, n, r, kind)
        Xt = Ht @ W.T + np.sqrt(level) * rng.normal(size=(n, m))
        stats.append(PerSource({len(stats): statistics_of(Xt, Ht)} if n else {}))
    nodes = [
        Node(f"node {i}", quadratic=Quadratic.of(s, sigma2) if s else Quadratic.zero(m, r)) for i, s in enumerate(stats)
    ]
    W0 = rng.normal(size=(m, r))
    summaries = sum((s.map(lambda one: one.summary(W0)) for s in stats), PerSource())
    zero_from = float(np.abs(sum(node.quadratic.B for node in nodes)).max())
    lam = lam * zero_from if np.ndim(lam) == 0 else np.asarray(lam) * zero_from
    nonnegative = None if nonnegative is None else np.asarray(nonnegative)
    return WProblem(nodes, Problem.of(summaries, sigma2, lam, len(nodes), nonnegative=nonnegative), W0)


def generators():
    """Strategy: random generators."""
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def decompositions(draw, max_samples=12):
    """Strategy: (Xt, Ht, W), memberships strictly inside the simplex."""
    n = draw(st.integers(0, max_samples))
    m, r = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    rng = draw(generators())
    scale = draw(st.sampled_from([1e-3, 1.0, 1e3]))
    return scale * rng.normal(size=(n, m)), rng.dirichlet(np.full(r, 2.0), n), scale * rng.normal(size=(m, r))


@st.composite
def cuts(draw, n):
    """Strategy: edges 0 = e_0 <= ... <= e_k = n."""
    inner = draw(st.lists(st.integers(0, n), max_size=5))
    return [0, *sorted(inner), n]


@st.composite
def w_problems(draw):
    """Strategy: well-posed problems (P) over one to five nodes of unequal noise and size."""
    r = draw(st.integers(1, 4))
    n_nodes = draw(st.integers(1, 5))
    sizes = draw(st.lists(st.integers(0, 60), min_size=n_nodes, max_size=n_nodes))
    sizes[draw(st.integers(0, n_nodes - 1))] += 10 * r  # so that the sum has full rank
    sigma2 = draw(st.lists(st.floats(0.01, 100.0), min_size=n_nodes, max_size=n_nodes))
    lam = draw(st.sampled_from([0.0, 0.01, 0.2, 0.9]))
    return w_problem(draw(generators()), sizes=sizes, sigma2=sigma2, lam=lam, m=draw(st.integers(1, 6)), r=r)


@dataclass(frozen=True)
class HProblem:
    """The H-step of some samples: min 1/2 h'Qh - b'h - sum_k a_k ln h_k on the simplex, for every row b of Bt."""

    Q: np.ndarray
    Bt: np.ndarray
    a: np.ndarray

    @property
    def scale(self):
        """Of every sample: the size of Q or the spread of b, whichever is larger."""
        spread = np.ptp(self.Bt.astype(np.float64), axis=1)
        scale = np.maximum(np.diagonal(self.Q).max(), spread)
        return np.where(scale > 0.0, scale, 1.0)

    def residual(self, Ht):
        """Return for every sample the violation of the optimality conditions, relative to its scale.

        With g = Qh - b, and nu such that the conditions hold on average: h (g + nu) = a and g + nu >= 0.
        """
        Ht = Ht.astype(np.float64)
        G = Ht @ self.Q - self.Bt
        Z = G + (self.a.sum() - (Ht * G).sum(axis=1, keepdims=True))
        return np.maximum(np.abs(Ht * Z - self.a), -Z).max(axis=1, initial=0.0) / self.scale

    def objective(self, Ht):
        """Return for every sample the value that the H-step minimises."""
        Ht = Ht.astype(np.float64)
        log = (self.a * np.log(Ht)).sum(axis=1) if self.a.any() else 0.0
        return 0.5 * ((Ht @ self.Q) * Ht).sum(axis=1) - (self.Bt * Ht).sum(axis=1) - log


BASES = (
    "plain",
    "all zero",
    "zero column",
    "duplicate columns",
    "collinear",
    "tiny",
    "huge",
    "columns of all scales",
    "outliers",
    "common offset",
)


def h_problem(rng, r, n, *, basis="plain", prior=0.0, dtype=np.float64, m=30):
    """Return the H-step for samples around a basis W of a kind; ``prior`` is in units of the largest ||w_k||^2.

    "vector" as prior: a different weight for every component, some of them zero.
    """
    W = rng.normal(size=(m, r))
    if basis == "zero column":
        W[:, 0] = 0.0
    elif basis == "duplicate columns":
        W[:, r // 2 :] = W[:, : r - r // 2]
    elif basis == "collinear":
        W = np.outer(W[:, 0], rng.normal(size=r))
    elif basis == "tiny":
        W *= 1e-6
    elif basis == "huge":
        W *= 1e6
    elif basis == "columns of all scales":
        W *= np.logspace(-6, 6, r)
    elif basis == "common offset":
        W += 100.0 * rng.normal(size=(m, 1))
    Xt = rng.dirichlet(np.ones(r), n) @ W.T + 0.3 * np.abs(W).mean() * rng.normal(size=(n, m))
    if basis == "outliers":
        Xt[::3] *= 1e5
        W -= W.mean(axis=1, keepdims=True)  # as in a sweep; else b is large, and lost to rounding, for nothing
    Q, Bt = W.T @ W, Xt @ W
    if basis == "all zero":  # as W = 0 has it
        Q, Bt = 0.0 * Q, 0.0 * Bt
    unit = float(np.diagonal(Q).max()) or 1.0
    if isinstance(prior, str):
        a = unit * np.where(np.arange(r) % 3 == 1, 0.0, rng.uniform(0.01, 0.3, r))
    else:
        a = np.full(r, unit * prior)
    return HProblem(Q, Bt.astype(dtype), a)


@st.composite
def h_problems(draw, dtype=np.float64):
    """Strategy: an H-step of one to sixteen components: faces are kept up to twelve, and solved anew beyond."""
    rng = draw(generators())
    prior = draw(st.sampled_from([0.0, 1e-6, 1e-3, 0.1, "vector"]))
    basis = draw(st.sampled_from(BASES))
    r, n = draw(st.integers(1, 16)), draw(st.integers(1, 40))
    return h_problem(rng, r, n, basis=basis, prior=prior, dtype=dtype)
