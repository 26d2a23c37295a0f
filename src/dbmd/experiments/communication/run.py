"""Count what each solver sends until W is found, and check the model of a link against a clock."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dbmd.data.synthetic import banded_basis, bernoulli_memberships, dirichlet_memberships, observe
from dbmd.engines import Link, Linked, Metered, Traffic
from dbmd.experiments.experiment import Record, Setting, Task
from dbmd.experiments.known_memberships import WProblem
from dbmd.model.statistics import Float
from dbmd.protocols import NodeFunction, Reply
from dbmd.registry import load


def tasks(setting: Setting) -> list[Task]:
    """Return a task for each problem, and one for each link that is really waited for."""
    return [
        *(
            {"kind": "counting", "data": data, "nodes": nodes, "n_per_node": n}
            for nodes, n in setting["shapes"]
            for data in setting["data"]
        ),
        *({"kind": "waiting", **check} for check in setting["waiting"]),
    ]


def run(task: Task, setting: Setting) -> list[Record]:
    """Return a record for each solver."""
    if task["kind"] == "counting":
        problem = synthetic(task, setting)
        return [{"method": name, **counted(problem, name, setting)} for name in setting["methods"]]
    # Without the penalty all solvers have closed forms: little computing, which others who use the machine disturb.
    problem = synthetic(task, {**setting, "lam": 0.0})
    link = Link(task["latency"], task["bandwidth"])
    return [{"method": name, **waited(problem, name, link, setting)} for name in setting["methods"]]


def synthetic(task: Task, setting: Setting) -> WProblem:
    """Return the W-problem of the paper's synthetic data A (Bernoulli) or B (Dirichlet), with noise of deviation 1."""
    rng = np.random.default_rng(setting["seed"])
    r, n = setting["components"], task["n_per_node"]
    W = banded_basis(r, **{name: setting[name] for name in ("height", "length", "coherence")})
    H = [
        bernoulli_memberships(rng, r, n, setting["p"]) if task["data"] == "A" else dirichlet_memberships(rng, r, n)
        for _ in range(task["nodes"])
    ]
    X = [observe(rng, W, H_c, 1.0) for H_c in H]
    return WProblem.of(X, H, np.ones(task["nodes"]), setting["lam"])


class Timed(Metered):
    """A metered engine that notes the seconds that its questions take."""

    seconds = 0.0

    def ask(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run a function at every node and add the replies, counting both ways."""
        clock = time.perf_counter()
        reply = super().ask(node_function, *broadcast)
        self.seconds += time.perf_counter() - clock
        return reply


class Trace:
    """What there was after each round of a solver; entry 0 is the start.

    Attributes
    ----------
    W : list of arrays of shape (m, r)
        The iterates.
    traffic : list of Traffic
        Sent so far.
    seconds : list of float
        Computed so far, at the driver and at a node: its fraction of the time of all, one after the other.
    """

    def __init__(self, problem: WProblem, method: str, **options: Any) -> None:
        self.W = [np.zeros_like(problem.terms[0].B)]
        self.traffic, self.seconds = [Traffic()], [0.0]
        # In a fit the statistics answer the question of the H-step, which brings the nodes W.
        besides = Traffic(floats_down=self.W[0].size) if load("solvers", method).GATHERS else Traffic()
        with Timed(problem.engine()) as engine:
            clock = time.perf_counter()

            def note(W: Float) -> None:
                at_the_driver = time.perf_counter() - clock - engine.seconds
                self.W.append(W)
                self.traffic.append(engine.traffic + besides)
                self.seconds.append(at_the_driver + engine.seconds / engine.n_nodes)

            problem.solve(method, engine=engine, on_round=note, **options)


def counted(problem: WProblem, method: str, setting: Setting) -> Record:
    """Return gap, traffic and seconds of computing after each round, until the gap is small."""
    options = setting["methods"][method]
    least = problem.objective(problem.solve("exact").W)
    first = Trace(problem, method, tol=setting["tol"], **options)
    gaps = [problem.objective(W) / least - 1.0 for W in first.W]
    rounds = next((k for k, gap in enumerate(gaps) if gap <= setting["last_gap"]), len(gaps) - 1)
    # Others use the machine, too: of several runs the fastest is the least disturbed.
    runs = [Trace(problem, method, tol=0.0, max_rounds=rounds, **options) for _ in range(setting["timings"])]
    return {
        "m": len(first.W[0]),
        "r": first.W[0].shape[1],
        "gaps": gaps[: rounds + 1],
        "asks": [traffic.asks for traffic in first.traffic[: rounds + 1]],
        "floats_down": [traffic.floats_down for traffic in first.traffic[: rounds + 1]],
        "floats_up": [traffic.floats_up for traffic in first.traffic[: rounds + 1]],
        "seconds": min((trace.seconds for trace in runs), key=lambda seconds: seconds[-1]),
    }


def waited(problem: WProblem, method: str, link: Link, setting: Setting) -> Record:
    """Return the seconds that some rounds take with real waiting, and what the model says of them."""
    options = {"tol": 0.0, "max_rounds": setting["waiting_rounds"], **setting["methods"][method]}
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for wait in [False, True] * setting["timings"]:
        # A thread for each node: they wait at the same time, as they would over links.
        with Linked(problem.engine(n_threads=len(problem.terms)), link, wait=wait) as engine:
            clock = time.perf_counter()
            step = problem.solve(method, engine=engine, **options)
            seconds[wait].append(time.perf_counter() - clock)
    return {
        "rounds": step.rounds,
        "computing_seconds": min(seconds[False]),
        "link_seconds": engine.seconds,
        "real_seconds": min(seconds[True]),
    }
