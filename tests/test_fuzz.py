"""Malformed files, models and checkpoints: a right result or one sentence, in little time and memory."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

CASES = {"data": 300, "saved": 150}  # always; with DBMD_FUZZ_SECONDS, further ones for so long
SEED = 0
START, SECONDS = 600.0, 60.0  # at most, until there are sound files, and for a case: for kernels may be compiled in it
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "DBMD_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


class Child:
    """A process that runs cases one after the other from some number on, in bounded memory."""

    def __init__(self, area, first, folder):
        command = [sys.executable, "-m", "fuzzing", area, str(SEED), str(first), str(10**9)]
        self.process = subprocess.Popen(
            command,
            env=os.environ | ENVIRONMENT | {"TMPDIR": str(folder)},  # it is killed, and leaves its files
            cwd=Path(__file__).parent,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.told = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            self.told.put(json.loads(line))
        self.told.put(None)

    def next(self, seconds):
        """Return what it says next: that a case begins or has ended; None if it has died, or says nothing."""
        try:
            return self.told.get(timeout=seconds)
        except queue.Empty:
            return None

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def faults(area, cases, seconds, folder):
    """Run so many cases, and further ones until the time is over; yield what is wrong with those that end badly."""
    end, number = time.monotonic() + seconds, 0
    while number < cases or time.monotonic() < end:
        child = Child(area, number, folder)
        try:
            while number < cases or time.monotonic() < end:
                if child.next(START) is None:
                    yield f"{number}: cannot be made"
                    return
                ended = child.next(SECONDS)
                if ended is None:
                    yield f"{number}: hangs, or kills its process"
                elif ended["fault"]:
                    yield f"{number}: {ended['what']}: {ended['fault']}"
                number += 1
                if ended is None:
                    break
        finally:
            child.kill()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is limited as Linux does it")
@pytest.mark.parametrize("area", CASES)
def test_every_case_ends_in_a_right_result_or_in_one_sentence(area, tmp_path):
    found = list(faults(area, CASES[area], float(os.environ.get("DBMD_FUZZ_SECONDS", 0)), tmp_path))
    assert not found, f"look at one with: cd tests && python -m fuzzing {area} {SEED} NUMBER\n" + "\n".join(found[:30])
