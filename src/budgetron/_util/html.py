"""Small HTML tables, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_table"]


def html_table(
    caption: str, rows: Iterable[Sequence[object]], head: Sequence[str] = (), *, note: str = ""
) -> str:
    """Return a table; the first cell of each row is a heading. All text is escaped."""
    lines = [f"<table>\n<caption>{escape(caption)}</caption>"]
    if head:
        lines.append(f"<thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr></thead>")
    lines.append("<tbody>")
    for first, *others in rows:
        cells = "".join(f"<td>{escape(str(cell))}</td>" for cell in others)
        lines.append(f'<tr><th scope="row">{escape(str(first))}</th>{cells}</tr>')
    lines.append("</tbody>\n</table>")
    if note:
        lines.append(f"<p>{escape(note)}</p>")
    return "\n".join(lines)
