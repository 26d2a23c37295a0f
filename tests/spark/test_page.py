"""The page about it, docs/spark-ml.md: its code runs, and its table is complete."""

import html
import re
from dataclasses import fields
from pathlib import Path

import pytest

from dbmd.config import Config
from spark.shared import MARKS

pytestmark = MARKS
ml = pytest.importorskip("dbmd.spark")
from dbmd.spark.params import spark_name  # noqa: E402

PAGE = (Path(__file__).parents[2] / "docs" / "spark-ml.md").read_text("utf-8")


def test_the_code_on_the_page_runs(spark, tmp_path, capsys):
    names = {"spark": spark}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        # The JVM has a working directory of its own; and that it converges is shown elsewhere.
        block = block.replace("maxIter=500", "maxIter=1")
        exec(re.sub(r'"(flowers|digits|local)"', lambda name: repr(str(tmp_path / name[1])), block), names)
    assert capsys.readouterr().out.splitlines()[0] == "{'clean': 2.8, 'noisy': 8.3}"
    assert names["chosen"].bestModel.getK() in (5, 10)


def test_the_table_on_the_page_has_every_param_with_its_default():
    table = re.findall(r"^\| `(\w+)` \|(.*?)\|(.*?)\|", PAGE.split("## Params")[1], re.MULTILINE)
    rows = {name: (there.strip(), default.strip()) for name, there, default in table}
    estimator = ml.DBMD()
    assert set(rows) == {param.name for param in estimator.params}
    faces = {spark_name(field.name): f"`{field.name}`" for field in fields(Config)}
    for name, (there, default) in rows.items():
        assert there == faces.get(name, "")
        value = estimator.getOrDefault(name) if estimator.isDefined(name) else "unset"
        written = html.unescape(re.sub(r"`|\"|</?code>", "", default))
        assert written == ("none" if value is None else str(value))
