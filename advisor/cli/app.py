"""The command line: a lazy table of commands, so that each one imports only what it needs."""

import atexit
import gc
import os
import signal
import sys
from io import StringIO

import click

from advisor.cli.base import HELP, Command, LazyGroup, say, version
from advisor.domain.nouns import AdvisorError
from advisor.domain.printable import printable
from advisor.domain.spelling import nearest_word
from advisor.prediction.threads import VARIABLE

# Name, module, section of the help, habits; then the first sentence of its own help, which so needs
# no import. thread: it predicts, in one thread; own: reads a model's file where the user names one
# (none of those that serve others); brief: its process ends at once with what it prints (`leave`)
_TABLE = """\
recommend recommend Decide thread own brief: Recommend speculative decoding on or off, with k,
  expected gain, reasons and launch command.
compose recommend Decide thread own brief: Print the recommended launch as a complete
  docker-compose.yml.
sweep explore Explore thread own: Show the gain over the load, one curve per k.
plan explore Decide thread own: Plan one or two servers, with or without speculation, for several
  workloads on one machine.
compare explore Explore thread own brief: Compare two or three choices and explain the difference:
  hardware, models, engines, releases (vllm@0.25.1 vllm@0.32.0), quantisations, draft methods.
why-not explore Decide thread brief: Explain why WHAT was not recommended.
schema recommend Explore: Print the JSON Schema (draft 2020-12) of a command's JSON, or of a
  hardware or model file.
validate validate Check thread brief: Report settings of a launch that crash, slow down, corrupt
  output or are silently ignored.
explain knowledge Check brief: Explain one rule (by code or slug): reason, examples, sources.
rules knowledge Check brief: List the rules that validate and recommend share.
hardware knowledge Explore brief: Known accelerators: list, show, or validate your own file.
models knowledge Explore own brief: Known models: list, show, or validate your own file.
knowledge knowledge Maintain: The fact files of this package.
results own_runs Measure: Show what benchmark files contain.
ab own_runs Measure: Evaluate an A/B benchmark: OFF is the run without speculation, ON the one with
  it.
calibrate own_runs Measure: Add your runs to a private machine file for `advisor recommend --machine
  NAME`.
receipt receipts Measure: Write the receipt of an A/B: one JSON and one HTML file, without names,
  hosts or prompts.
share receipts Measure: Write a machine's runs as a receipt, to contribute them to the measurements.
watch own_runs Measure: Observe a running server and recommend speculation on, off or another k.
serve serve.commands Serve thread: Serve the web page: recommendations, comparisons, checks,
  results; JSON API at /api.
page serve.commands Serve thread: Write a static copy of the page with answers for common hardware
  and loads.
mcp serve.commands Serve thread: Serve tools for agents (Model Context Protocol): recommend,
  validate, ab and others.
predict predict Maintain thread: Predict the speed-up of every row of a CSV (the columns of the
  measured runs).
train lab Maintain: Fit the model to the measured runs and write models/speedup.json
  (deterministic).
evaluate lab Maintain: Score the model on sources it has not seen and write the model card.
data data Maintain: The measured runs: check them, add to them, compile their index.
bench bench Measure own: Benchmark a machine, to base its predictions on measurements.
"""
COMMANDS: dict[str, Command] = {}
_SECTIONS = ("Decide", "Check", "Measure", "Explore", "Serve", "Maintain")
GROUPS: dict[str, list[str]] = {title: [] for title in _SECTIONS}
_HABITS: dict[str, set[str]] = {"thread": set(), "own": set(), "brief": set()}
for _row in _TABLE.replace("\n  ", " ").splitlines():
    _head, _, _summary = _row.partition(": ")
    _name, _module, _section, *_words = _head.split()
    COMMANDS[_name] = Command(_module, _summary)
    GROUPS[_section].append(_name)
    for _word in _words:
        _HABITS[_word].add(_name)


class Commands(LazyGroup):
    """The commands of `advisor`."""

    lazy = COMMANDS
    groups = GROUPS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, None where there is none of that name."""
        if cmd_name in _HABITS["thread"] and "numpy" not in sys.modules:
            # numpy is then spared making threads that a prediction does not use
            os.environ.setdefault(VARIABLE, "1")
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command to run. Raises UsageError with a suggestion for a misspelt name."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            near = nearest_word(name, [*COMMANDS, "--version"], "command")
            near = "--version" if name.lower() in ("version", "ver") else near
            hint = f" Did you mean '{near}'?" if near else ""
            raise click.UsageError(f"No such command '{name}'.{hint}", ctx)
        return super().resolve_command(ctx, args)


def show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version and the age of the facts, and exit."""
    if not wanted or ctx.resilient_parsing:
        return
    from advisor.knowledge.age import facts_line, stale_line  # start-up: the index

    say(f"advisor, version {version()}")
    say(stale_line() or facts_line())
    ctx.exit()


@click.group(cls=Commands, context_settings={**HELP, "max_content_width": 100})
@click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=show_version,
    help="Show the version and the date of the facts, and exit.",
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Configuration advisor for speculative decoding (mainly MTP) on vLLM, SGLang and
    llama-server.
    """
    if ctx.invoked_subcommand in _HABITS["own"]:
        from advisor.knowledge.own_files import model_files  # start-up: not for the help

        ctx.with_resource(model_files())


def leave(status: int) -> None:
    """End at once, without taking apart what was imported; `atexit` functions still run."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main(argv: list[str] | None = None) -> None:
    """Run a command: exit 0 done, 1 findings, 2 unusable input, 130 interrupted, 141 unread."""
    try:
        sys.stdout, sys.stderr = (x or StringIO() for x in (sys.stdout, sys.stderr))  # if closed
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        brief = argv is None and sys.argv[1:2] != [] and sys.argv[1] in _HABITS["brief"]
        if brief:
            gc.set_threshold(100_000)  # what little a short command leaves goes with its process
        said = cli.main(args=argv, prog_name="advisor", standalone_mode=False)
        status = said if isinstance(said, int) else 0
        if brief:
            leave(status)
        if status:
            _exit(status)
    except click.exceptions.Exit as stop:
        _exit(stop.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
        say("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        text = StringIO()
        error.show(text)
        say(f"{text.getvalue().rstrip()}{_nearest_choice(error)}", err=True)
        sys.exit(2)
    except AdvisorError as error:
        say(f"Error: {error}", err=True)
        sys.exit(error.status)
    except OSError as error:
        _report_os_error(error)
        sys.exit(2)


def _nearest_choice(error: click.ClickException) -> str:
    """Which of an option's values a misspelt one was meant for."""
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param else None
    if not isinstance(kind, click.Choice):
        return ""
    value = error.message.partition("'")[2].partition("'")[0]
    near = nearest_word(value.lower(), [str(choice) for choice in kind.choices], "value")
    return f" Did you mean '{near}'?" if near else ""


def _report_os_error(error: OSError) -> None:
    """One sentence of what the system refused: a file or folder named, or else the output."""
    why = error.strerror or error
    if error.filename is not None:
        say(f"Error: {printable(str(error.filename))}: {str(why).lower()}", err=True)
        return
    say(f"Error: cannot write the answer: {why}.", err=True)
    _drop_output()


def _exit(status: int) -> None:
    """Exit with this status, also where the terminal is gone."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    sys.exit(status)


def _drop_output() -> None:
    """What is still to be written goes nowhere: Python would try again, and exit with 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
