"""One task in a process of its own: ``python -m benchmarks.worker PART TASK`` prints its record as a line of JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dbmd.storage import plain


def main() -> None:
    """Run the task of the command line. The part "prepare" writes the files of a data set."""
    part, task = sys.argv[1], json.loads(sys.argv[2])
    if part == "prepare":
        from benchmarks.sets import prepare

        prepare(task["data"], Path(task["cache"]), quick=task["quick"])
        record = {}
    else:
        from benchmarks.parts import PARTS

        record = PARTS[part].run(task)
    print(json.dumps(plain(record)), flush=True)


if __name__ == "__main__":
    main()
