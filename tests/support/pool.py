"""Tests side by side. Most of a test with mpirun is waiting for launchers, so the cores carry more
of them than there are; but ranks of MPICH spin where they wait, and a test that counts on a core
for each rank has the machine to itself."""

import concurrent.futures
import functools
import os
import threading

PLACES = int(os.environ.get("SCR_TEST_JOBS", 2 * (os.cpu_count() or 1)))
ALONE = PLACES
HALF = -(-PLACES // 2)


def once(function):
    """What it returns, computed once for the same arguments, whoever asks at the same time."""
    lock, cached = threading.Lock(), functools.cache(function)

    @functools.wraps(function)
    def call(*arguments):
        with lock:
            return cached(*arguments)

    return call


class Places:
    """What the machine carries at once. Tests take their places in the order of their coming."""

    def __init__(self, count=PLACES):
        self.count = self.free = count
        self.turn = threading.Lock()
        self.changed = threading.Condition()

    def take(self, weight):
        weight = min(weight, self.count)
        with self.turn, self.changed:  # a heavy one is not overtaken for ever
            self.changed.wait_for(lambda: self.free >= weight)
            self.free -= weight
        return weight

    def give(self, weight):
        with self.changed:
            self.free += weight
            self.changed.notify_all()


def run_all(items, weight_of, attempt):
    """Calls `attempt` with each item, as many at a time as their weights allow; returns what it
    returned, in the order of the items."""
    places = Places()

    def one(item):
        taken = places.take(weight_of(item))
        try:
            return attempt(item)
        finally:
            places.give(taken)

    with concurrent.futures.ThreadPoolExecutor(PLACES) as threads:
        return list(threads.map(one, items))
