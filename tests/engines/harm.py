"""Doing harm to the processes that nodes live in, at a known question of a fit."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .asked import process_of


def children(pid):
    """Return the processes that a process began, and those that they began."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found - {pid}
        found |= more


def command(pid):
    """Return the command line of a process, nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def kill(pids):
    """Kill processes, all of them begun by this one, and wait until they are gone."""
    pids = set(pids)
    assert pids
    assert pids <= children(os.getpid())
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while any(command(pid) for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.01)


@dataclass(frozen=True)
class DieOnce:
    """A node function that kills the process it runs in, the first time that it has done its work at a node.

    Attributes
    ----------
    func : callable
        The node function.
    node : str
        The name of the node.
    sign : str
        Path of a file that says that it was done.
    """

    func: Any
    node: str
    sign: str

    def __call__(self, node, *broadcast):
        reply = self.func(node, *broadcast)
        if node.name == self.node and not Path(self.sign).exists():
            Path(self.sign).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return reply


class Disturbed:
    """An engine that does harm before, or while, a question of a number is answered.

    Parameters
    ----------
    engine : Engine
        Answers.
    at : int
        Number of the question, from 0.
    harm : callable
        Told the engine and the function that is to be asked, it returns the function to ask instead.
    """

    def __init__(self, engine, at, harm):
        self.engine, self.at, self.harm, self.n_nodes = engine, at, harm, engine.n_nodes
        self.asked = []

    def ask(self, function, *broadcast):
        self.asked.append(function)
        if len(self.asked) - 1 == self.at:
            function = self.harm(self.engine, function)
        return self.engine.ask(function, *broadcast)


def processes(engine):
    """Return the processes that the nodes are in, one for each."""
    return engine.ask(process_of)


def interrupt_and_stay(node, driver):
    """Interrupt the driver; go on as soon as the folders of this executor are removed."""
    os.kill(driver, signal.SIGINT)
    end = time.monotonic() + 20
    while folders() and time.monotonic() < end:
        time.sleep(0.01)
    return replace(node, scratch="late"), 0


def folders():
    """Return what dbmd has in the directories of this executor."""
    return [str(path) for folder in os.environ["SPARK_LOCAL_DIRS"].split(",") for path in Path(folder).glob("dbmd-*")]
