"""The code of docs/gpu.md runs, but for that which needs several machines."""

import re
from pathlib import Path

import numpy as np

PAGE = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text("utf-8")


def test_the_code_of_the_page_runs(device):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    assert "dask_cuda" in blocks.pop()
    names = {}
    for block in blocks:
        exec(compile(block, "gpu.md", "exec"), names)
    assert type(names["H"]) is type(names["labels"]) is device.ndarray
    assert type(names["model"].labels_) is np.ndarray
