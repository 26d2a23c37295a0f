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

CASES = {"data": 250, "saved": 130}  # always; with DBMD_FUZZ_SECONDS, further ones for so long
SEED = 0
SECONDS = 60.0  # for one case: none takes one, but for a kernel that is compiled, or with a machine that is busy
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "DBMD_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


class Child:
    """A process that runs cases one after the other from some number on, in bounded memory."""

    def __init__(self, area, first):
        command = [sys.executable, "-m", "fuzzing", area, str(SEED), str(first), str(10**9)]
        self.process = subprocess.Popen(
            command, env=os.environ | ENVIRONMENT, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True
        )
        self.told = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            self.told.put(json.loads(line))
        self.told.put(None)

    def next(self):
        """Return what it says next: that a case begins or has ended; None if it has died, or says nothing."""
        try:
            return self.told.get(timeout=SECONDS)
        except queue.Empty:
            return None

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def faults(area, cases, seconds):
    """Run so many cases, and further ones until the time is over; yield what is wrong with those that end badly."""
    end, number = time.monotonic() + seconds, 0
    while number < cases or time.monotonic() < end:
        child = Child(area, number)
        try:
            while number < cases or time.monotonic() < end:
                begins, ended = child.next(), child.next()
                if ended is None:
                    yield f"{number}: {'no case was made' if begins is None else f'hangs, or died ({begins})'}"
                    number += 1
                    break
                if ended["fault"]:
                    yield f"{number}: {ended['what']}: {ended['fault']}"
                number += 1
        finally:
            child.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is limited as Linux does it")
@pytest.mark.parametrize("area", CASES)
def test_every_case_ends_in_a_right_result_or_in_one_sentence(area):
    found = list(faults(area, CASES[area], float(os.environ.get("DBMD_FUZZ_SECONDS", 0))))
    assert not found, f"look at one with: cd tests && python -m fuzzing {area} {SEED} NUMBER\n" + "\n".join(found[:30])
