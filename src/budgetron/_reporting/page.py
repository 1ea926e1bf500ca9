"""The building blocks of a page: escaped text, formatted numbers, tables, the style sheet."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

__all__ = ["document", "escape", "percent", "rounds_text", "scroll", "table"]

# Control characters, and those that change the direction of writing.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

STYLE = """
:root {
  --ink: #1b1f24; --soft: #59636e; --line: #d9dee4; --paper: #fff; --wash: #f4f6f8;
  --good: #00704f; --bad: #b3261e; --accent: #0072b2; --right: 0,114,178; --wrong: 213,94,0;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    color-scheme: dark;
    --ink: #e7eaee; --soft: #a3adb8; --line: #363d46; --paper: #15181c; --wash: #1f242a;
    --good: #4fc493; --bad: #ff8f85; --accent: #62b8ec;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.75rem 1rem 3rem; max-width: 64rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: break-word;
}
h1, h2, h3, h4 { line-height: 1.25; text-wrap: balance; }
h1 { font-size: 1.8rem; margin: 0 0 1rem; }
h2 { font-size: 1.4rem; margin: 3rem 0 .75rem; padding-top: 1rem; border-top: 2px solid var(--ink); }
h3 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
h4 { font-size: 1rem; margin: 0; }
p { margin: .5rem 0; }
a { color: var(--accent); }
code { font: .875em ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.soft, figcaption span, footer { color: var(--soft); font-size: .9rem; }
.answer {
  background: var(--wash); border-left: 4px solid var(--accent); border-radius: 0 6px 6px 0;
  padding: .8rem 1rem; margin: 1rem 0;
}
.answer p { margin: 0; }
.answer p:first-child { font-size: 1.15rem; line-height: 1.4; }
.answer p + p { margin-top: .35rem; color: var(--soft); font-size: .95rem; }
.scroll {
  overflow-x: auto; margin: .5rem 0 .75rem; background:  /* a shadow at the edge where content is hidden */
    linear-gradient(to left, var(--paper) 40%, transparent) right / 2.5rem 100% no-repeat local,
    linear-gradient(to left, var(--line), transparent) right / 1rem 100% no-repeat scroll;
}
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .95rem; }
th, td { padding: .4rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { vertical-align: bottom; font-weight: 600; font-size: .85rem; color: var(--soft); }
thead th { white-space: normal; }
tbody th { font-weight: 400; }
.learners { width: 100%; border-collapse: separate; border-spacing: 0; }  /* collapsed borders would not move
with sticky cells */ .learners th:first-child, .overview th:first-child, .overview td.text, .overview th.text
{ text-align: left; } .learners th:first-child {
  position: sticky; left: 0; background: var(--paper); white-space: normal;
}
.learners .name { max-width: min(42vw, 19rem); }
.learners td.best { font-weight: 700; }
.learners td.best::before { content: "★ "; color: var(--accent); font-size: .75em; vertical-align: .1em; }
.overview th, .overview td { white-space: normal; }
.name { max-width: 100%; display: inline-flex; gap: .5rem; align-items: baseline; text-align: left; }
.name > span { min-width: 0; }
.name svg { flex: none; width: 26px; height: 10px; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.25rem; padding: 0; list-style: none; }
.legend li { max-width: 100%; font-size: .9rem; }
.charts, .certificates {
  display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr));
}
figure { margin: 0; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: .25rem; }
figcaption span { display: block; font-weight: 400; }
figure svg { display: block; width: 100%; height: auto; stroke-linejoin: round; }
figure svg text { font-family: inherit !important; fill: currentColor; }
.confusion th, .confusion td { border: 2px solid var(--paper); min-width: 2.6rem; }
.confusion th { color: var(--soft); font-size: .85rem; font-weight: 600; white-space: normal; }
.confusion th:first-child { position: sticky; left: 0; background: var(--paper); }
.confusion th span { display: inline-block; max-width: min(28vw, 10rem); }
.confusion tbody td { background: rgba(var(--hue), var(--share)); }
.confusion .sum { color: var(--soft); background: none; font-size: .85rem; }
.right { --hue: var(--right); }
.wrong { --hue: var(--wrong); }
.features { width: 100%; max-width: 44rem; table-layout: fixed; }
.features th:first-child { width: 42%; text-align: left; white-space: normal; overflow-wrap: anywhere; }
.features th:last-child { width: 7.5rem; }
.features .bar { margin: 0; }
details { border: 1px solid var(--line); border-radius: 6px; padding: 0 .9rem; margin: .4rem 0; }
summary { cursor: pointer; padding: .4rem 0; }
.pairs { padding-left: 1.5rem; columns: 18rem; }
.pairs li { break-inside: avoid; }
.certificate { border: 1px solid var(--line); border-radius: 6px; padding: .9rem 1rem; min-width: 0; }
.certificate dl {
  display: grid; grid-template-columns: auto 1fr; gap: .15rem .8rem; font-size: .9rem; margin: 0;
}
.certificate dd { min-width: 0; }
.certificate dt { color: var(--soft); }
.certificate dd, .certificate ul { margin: 0; padding: 0; list-style: none; }
.bar {
  position: relative; height: .8rem; border-radius: .4rem; margin: .5rem 0; overflow: hidden;
  background: var(--line);
}
.bar i { position: absolute; inset: 0 auto 0 0; background: var(--accent); }
.bar b { position: absolute; top: 0; bottom: 0; width: 3px; margin-left: -3px; background: var(--ink); }
.nothing .bar i { background: var(--soft); }
.good { color: var(--good); }
.bad { color: var(--bad); }
.broken .bar i { background: var(--bad); }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.certificates { align-items: start; }
@media (max-width: 36rem) { th, td { padding: .35rem .45rem; } }
@media print {
  @page { margin: 15mm; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  h2 + *, h3 + * { break-before: avoid; }
  h2, h3, h4, summary, .legend, .soft { break-after: avoid; }
  figure, table, .certificate, .answer, details { break-inside: avoid; }
  .charts { grid-template-columns: 1fr 1fr; gap: 5mm; }
  .certificates { grid-template-columns: 1fr; }
  .scroll { overflow: visible; }
  table { font-size: 8.5pt; }
  th, td { padding: .25rem .4rem; }
  details::details-content { content-visibility: visible; block-size: auto; display: block; }
  details:not([open]) > :not(summary) { display: block; }
}
"""


def escape(text: object) -> str:
    """Escape text for any place in a page, also inside quotes."""
    plain = str(text).encode("utf-8", "replace").decode()  # a lone surrogate cannot be encoded
    return html.escape(CONTROL.sub("\ufffd", plain))


def percent(share: float) -> str:
    """Format a fraction as a percentage, without the sign.

    Examples
    --------
    >>> percent(0.12345)
    '12.35'
    """
    return f"{100 * share:.2f}"


def rounds_text(count: int) -> str:
    """Format a number of rounds.

    Examples
    --------
    >>> rounds_text(1), rounds_text(20_000)
    ('1 round', '20,000 rounds')
    """
    return f"{count:,} round{'' if count == 1 else 's'}"


def table(name: str, heads: Sequence[str], rows: Sequence[str]) -> str:
    """Return a table with a class of the style sheet; heads and rows are HTML."""
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    head = "".join(heads)
    return f'<table class="{name}">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'


def scroll(content: str, label: str) -> str:
    """Put content that may be wider than the page into a box that scrolls by touch and by keyboard."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{content}</div>'


def document(title: str, body: str) -> str:
    """Return the whole page; `body` is HTML."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="Budgetron">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
{body}
</body>
</html>
"""
