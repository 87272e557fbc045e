"""Answers that a page and its API share: the use cases, each asked once and kept a while.

Predictions share caches and are computed one at a time; a second thread would only wait for the
first one's processor. Who asks for what is known does not wait for them, and only so many wait.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from typing import Any, Generic, TypeVar

from advisor.advice import resolve
from advisor.advice.explore.sweep import pin_choices, sweep
from advisor.advice.explore.values import LoadPoint, Policy, Sweep
from advisor.advice.explore.within import with_users
from advisor.advice.questions import advice_for, no_mtp_answer, policy_for
from advisor.advice.questions import question as request_of
from advisor.cli.serve.question import FieldError, Question
from advisor.domain.nouns import Advice

Answer = TypeVar("Answer")
KEPT = 128  # answers of each kind; one is some 100 kB
LOADS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # of the curve
MOST_WAITING = 40  # questions; the last one waits some 6 s on a free core


class Busy(Exception):
    """More is asked than can be answered soon: ask again."""

    seconds = 3  # after which


_places, _computing = BoundedSemaphore(MOST_WAITING), Lock()


@contextmanager
def turn() -> Iterator[None]:
    """The one place where something is computed. Raises Busy where too many wait for it."""
    if not _places.acquire(blocking=False):
        raise Busy(f"too many questions wait for an answer: ask again in {Busy.seconds} s")
    try:
        with _computing:
            yield
    finally:
        _places.release()


class AnswerCache(Generic[Answer]):
    """The last answers, by question."""

    def __init__(self, most: int = KEPT) -> None:
        self.most = most
        self._known: OrderedDict[Any, Answer] = OrderedDict()
        self._lock = Lock()  # held for moments only

    def lookup(self, key: Any) -> Answer | None:
        """The answer for a key where there is one."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def get(self, key: Any, make: Callable[[], Answer], keep: bool = True) -> Answer:
        """The answer for a key, made where there is none, kept unless `keep` is off."""
        if not keep:
            with turn():
                return make()
        if (known := self.lookup(key)) is not None:
            return known
        with turn():
            if (known := self.lookup(key)) is not None:  # made while this one waited
                return known
            answer = make()
        with self._lock:
            self._known[key] = answer
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        return answer


_advice: AnswerCache[Advice] = AnswerCache()
_quick: AnswerCache[Advice] = AnswerCache()  # without what would change the answer
_curves: AnswerCache[Sweep] = AnswerCache()
_with_k: AnswerCache[LoadPoint] = AnswerCache()


def advice(question: Question, what_if: bool = True) -> Advice:
    """The answer; without `what_if` sooner, and without what changes it. Raises AdvisorError."""
    asked = question.as_options()
    plain = no_mtp_answer(asked)
    if plain:
        raise FieldError(plain, "engine")
    if not what_if and (known := _advice.lookup(question)) is not None:
        return known
    kind, keep = _advice if what_if else _quick, not question.machine  # its file may change
    return kind.get(question, lambda: _worked_out(asked, what_if), keep)


def _worked_out(asked: dict[str, Any], what_if: bool) -> Advice:
    """The answer with what would change it, which else waits until somebody reads it."""
    answer = with_users(advice_for(asked, what_if))
    len(answer.would_change)
    return answer


def policy(question: Question) -> Policy | None:
    """The launch for a range of requests at once; None for one number. Raises AdvisorError."""
    if question.concurrency_from is None:
        return None
    with turn():
        return policy_for(question.as_options())


def curve(question: Question) -> Sweep:
    """Gain against requests at once, a curve a k, for the setting of the question's answer."""
    facts = advice(question, what_if=False).facts
    load = max(LOADS[-1], question.concurrency)
    pinned = question.model_copy(update={**resolve.engine_choice(facts), "concurrency": load})
    return _curves.get(pinned, lambda: _swept(pinned), not question.machine)


def with_k(question: Question, advice: Advice, k: int) -> LoadPoint:
    """The load of a question with this k alone, for the setting of its answer."""
    request, _ = pin_choices(advice.request)
    return _with_k.get((question, k), lambda: sweep(request, {"k": (k,)}).loads[0])


def _swept(question: Question) -> Sweep:
    loads = sorted({*LOADS, question.concurrency})
    return sweep(request_of(question.as_options()), {"concurrency": loads})
