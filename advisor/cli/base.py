"""What every command shares: groups that import a command when it runs, and output."""

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from advisor.domain.nouns import AdvisorError
from advisor.domain.patterns import lazy_re
from advisor.domain.printable import printable_lines
from advisor.domain.records import NamedTuple

TRAINING = ("jinja2", "pandas", "scipy", "sklearn")  # libraries of the laboratory's commands
_COLOUR = lazy_re(r"(\x1b\[(?:0|1|3[1-6])m)")  # what our own headings and severities are set in


def say(text: object, *, err: bool = False, end: str = "\n", color: bool = False) -> None:
    """Print lines of text, the one way in which text leaves a command: what cannot be seen, and
    what the encoding lacks, becomes an escape; with `color` only colours stay.
    """
    encoding = (sys.stderr if err else sys.stdout).encoding or "utf-8"
    parts = _COLOUR.split(f"{text}{end}") if color else [f"{text}{end}"]
    shown = "".join(part if i % 2 else printable_lines(part) for i, part in enumerate(parts))
    shown = shown.encode(encoding, "backslashreplace").decode(encoding)
    click.echo(shown, nl=False, err=err, color=color or None)


def version() -> str:
    """The package's version."""
    from importlib import metadata  # start-up: not for an answer

    try:
        return metadata.version("mtp-advisor")
    except metadata.PackageNotFoundError:
        return "development"  # a checkout that is not installed


def import_extra(extra: str, module: str) -> Any:
    """A module that an extra of the package brings. Raises AdvisorError where it is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("advisor"):
            raise
        raise _extra_error(error, extra) from None


def _extra_error(error: ModuleNotFoundError, extra: str) -> AdvisorError:
    return AdvisorError(
        f"{error.name} is not installed: pip install 'mtp-advisor[{extra}]', or in a checkout "
        f"pip install -e '.[{extra}]'"
    )


# Named by the two main commands too: click keeps the help option of a command's first context,
# which may have no parent.
HELP = {"help_option_names": ["-h", "--help"]}
Option = Callable[[Any], Any]


def option(names: str, text: str | None = None, kind: Any = None, **more: Any) -> Option:
    """`--FLAG`, then the parameter's name. `kind`: a type, words, or bool; a default is shown."""
    flag, *name = names.split()
    if kind is bool:
        return click.option(f"--{flag}", *name, is_flag=True, help=text, **more)
    kind = click.Choice(kind) if isinstance(kind, list | tuple) else kind
    shown = {"show_default": True} if more.get("default") is not None else {}
    return click.option(f"--{flag}", *name, type=kind, help=text, **{**shown, **more})


def form_option(*forms: str, text: str | None = None) -> Option:
    """--format, the first of these by default."""
    return option("format form", text, forms, default=forms[0])


def with_options(*options: Option) -> Option:
    """Several options as one decorator, in the order of the help."""

    def decorate(command: Any) -> Any:
        for one in reversed(options):
            command = one(command)
        return command

    return decorate


def path_type(kind: str = "", **more: Any) -> Any:
    """The type of a path: to a "file", to a "folder", or to either."""
    from pathlib import Path  # start-up: only for commands that take one

    closed = {"file": {"dir_okay": False}, "folder": {"file_okay": False}}.get(kind, {})
    return click.Path(path_type=Path, **closed, **more)


class Command(NamedTuple):
    """Where a command is and what the help of its group says of it."""

    module: str  # of advisor.cli
    summary: str

    @property
    def target(self) -> str:
        """The whole name of the module."""
        return f"advisor.cli.{self.module}"


class LazyGroup(click.Group):
    """Commands imported when they run; one that needs a checkout says so where there is none."""

    lazy: Mapping[str, Command] = {}
    groups: Mapping[str, Collection[str]] = {}  # title -> commands

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; 141, as of other programs, where nobody reads its output any more."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click itself would exit with the status of findings
            raise click.exceptions.Exit(141) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all command names, in the order of the help."""
        return list(self.lazy)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does, without importing it; of those that are installed."""
        width = max(map(len, self.lazy))
        for title, names in self.groups.items():
            lines = [
                (name.ljust(width), self.lazy[name].summary)
                for name in names
                if find_spec(self.lazy[name].target) is not None
            ]
            with formatter.section(title):
                formatter.write_dl(lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, None where there is none of that name."""
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        try:
            module = import_module(self.lazy[cmd_name].target)
        except ModuleNotFoundError as error:
            # advisor.lab and the commands over it
            if (error.name or "").partition(".")[0] in TRAINING:
                raise _extra_error(error, "train") from None
            if not (error.name or "").startswith(("advisor.lab", "advisor.cli.")):
                raise
            return _needs_a_checkout(cmd_name)
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command


def _needs_a_checkout(name: str) -> click.Command:
    """A command whose code and data stay in the repository: it says so instead of failing."""

    def refuse(**_: object) -> None:
        raise AdvisorError(
            f"`advisor {name}` needs a checkout of the repository: the measurements that it reads "
            "or writes are not part of the installed package."
        )

    return click.Command(
        name,
        callback=refuse,
        help="Needs a checkout of the repository.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=False,
    )
