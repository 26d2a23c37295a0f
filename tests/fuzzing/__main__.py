"""``python -m fuzzing AREA SEED FIRST [LAST]``: run cases one after the other, and say a line of JSON about each."""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fuzzing.cases import Bench, ending

MEMORY = 1 << 30  # bytes that a case may take beside what is there before the first


def address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main(area: str, seed: str, first: str, last: str | None = None) -> None:
    told = sys.stdout
    with tempfile.TemporaryDirectory() as folder:
        (base := Path(folder, "sound")).mkdir()
        bench = Bench(base)
        make = {"data": bench.data_case, "saved": bench.saved_case}[area]
        limit = address_space() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for number in range(int(first), int(last or int(first) + 1)):
            print(json.dumps({"begins": number}), file=told, flush=True)
            (own := Path(folder, "case")).mkdir()
            case = make(np.random.default_rng([int(seed), number]), own)
            clock = time.perf_counter()
            said, fault = ending(case)
            seconds = round(time.perf_counter() - clock, 3)
            record = {"ended": number, "what": case.what, "seconds": seconds, "said": said, "fault": fault}
            if last is None:
                kept = Path(tempfile.mkdtemp(prefix="fuzz-"))
                shutil.copytree(own, kept, dirs_exist_ok=True)
                record |= {"command": [str(a).replace(str(own), str(kept)) for a in case.arguments]}
            print(json.dumps(record), file=told, flush=True)
            shutil.rmtree(own)


main(*sys.argv[1:])
