"""Answers that a page and its API share: the use cases, each asked once and kept a while.

Predictions share caches and are computed one at a time; a second thread would only wait for the
first one's processor.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from advisor.advice.asked import advice_for, no_mtp_answer, request_from
from advisor.advice.machine import Machine
from advisor.advice.machine import load as load_machine
from advisor.domain.nouns import Advice, AdvisorError, Request
from advisor.explore.sweep import sweep
from advisor.explore.values import Sweep
from advisor.knowledge import store as knowledge
from advisor.serve.question import Question

Answer = TypeVar("Answer")
KEPT = 128  # answers of each kind; one is some 100 kB
LOADS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # of the curve


class Kept:
    """The last answers, by question."""

    def __init__(self, most: int = KEPT) -> None:
        self.most = most
        self._known: OrderedDict[Any, Any] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Any, make: Callable[[], Answer]) -> Answer:
        """The answer for a key, made where there is none yet. What `make` raises is not kept."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                found: Answer = self._known[key]
                return found
            made = make()
            self._known[key] = made
            while len(self._known) > self.most:
                self._known.popitem(last=False)
            return made


_advice, _curves = Kept(), Kept()


def advice(question: Question) -> Advice:
    """What `advisor recommend` answers. Raises AdvisorError in one sentence."""
    plain = no_mtp_answer(question.asked())
    if plain:
        raise AdvisorError(plain)
    if question.machine:  # its file may have changed
        return advice_for(question.asked())
    return _advice.get(question, lambda: advice_for(question.asked()))


def curve(question: Question) -> Sweep:
    """Gain against requests at once, one curve a k, for the question's own setting.

    Engine, release and quantisation are those of the question's answer, so that all loads share
    one curve.
    """
    facts = advice(question).facts
    chosen = {
        "engine": facts.engine,
        "engine_version": facts.engine_version,
        "quant": facts.quant.id if facts.quant is not None else None,
        "concurrency": max(LOADS[-1], question.concurrency),
    }
    pinned = question.model_copy(update=chosen)
    if question.machine:
        return _swept(pinned)
    return _curves.get(pinned, lambda: _swept(pinned))


def _swept(question: Question) -> Sweep:
    request, machine = request_of(question)
    loads = sorted({*LOADS, question.concurrency})
    return sweep(request, {"concurrency": loads}, machine=machine)


def request_of(question: Question) -> tuple[Request, Machine | None]:
    """The request and the user's machine where one is named. Raises AdvisorError."""
    asked = question.asked()
    machine = load_machine(name) if (name := asked.pop("machine")) else None
    if machine is not None and not asked["hw"]:
        asked |= {"hw": machine.hardware, "gpus": asked["gpus"] or machine.gpus}
    return request_from(asked), machine


def link_of(source: str) -> tuple[str, str]:
    """(title, address to link to) of a source; both "" where it has none."""
    entry = knowledge.source_of(source)
    if entry is None:
        return "", ""
    address = entry.address if entry.address.startswith("https://") else ""
    words = ", ".join(part for part in (entry.title, entry.date) if part)
    return words, address.split()[0] if address else ""
