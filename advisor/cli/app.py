"""The command line: a lazy table of commands, so that each one imports only what it needs."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from io import StringIO

import click

from advisor.cli.base import HELP, Command, LazyGroup, say
from advisor.domain.nouns import AdvisorError
from advisor.domain.printable import printable
from advisor.domain.spelling import nearest_word
from advisor.prediction.threads import VARIABLE

# what the help says of each, which imports none of them: the first sentence of its own help
COMMANDS = {
    "recommend": Command(
        "recommend",
        "Recommend speculative decoding on or off, with k, expected gain, reasons and launch "
        "command.",
    ),
    "compose": Command(
        "recommend", "Print the recommended launch as a complete docker-compose.yml."
    ),
    "sweep": Command("explore", "Show the gain over the load, one curve per k."),
    "plan": Command(
        "explore",
        "Plan one or two servers, with or without speculation, for several workloads on one "
        "machine.",
    ),
    "compare": Command(
        "explore",
        "Compare two or three choices and explain the difference: hardware, models, engines, "
        "releases (vllm@0.25.1 vllm@0.32.0), quantisations, or launch files.",
    ),
    "why-not": Command("explore", "Explain why WHAT was not recommended."),
    "schema": Command(
        "recommend",
        "Print the JSON Schema (draft 2020-12) of a command's JSON, or of a hardware or model "
        "file.",
    ),
    "validate": Command(
        "validate",
        "Report settings of a launch that crash, slow down, corrupt output or are silently "
        "ignored.",
    ),
    "explain": Command(
        "knowledge", "Explain one rule (by code or slug): reason, examples, sources."
    ),
    "rules": Command("knowledge", "List the rules that validate and recommend share."),
    "hardware": Command("knowledge", "Known accelerators: list, show, or validate your own file."),
    "models": Command("knowledge", "Known models: list, show, or validate your own file."),
    "knowledge": Command("knowledge", "The fact files of this package."),
    "results": Command("own_runs", "Show what benchmark files contain."),
    "ab": Command(
        "own_runs",
        "Evaluate an A/B benchmark: OFF is the run without speculation, ON the one with it.",
    ),
    "calibrate": Command(
        "own_runs",
        "Add your runs to a private machine file for `advisor recommend --machine NAME`.",
    ),
    "share": Command(
        "own_runs",
        "Write a machine's runs as CSV and YAML, to contribute them to the measurements.",
    ),
    "watch": Command(
        "own_runs", "Observe a running server and recommend speculation on, off or another k."
    ),
    "serve": Command(
        "serve.commands",
        "Serve the web page: recommendations, comparisons, checks, results; JSON API at /api.",
    ),
    "page": Command(
        "serve.commands",
        "Write a static copy of the page with answers for common hardware and loads.",
    ),
    "mcp": Command(
        "serve.commands",
        "Serve tools for agents (Model Context Protocol): recommend, validate, ab and others.",
    ),
    "predict": Command(
        "predict", "Predict the speed-up of every row of a CSV (the columns of the measured runs)."
    ),
    "train": Command(
        "lab", "Fit the model to the measured runs and write models/speedup.json (deterministic)."
    ),
    "evaluate": Command(
        "lab", "Score the model on sources it has not seen and write the model card."
    ),
    "data": Command("data", "The measured runs: check them, add to them, compile their index."),
    "bench": Command("bench", "Benchmark a machine, to base its predictions on measurements."),
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Those that predict, in one thread
ONE_THREAD = _names("recommend compose sweep plan compare why-not validate predict serve page mcp")
# Those that read a model's own file where the user names one; none of those that serve others.
OWN_FILES = _names("recommend compose sweep plan compare why-not models bench")
# Those that end with what they print: their process ends at once (see `leave`).
BRIEF = _names("recommend compose compare why-not validate explain rules hardware models")


# the sections of the help
GROUPS = {
    "Decide": _names("recommend compose plan why-not"),
    "Check": _names("validate explain rules"),
    "Measure": _names("bench results ab calibrate share watch"),
    "Explore": _names("sweep compare hardware models schema"),
    "Serve": _names("serve page mcp"),
    "Maintain": _names("knowledge data predict train evaluate"),
}


class Commands(LazyGroup):
    """The commands of `advisor`."""

    lazy = COMMANDS
    groups = GROUPS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, None where there is none of that name."""
        if cmd_name in ONE_THREAD and "numpy" not in sys.modules:
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
    from importlib.metadata import version  # start-up: not for an answer

    from advisor.knowledge.age import facts_line, stale_line  # start-up: the index

    say(f"advisor, version {version('mtp-advisor')}")
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
    if ctx.invoked_subcommand in OWN_FILES:
        from advisor.knowledge.own_files import model_files  # start-up: not for the help

        ctx.with_resource(model_files())


def leave(status: int) -> None:
    """End at once, without taking apart what was imported; `atexit` functions still run."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main(argv: list[str] | None = None) -> None:
    """Run the command line. Exit status: 0 done, 1 findings, 2 unusable input, 130 interrupted."""
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        brief = argv is None and sys.argv[1:2] != [] and sys.argv[1] in BRIEF
        if brief:
            gc.set_threshold(100_000)  # what little a short command leaves goes with its process
        said = cli.main(args=argv, prog_name="advisor", standalone_mode=False)
        status = said if isinstance(said, int) else 0
        if brief:
            leave(status)
        if status:
            sys.exit(status)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
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
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
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
    sys.stderr.close()  # nothing more of what standard output still holds
