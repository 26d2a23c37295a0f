"""What is measured, a module each.

A part offers ``tasks(plan)``, a list of tasks in the order in which they are run, with what is to be compared side by
side next to each other, and ``run(task)``, which returns a record. Each task runs in a fresh process.
"""

from __future__ import annotations

from benchmarks.parts import gpu, h_step, limit, memory, one_pass, peers, scaling, start_up

PARTS = {
    "peers": peers,
    "limit": limit,
    "passes": one_pass,
    "scaling": scaling,
    "h_step": h_step,
    "start_up": start_up,
    "memory": memory,
    "gpu": gpu,
}
