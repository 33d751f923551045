"""Where the result of a command goes: standard output, or a file that is complete or not there at all."""

from __future__ import annotations

import click

from slurm_topo.output import write_output


def emit(text: str, output: str | None) -> None:
    """Print the text, or write it to a file.

    Parameters
    ----------
    text : str
        The result.
    output : str or None
        The file; None, empty and ``-`` mean standard output.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    if not output or output == "-":
        click.echo(text, nl=False)
    else:
        write_output(output, text.encode())
