"""``slurm-topo``: the group of commands, loaded one at a time so that a launch pays for one only."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
import threading
from typing import Any, NoReturn

import click

from slurm_topo import __version__
from slurm_topo.errors import InputError, SlurmTopoError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
# command -> (module, attribute, help of one line); a module is imported only when its command runs.
COMMANDS = {
    "campaign": (
        "slurm_topo.cli.campaign",
        "campaign",
        "A centre's jobs in a simulation, before and after.",
    ),
    "compare": ("slurm_topo.cli.compare", "compare", "Cost before and after, as an audit report."),
    "demo": ("slurm_topo.cli.demo", "demo", "The main job, end to end, in the lab."),
    "judge": ("slurm_topo.cli.judge", "judge", "Simulated times of placements, by SimGrid."),
    "doctor": ("slurm_topo.cli.doctor", "doctor", "Check Slurm's files and ours against the hardware."),
    "lab": ("slurm_topo.cli.lab", "lab", "A throwaway multi-node Slurm cluster on this machine."),
    "machine": ("slurm_topo.cli.machine", "machine", "Show, import and capture machines."),
    "place": ("slurm_topo.cli.place", "place", "Match a communication graph with a machine."),
    "report": ("slurm_topo.cli.report", "report", "What was placed and what it was worth."),
    "sync": ("slurm_topo.cli.sync", "sync", "Read traces and accounting into the history, publish advice."),
    "trace": ("slurm_topo.cli.trace", "trace", "Trace a launch, show and export communication graphs."),
}


class LazyGroup(click.Group):
    """A click group that imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # From the table, so that `slurm-topo --help` imports no command.
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in sorted(COMMANDS)])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config", "config_file", type=click.Path(), envvar="SLURM_TOPO_CONFIG", help="TOML file of settings."
)
@click.option("--debug", is_flag=True, help="Show the Python traceback of an error.")
@click.version_option(__version__, prog_name="slurm-topo")
@click.pass_context
def cli(ctx: click.Context, config_file: str | None, debug: bool) -> None:
    """Places the ranks of unchanged Slurm jobs where their communication wants them to run."""
    ctx.obj = {"config_file": config_file, "debug": debug}


def _output_is_full(error: OSError) -> NoReturn:
    """The commands answer for their own files: what is left is where the shell has sent the output."""
    click.echo(f"slurm-topo: standard output: {error.strerror}; send it elsewhere and run again", err=True)
    # What is still buffered has nowhere to go: no second message at the end of Python.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(InputError.exit_code)


class _Terminated(BaseException):
    """A signal asked us to end: what has been begun is tidied up on the way out, as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        self.number = number


def _terminate(number: int, _frame: Any) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise _Terminated(number)


def _tidy_up_when_terminated() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        # nohup has it ignored.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)


def main(argv: list[str] | None = None) -> Any:
    """Run the command line; returns never, exits with the code of the error's class."""
    _tidy_up_when_terminated()
    try:
        code = cli.main(args=argv, standalone_mode=False, prog_name="slurm-topo")
    except SlurmTopoError as error:
        if "--debug" in (argv if argv is not None else sys.argv):
            raise
        click.echo(f"slurm-topo: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("slurm-topo: interrupted", err=True)
        sys.exit(130)
    except _Terminated as end:
        # Whoever sent the signal is to see that it was what ended us.
        signal.signal(end.number, signal.SIG_DFL)
        os.kill(os.getpid(), end.number)
    except BrokenPipeError:
        # The reader (head, less) has gone: nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        # Our own fault: one line all the same, since a launch records what stands on standard error.
        if "--debug" in (argv if argv is not None else sys.argv):
            raise
        if isinstance(error, OSError) and error.errno in _FULL:
            _output_is_full(error)
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        click.echo(f"slurm-topo: internal error ({text}); run again with --debug and report it", err=True)
        sys.exit(70)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
