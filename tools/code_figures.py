"""Print figures about the structure of the source code, to compare before and after a change.

    python tools/code_figures.py [--list] [SOURCE]

SOURCE is the package folder, by default src/budgetron of this repository. ``--list`` also prints the places
that each figure counts. The figures:

- private modules at the top level of the package;
- files over 450 lines, functions over 60 lines, classes over 300 lines (Python and Cython);
- uses of `Any`;
- private names (one leading underscore) that are used outside the package that defines them;
- calls of `__setstate__` outside copying, pickling and persistence.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MOST_FILE_LINES, MOST_FUNCTION_LINES, MOST_CLASS_LINES = 450, 60, 300
DEFINITION = re.compile(r"^(\s*)(?:async |cdef |cpdef )?(def|class|cdef|cpdef)\b[^=]*?(\w+)\s*[(:]")


@dataclass
class Figures:
    """The places of each kind, as text; a figure is the number of its places."""

    private_modules: list[str] = field(default_factory=list)
    long_files: list[str] = field(default_factory=list)
    long_functions: list[str] = field(default_factory=list)
    long_classes: list[str] = field(default_factory=list)
    uses_of_any: list[str] = field(default_factory=list)
    private_names_across_packages: list[str] = field(default_factory=list)
    setstate_as_setter: list[str] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(__file__).resolve().parent.parent / "src" / "budgetron"
    parser.add_argument("source", nargs="?", type=Path, default=default)
    parser.add_argument("--list", action="store_true", help="also print the places")
    options = parser.parse_args()
    for name, places in vars(figures_of(options.source)).items():
        print(f"{name.replace('_', ' '):32s} {len(places)}")
        if options.list:
            for place in places:
                print(f"    {place}")


def figures_of(source: Path) -> Figures:
    """Return the figures of a package folder."""
    found = Figures()
    files = sorted(path for path in source.rglob("*") if path.suffix in (".py", ".pyx", ".pxd", ".pyi"))
    found.private_modules = [path.name for path in source.glob("_*.py") if not path.name.startswith("__")]
    for path in files:
        where, text = path.relative_to(source).as_posix(), path.read_text(encoding="utf-8")
        if path.suffix in (".py", ".pyx"):
            if len(text.splitlines()) > MOST_FILE_LINES:
                found.long_files.append(f"{where} ({len(text.splitlines())})")
            _long_definitions(where, text, found)
            found.setstate_as_setter += [
                f"{where}:{line}" for line in _setters(text) if not _may_set_state(where)
            ]
        if path.suffix in (".py", ".pyi"):
            found.uses_of_any += [f"{where}:{line}" for line in _names(text, "Any")]
    found.private_names_across_packages = _private_uses(source, [p for p in files if p.suffix == ".py"])
    return found


def _long_definitions(where: str, text: str, found: Figures) -> None:
    for kind, name, start, end in _definitions(text, cython=where.endswith(".pyx")):
        lines = end - start + 1
        if kind == "class" and lines > MOST_CLASS_LINES:
            found.long_classes.append(f"{where}:{start} {name} ({lines})")
        elif kind == "def" and lines > MOST_FUNCTION_LINES:
            found.long_functions.append(f"{where}:{start} {name} ({lines})")


def _definitions(text: str, cython: bool) -> Iterator[tuple[str, str, int, int]]:
    """Yield kind, name, first and last line of each function and class, docstrings included."""
    if not cython:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                kind = "class" if isinstance(node, ast.ClassDef) else "def"
                yield kind, node.name, node.lineno, node.end_lineno or node.lineno
        return
    # Python's parser cannot read Cython: a definition ends before the next line that is indented no deeper.
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = DEFINITION.match(line)
        if not found or not line.rstrip().endswith((":", ",", "(")):
            continue
        indent, kind = len(found[1]), "class" if "class " in line else "def"
        last = number
        for later in range(number + 1, len(lines)):
            body = lines[later]
            if (
                body.strip()
                and len(body) - len(body.lstrip()) <= indent
                and not body.lstrip().startswith(")")
            ):
                break
            if body.strip():
                last = later
        yield kind, found[3], number + 1, last + 1


def _names(text: str, name: str) -> list[int]:
    """Return the line of every use of a name as a token; lines that import it do not count."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [
        token.start[0]
        for token in tokens
        if token.type == tokenize.NAME and token.string == name and "import" not in token.line
    ]


def _setters(text: str) -> list[int]:
    """Return the lines that call `__setstate__`, except in `__setstate__` and `rebuild`."""
    lines, inside, found = text.splitlines(), "", []
    for number, line in enumerate(lines, 1):
        if definition := DEFINITION.match(line):
            inside = definition[3]
        called = ".__setstate__(" in line and "super()" not in line
        if called and inside not in ("__setstate__", "rebuild"):
            found.append(number)
    return found


def _may_set_state(where: str) -> bool:
    """Return whether a file builds objects from stored state, where `__setstate__` is allowed."""
    return Path(where).name in ("compiled_state.py", "part_state.py", "_file_states.py")


def _private_uses(source: Path, files: list[Path]) -> list[str]:
    """Return the uses of private attributes and imports that another package defines."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    defined: dict[str, set[str]] = {}
    for path, tree in trees.items():
        defined.setdefault(_package(source, path), set()).update(_private_definitions(tree))
    everywhere = set().union(*defined.values())
    found = []
    for path, tree in trees.items():
        own = defined[_package(source, path)]
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own_object(node.value):
                if node.attr in everywhere and node.attr not in own:
                    found.append(f"{path.relative_to(source).as_posix()}:{node.lineno} .{node.attr}")
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("budgetron"):
                parts = (node.module or "").split(".")[1:]
                if parts and parts[0] != _package(source, path):
                    private = [alias.name for alias in node.names if _is_private(alias.name)]
                    private += [part for part in parts[1:] if _is_private(part)]
                    found += [
                        f"{path.relative_to(source).as_posix()}:{node.lineno} import {name}"
                        for name in private
                    ]
    return found


def _package(source: Path, path: Path) -> str:
    return path.relative_to(source).parts[0].removesuffix(".py")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_own_object(node: ast.expr) -> bool:
    """Return whether an attribute is read from `self`, `cls` or `super()`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _private_definitions(tree: ast.Module) -> set[str]:
    """Return the private names that the functions, classes and assignments of a module define."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        names.add(part.id)
                    elif isinstance(part, ast.Attribute) and _is_own_object(part.value):
                        names.add(part.attr)
    return {name for name in names if _is_private(name)}


if __name__ == "__main__":
    main()
