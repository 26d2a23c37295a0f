"""What engines are asked in tests: functions that workers in other processes can import."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_info

from dbmd.model.node import continues


def name_of(node):
    return node, (node.name,)


def process_of(node):
    return node, (os.getpid(),)


def sleep(node, seconds):
    time.sleep(seconds)
    return node, seconds


@continues
def count(node):
    asked = (node.scratch or 0) + 1
    return replace(node, scratch=asked), asked


@continues
def count_and_note(node, folder):
    """Count like ``count``; every run, also one that is repeated, leaves a file."""
    tempfile.mkstemp(dir=folder)
    return count(node)


def weighted(node, array, factor, mapping):
    return node, factor * (node.block + 1.0) * array + mapping["shift"]


def change_broadcast_copy(node, array):
    array = array + 1.0
    return node, array


def fail_at_two(node, asked):
    if node.block == 2.0:
        raise ZeroDivisionError("division by nothing")
    return replace(node, scratch=asked), (node.name,)


def fail_everywhere(node):
    raise KeyError(node.name)


class Stubborn(Exception):
    """An error that can be pickled, but not read again."""

    def __init__(self, what, why):
        super().__init__(f"{what}, because {why}")


def fail_stubbornly(node):
    raise Stubborn("no", "I say so")


def chaotic_sum(node):
    """Return numbers of very different sizes, whose sum depends on the order of adding."""
    return node, np.random.default_rng(int(node.block)).normal(size=50) * 10.0 ** (3 * node.block)


def blas_threads():
    """Return the number of threads of every BLAS library that is loaded, by its file."""
    return {lib["filepath"]: lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def blas_threads_here(node):
    return node, (blas_threads(),)
