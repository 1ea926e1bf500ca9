"""The consoles of the command line. They print text as it is: data can neither style nor control a terminal.

Every text that a command prints may contain data: a label, a column name, a path. So a console never
interprets text as markup, and shows control characters as escapes. No other module creates a console.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

if TYPE_CHECKING:
    from rich.status import Status

__all__ = ["SafeConsole", "visible"]

LONGEST = 10_000  # characters
NARROWEST = 20  # columns


class SafeConsole(Console):
    """A console that prints each `str` literally and in one line.

    Styled text, and text of several lines, must be a `Text`. Its control characters are escaped, too, except
    for line breaks. So a `Text` is for words of the program, not for data.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=True, markup=False, emoji=False, highlight=False)

    @property
    def size(self) -> ConsoleDimensions:
        """Width and height; 80 columns if the terminal does not know its width, or says it is nearly 0."""
        width, height = super().size
        return ConsoleDimensions(width if width >= NARROWEST else 80, height)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text to print; rich calls this for every `str`, also in tables."""
        return super().render_str(visible(text, self.encoding), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return what is printed, without control characters other than those of rich itself."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield segment._replace(text=_visible_lines(segment.text, self.encoding))

    def status(self, status: RenderableType, **options: Any) -> Status:
        """Return a line with a spinner."""
        text = self.render_str(status) if isinstance(status, str) else status
        return super().status(text, **options)

    def print_lines(self, text: str) -> None:
        """Print text of several lines."""
        for line in text.split("\n"):
            self.print(line)


def visible(text: str, encoding: str = "utf-8") -> str:
    r"""Return text in which every character can be seen, as one line of limited length.

    Control characters, line breaks, characters that change the direction of writing, and characters that the
    encoding does not have are written as in a string of Python.

    Examples
    --------
    >>> print(visible("red\x1b[31m\n"))
    red\x1b[31m\n
    """
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}...{text[-LONGEST // 2 :]}"
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _visible_lines(text: str, encoding: str) -> str:
    return "\n".join(visible(line, encoding) for line in text.split("\n"))
