"""The examples of the guide print what the guide says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parent.parent.parent / "docs" / "spark.md"
pytest.importorskip("budgetron.spark", reason="PySpark is not installed")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize(("code", "output"), [*zip(blocks("python"), blocks("text"), strict=True)])
def test_examples(spark, code, output):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(GUIDE), "exec"), {})
    assert printed.getvalue() == output
