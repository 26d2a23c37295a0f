"""Two parts, each with methods that get the same data: noisy images, and mixtures from real batches."""

from __future__ import annotations

from dbmd.experiments.experiment import Record, Setting, Task
from dbmd.experiments.noisy_mnist import images, mixtures

PARTS = {"images": images, "mixtures": mixtures}


def tasks(setting: Setting) -> list[Task]:
    """Return the tasks of both parts."""
    return [{"part": part} | task for part, module in PARTS.items() for task in module.tasks(setting[part])]


def run(task: Task, setting: Setting) -> list[Record]:
    """Return a record for each method."""
    return PARTS[task["part"]].run(task, setting[task["part"]])
