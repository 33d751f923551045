"""What people paste, made plain: no colours, markup, prompts or odd blanks."""

from __future__ import annotations

import html
import re

from slurm_topo.errors import MachineError

LARGEST_CHARS = 4_000_000
# With the escape character, and what is left of a sequence when it was lost on the way.
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\[[0-9;]{1,6}m")
_TAG = re.compile(
    r"</?(?:table|thead|tbody|tr|td|th|pre|code|br|p|div|span|b|i|strong|em)(?:\s[^<>]*)?/?>", re.IGNORECASE
)
# What srun --label writes in front of every line.
_LABEL = re.compile(r"^ *\d+: ?")
_MARKS = re.compile(r"^\s*(?:```\w*|~~~\w*|>+ ?)")


def clean(text: str) -> str:
    """Plain text with tabs expanded, so that columns line up as they did on the screen.

    Raises
    ------
    MachineError
        The text is larger than any such output.

    Examples
    --------
    >>> clean("\\x1b[4mGPU0\\tGPU1\\x1b[0m")
    'GPU0    GPU1'
    """
    if len(text) > LARGEST_CHARS:
        raise MachineError(
            f"the text has {len(text)} characters, more than any topology; paste the output alone"
        )
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\ufeff", "")
    text = re.sub(r"[\u00a0\u2000-\u200a\u202f\u3000]", " ", _ANSI.sub("", text))
    text = re.sub(r"[\u200b-\u200f\x00]", "", text)
    if _TAG.search(text):
        text = html.unescape(_TAG.sub(" ", text))
    text = _unlabelled(text)
    lines = [_MARKS.sub("", line).replace("|", " ").expandtabs(8).rstrip() for line in text.split("\n")]
    return "\n".join(lines)


def _unlabelled(text: str) -> str:
    """Without the number of the task, where each line has the same (one task wrote it all)."""
    written = [line for line in text.split("\n") if line.strip()]
    labels = {match[0].strip() if (match := _LABEL.match(line)) else "" for line in written}
    if len(labels) != 1 or "" in labels:
        return text
    return "\n".join(_LABEL.sub("", line) for line in text.split("\n"))


def unbroken(text: str, row: re.Pattern[str]) -> str:
    """Lines that were cut at the width of a terminal put together again, with the blanks at the cut.

    Parameters
    ----------
    text : str
        A table: a first line, and rows that ``row`` matches at their begin; every other line continues the
        one above.
    row : re.Pattern
        Begin of a row.
    """
    lines = text.split("\n")
    width = max(max(len(line) for line in lines), 1)
    whole: list[str] = []
    for line in lines:
        if whole and line.strip() and not row.match(line):
            pieces = -(-len(whole[-1]) // width)
            whole[-1] = whole[-1].ljust(pieces * width) + line
        else:
            whole.append(line)
    return "\n".join(whole)
