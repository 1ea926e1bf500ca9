"""Print the results as tables and write docs/performance.md, from the JSON files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

import plots
from results import holds, show

BUSY = 0.9  # below this share of a core, other processes disturbed the measurement


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
    for name in ("quantity", "measured", "target", "met"):
        grid.add_column(name, justify="left" if name == "quantity" else "right")
    for claim in claims:
        cells = claim_cells(claim)
        grid.add_row(*(escape(cell) for cell in cells[:3]), verdict(claim))
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
    """Write performance.md and its plots for those sections of `names` that have results."""
    files = [out / "performance" / f"{name}.json" for name in names]
    sections = [json.loads(file.read_text()) for file in files if file.exists()]
    if not sections:
        raise SystemExit(f"no results in {out / 'performance'}: run the benchmarks first")
    claims = [claim for found in sections for claim in found["claims"]]
    if claims:
        console.print("\n[bold]Targets[/bold]")
        print_claims(claims, console)
    parts = [opening(sections), claims_part(claims)]
    for found in sections:
        plot = plots.draw(found, out / "performance") if found["panels"] else None
        parts.append(section_part(found, plot))
    page = out / "performance.md"
    page.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    return page


def opening(sections: list[dict[str, Any]]) -> str:
    modes = {found["mode"] for found in sections}
    flag = "" if modes == {"full"} else f" --{sections[0]['mode']}"
    machines = {json.dumps(found["machine"], sort_keys=True): found["machine"] for found in sections}
    text = [
        "# Performance",
        f"This page is written by `python benchmarks/run.py{flag}`, which also prints these tables; "
        "`make bench` runs it. Nothing here is written by hand. Absolute times depend on the machine, so "
        "compare ratios within one run. Everything is measured in one process. The two sides of a comparison "
        "are timed alternately, and the shortest of several times counts, unless a section states otherwise. "
        "One thread is used, except where threads are measured. RBP is `RandomizedBudgetPerceptron`, and the "
        "Forgetron is the self-tuned variant. The [glossary](glossary.md) explains other terms.",
    ]
    if modes != {"full"}:
        text.append(
            "**These results are from a quick run**, with smaller sizes and fewer repetitions."
            if modes == {"quick"}
            else f"**Some of these results are not from a full run** ({', '.join(sorted(modes))})."
        )
    if busy := [found for found in sections if found["core"] < BUSY and found["section"] != "pipe"]:
        named = ", ".join(f"{found['section']} ({100 * found['core']:.0f} %)" for found in busy)
        text.append(
            "**Other processes ran at the same time.** In these sections the benchmark had less than "
            f"{100 * BUSY:.0f} % of a core, so times and ratios are less reliable: {named}."
        )
    if len(machines) > 1:
        text.append("**Not all sections were measured on the same machine with the same versions:**")
    text += [machine_part(facts) for facts in machines.values()]
    return "\n\n".join(text)


def machine_part(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    rows = [
        ("processor", facts["processor"]),
        ("available cores", facts["cores"]),
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
    met = len(claims) - len(missed)
    head = f"## Targets\n\n{met} of {len(claims)} targets are met."
    lines = ["| quantity | measured | target | met |", "| --- | ---: | ---: | --- |"]
    lines += [line(claim_cells(claim)) for claim in claims]
    return head + "\n\n" + "\n".join(lines)


def section_part(found: dict[str, Any], plot: Path | None) -> str:
    parts = [f"## {found['title']}", f"{found['description']} (`benchmarks/run.py {found['section']}`)"]
    for table in found["tables"]:
        heads = [heading(name) for name, _ in table["columns"]]
        lines = [line(heads), line(["---" if kind == "text" else "---:" for _, kind in table["columns"]])]
        for row in table["rows"]:
            cells = [show(v, kind) for v, (_, kind) in zip(row, table["columns"], strict=True)]
            lines.append(line(cells))
        parts += [table["caption"] + ".", "\n".join(lines)]
    if plot:
        parts.append(f"![{found['panels'][0]['title']}](performance/{plot.name})")
    return "\n\n".join(parts)


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def heading(name: str) -> str:
    """Return a column's name without the unit, which the caption names."""
    return name.removesuffix(" us")
