"""`advisor watch`: a running server read from outside, and what to change about its drafts."""

from __future__ import annotations

import time
from typing import Any

import click

from advisor.advice.own_runs.watching import advise, observe
from advisor.cli.lazy import HELP
from advisor.cli.options import setting_options
from advisor.cli.recommend import page_width, write
from advisor.readers.results import server as client
from advisor.render.watch_text import watch_text


@click.command(context_settings=HELP)
@click.option("--url", required=True, help="The server, http://HOST:PORT.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.2, 3600),
    default=30,
    show_default=True,
    help="Observation time, s.",
)
@setting_options
def watch(url: str, seconds: float, **asked: Any) -> None:
    """Observe a running server and recommend speculation on, off or another k.

    Reads /metrics twice, /v1/models and /props; sends nothing else. Load, lengths, acceptance
    and KV use are those between the two readings. With --hw the current traffic is compared with a
    prediction.
    """
    server = client.describe(client.checked_url(url))
    before, start = client.counters(server.url), time.monotonic()
    time.sleep(seconds)
    after = client.counters(server.url)
    seen = observe(server, before, after, time.monotonic() - start)
    write(watch_text(seen, advise(seen, asked), page_width()))
