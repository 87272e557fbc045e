"""Why a report says nothing: no file of it starts a server that we know."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.lint.report import Report


def no_launch_message(report: Report) -> str | None:
    """One sentence where no launch was found, None where there is one."""
    if report.launches:
        return None
    names = ", ".join(one.file for one in report.files[:3]) or "the folder"
    notes = "".join(f"; {note}" for one in report.files[:3] for note in one.notes[:3])
    return (
        f"{names}: no launch of vLLM, SGLang or llama-server was found; nothing was checked{notes}"
    )
