"""An alarm for what may never end, such as a learner's loop."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class TooLongError(BaseException):
    """Raised in the middle of what runs too long; no Exception, so that few will catch it."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """End what runs longer, again each second if it will not end; one may stand within another.

    Only a main thread has such an alarm, and Windows has none: there nothing is ended.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return
    began, (rest, again) = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
    if 0 < rest < seconds:  # the one around it ends this, too
        yield
        return

    def ring(*_: object) -> None:
        raise TooLongError(f"ran longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if rest:
            left = max(rest - (time.monotonic() - began), 0.001)
            signal.setitimer(signal.ITIMER_REAL, left, again)
