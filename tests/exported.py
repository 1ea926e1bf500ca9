"""Run exported models: ONNX files by onnxruntime, and C headers by a compiler with all warnings as errors."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from budgetron import export

CC = shutil.which("cc") or shutil.which("gcc")
STRICT = ["-Wall", "-Wextra", "-Werror", "-std=c99", "-pedantic"]
needs_cc = pytest.mark.skipif(CC is None, reason="needs a C compiler")


FORMATS = ["onnx", pytest.param("c", marks=needs_cc)]


def runner(form, folder):
    """Return the function that runs a model in this format: it returns scores, labels and probabilities."""
    return in_onnx if form == "onnx" else lambda model, X: in_c(model, X, folder)


def in_c(model, X, folder, name="model"):
    """Return scores, labels and probabilities of the compiled header."""
    folder = Path(tempfile.mkdtemp(dir=folder))  # a library is loaded once per path
    export.c(model, folder / "exported.h", name)
    probable, text = hasattr(model, "predict_proba"), isinstance(model.classes_[0], str)
    source = f"""
        #include "exported.h"
        enum {{ D = {name.upper()}_FEATURES, K = {name.upper()}_CLASSES, O = {name.upper()}_OUTPUTS }};
        int sizes(int which) {{ return which == 0 ? D : which == 1 ? K : O; }}
        void ask(const float *X, int n, float *scores, int *codes, float *p)
        {{
            for (int i = 0; i < n; i++) {{
                {name}_decisions(X + i * D, scores + i * O);
                codes[i] = {name}_predict(X + i * D);
                {f"{name}_probabilities(X + i * D, p + i * K);" if probable else "(void)p;"}
            }}
        }}
        {"const char *" if text else "long long "}label(int c) {{ return {name}_label(c); }}
        """
    library = compiled(source, folder, "-shared", "-fPIC", "-O2", output="exported.so")
    loaded = ctypes.CDLL(str(library))
    d, classes, outputs = (loaded.sizes(i) for i in range(3))
    assert (d, classes) == (X.shape[1], len(model.classes_))
    X = np.ascontiguousarray(X, np.float32)
    scores, codes = np.zeros((len(X), outputs), np.float32), np.zeros(len(X), np.int32)
    p = np.zeros((len(X), classes), np.float32)
    loaded.ask(
        *(
            ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else a
            for a in (X, len(X), scores, codes, p)
        )
    )
    loaded.label.restype = ctypes.c_char_p if text else ctypes.c_longlong
    labels = [loaded.label(i) for i in range(classes)]
    labels = [label.decode() for label in labels] if text else labels
    return scores, np.array(labels)[codes], p if probable else None


def compiled(source, folder, *options, output):
    """Compile a C program without warnings, and return the path of the output."""
    file = folder / "program.c"
    file.write_text(source)
    run = subprocess.run(
        [CC, *STRICT, *options, file, "-o", folder / output, "-lm"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return folder / output


def in_onnx(model, X):
    """Return scores, labels and probabilities of onnxruntime."""
    content = export.onnx(model)
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    assert [i.name for i in session.get_inputs()] == ["X"]
    answers = dict(zip(names, session.run(None, {"X": X}), strict=True))
    assert set(answers) - {"probabilities"} == {"label", "scores"}
    assert answers["label"].dtype == (object if isinstance(model.classes_[0], str) else np.int64)
    return answers["scores"], answers["label"], answers.get("probabilities")
