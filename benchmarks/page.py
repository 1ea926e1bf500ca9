"""Tables on the terminal, and the page about the results: from the JSON files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

import plots
from results import holds, show

BUSY = 0.9  # of a core: with less than this, other processes were in the way


def print_section(found: dict[str, Any], console: Console) -> None:
    console.print(f"\n[bold]{escape(found['title'])}[/bold] ({found['section']}, {found['seconds']:.0f} s)")
    for table in found["tables"]:
        grid = Grid(title=escape(table["caption"]), title_justify="left", title_style="", box=None)
        for name, kind in table["columns"]:
            grid.add_column(escape(name), justify="left" if kind == "text" else "right")
        for row in table["rows"]:
            grid.add_row(*(escape(show(v, kind)) for v, (_, kind) in zip(row, table["columns"], strict=True)))
        console.print(grid)
    print_claims(found["claims"], console)


def print_claims(claims: list[dict[str, Any]], console: Console) -> None:
    if not claims:
        return
    grid = Grid(box=None)
    for name in ("claim", "measured", "target", "holds"):
        grid.add_column(name, justify="left" if name == "claim" else "right")
    for claim in claims:
        words = claim_cells(claim)
        grid.add_row(*(escape(word) for word in words[:3]), verdict(claim))
    console.print(grid)


def verdict(claim: dict[str, Any]) -> str:
    return {True: "yes", False: "[bold red]NO[/bold red]", None: "[bold red]not measured[/bold red]"}[
        holds(claim)
    ]


def claim_cells(claim: dict[str, Any]) -> list[str]:
    bound = "at least" if claim["at_least"] else "at most"
    note = f" ({claim['note']})" if claim["note"] else ""
    value, target = show(claim["value"], claim["kind"]), show(claim["target"], claim["kind"])
    answer = {True: "yes", False: "**no**", None: "**not measured**"}[holds(claim)]
    return [claim["claim"] + note, value, f"{bound} {target}", answer]


# ---------------------------------------------------------------------- the page


def write(out: Path, names: list[str], console: Console) -> Path:
    """Write performance.md and its plots for the sections that have results, in the order of `names`."""
    files = [out / "performance" / f"{name}.json" for name in names]
    sections = [json.loads(file.read_text()) for file in files if file.exists()]
    if not sections:
        raise SystemExit(f"no results in {out / 'performance'}: run the benchmarks first")
    claims = [claim for found in sections for claim in found["claims"]]
    if claims:
        console.print("\n[bold]Claims[/bold]")
        print_claims(claims, console)
    parts = [opening(sections), claims_part(claims)]
    for found in sections:
        picture = plots.draw(found, out / "performance") if found["panels"] else None
        parts.append(section_part(found, picture))
    page = out / "performance.md"
    page.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    return page


def opening(sections: list[dict[str, Any]]) -> str:
    modes = {found["mode"] for found in sections}
    flag = "" if modes == {"full"} else f" --{sections[0]['mode']}"
    machines = {json.dumps(found["machine"], sort_keys=True): found["machine"] for found in sections}
    text = [
        "# How fast",
        f"Made by `python benchmarks/run.py{flag}`, which prints these tables, too; `make bench` does all of "
        "it. Nothing here is written by hand. What to go by are ratios within one run: all is measured in "
        "one process, what a claim sets against each other is timed in turn, and the shortest of several "
        "times counts, unless a section says otherwise. One thread, unless threads are measured. RBP is "
        "`RandomizedBudgetPerceptron`, and the Forgetron is the self-tuned one.",
    ]
    if modes != {"full"}:
        text.append(
            "**These are results of a quick run**: smaller sizes and fewer repeats than in a full one."
            if modes == {"quick"}
            else f"**Not all of these are results of a full run** ({', '.join(sorted(modes))})."
        )
    if busy := [found for found in sections if found["core"] < BUSY and found["section"] != "pipe"]:
        named = ", ".join(f"{found['section']} ({100 * found['core']:.0f} %)" for found in busy)
        text.append(
            "**The machine had other work at the same time.** In these sections the process had less than "
            f"{100 * BUSY:.0f} % of a core, and figures and ratios are less certain: {named}."
        )
    if len(machines) > 1:
        text.append("**Not all sections were measured on the same machine with the same versions:**")
    text += [machine_part(facts) for facts in machines.values()]
    return "\n\n".join(text)


def machine_part(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    rows = [
        ("processor", facts["processor"]),
        ("cores at hand", facts["cores"]),
        ("caches", facts["caches"]),
        ("memory", facts["memory"]),
        ("system", f"{facts['system']}, Python {facts['python']}"),
        ("versions", versions),
        ("BLAS", facts["blas"]),
    ]
    return "\n".join(["| machine | |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in rows if b)])


def claims_part(claims: list[dict[str, Any]]) -> str:
    if not claims:
        return ""
    missed = [claim for claim in claims if not holds(claim)]
    kept = len(claims) - len(missed)
    head = f"## What was to be shown\n\n{kept} of {len(claims)} hold."
    lines = ["| claim | measured | target | holds |", "| --- | ---: | ---: | --- |"]
    lines += [line(claim_cells(claim)) for claim in claims]
    return head + "\n\n" + "\n".join(lines)


def section_part(found: dict[str, Any], picture: Path | None) -> str:
    parts = [f"## {found['title']}", f"{found['says']} (`benchmarks/run.py {found['section']}`)"]
    for table in found["tables"]:
        heads = [heading(name) for name, _ in table["columns"]]
        lines = [line(heads), line(["---" if kind == "text" else "---:" for _, kind in table["columns"]])]
        for row in table["rows"]:
            cells = [show(v, kind) for v, (_, kind) in zip(row, table["columns"], strict=True)]
            lines.append(line(cells))
        parts += [table["caption"] + ".", "\n".join(lines)]
    if picture:
        parts.append(f"![{found['panels'][0]['title']}](performance/{picture.name})")
    return "\n\n".join(parts)


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def heading(name: str) -> str:
    """A table whose caption names the unit needs none in its columns' names."""
    return name.removesuffix(" us")
