"""Tests side by side. Most of a test with mpirun is waiting for launchers, so the cores carry more
of them than there are. A test that counts on a core for each rank is quiet itself, and comes when
nothing but its like is left.

Where several parts run beside each other (tests/run.py), each case takes places of the whole run,
too, before it begins: parts that began early have the first claim to them, and the last ones fill
what those leave."""

import concurrent.futures
import contextlib
import functools
import os
import socket
import socketserver
import threading

CORES = os.cpu_count() or 1
PLACES = int(os.environ.get("SCR_TEST_JOBS", 2 * CORES))  # of one part
QUIET = 1 << 20  # half of all that there are, when nobody else is left
HALF = -(-PLACES // 2)
OF_ALL = 2 * PLACES  # of all parts together
RUN = "TEST_RUN_PLACES"  # in the environment of a part: socket and rank of its claim


def once(function):
    """What it returns, computed once for the same arguments, whoever asks at the same time."""
    lock, cached = threading.Lock(), functools.cache(function)

    @functools.wraps(function)
    def call(*arguments):
        with lock:
            return cached(*arguments)

    return call


class Places:
    """What the machine carries at once. Who has the first claim takes places first, and of equal
    claims the one that came first; nobody passes a heavy one, which would wait for ever. What is
    quiet comes after all others, and when they are gone."""

    def __init__(self, count=PLACES):
        self.count = self.free = count
        self.changed = threading.Condition()
        self.waiting, self.came, self.loud = [], 0, 0

    @contextlib.contextmanager
    def held(self, weight, claim=0):
        """Waits for so many places, and has them meanwhile."""
        loud = int(weight != QUIET)
        weight = min(weight, self.count) if loud else self.count // 2
        with self.changed:
            self.came += 1
            mine = (claim if loud else QUIET, self.came)
            self.waiting.append(mine)
            self.changed.wait_for(lambda: min(self.waiting) == mine and self.free >= weight
                                  and (loud or self.loud == 0))
            self.waiting.remove(mine)
            self.take(weight, loud)
        try:
            yield
        finally:
            with self.changed:
                self.take(-weight, -loud)

    def take(self, weight, loud):
        self.free -= weight
        self.loud += loud
        self.changed.notify_all()


class Asked(socketserver.StreamRequestHandler):
    """A case of another process: it has its places until its connection ends."""

    def handle(self):
        claim, weight = map(int, self.rfile.readline().split())
        with self.server.places.held(weight, claim):
            with contextlib.suppress(ConnectionError):  # it has ended while it waited
                self.wfile.write(b"\n")
                self.rfile.read()


class Door(socketserver.ThreadingUnixStreamServer):
    """Where other processes ask for places."""

    daemon_threads, request_queue_size = True, 128

    def __init__(self, path, places):
        super().__init__(str(path), Asked)
        self.path, self.places = path, places
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def environment(self, claim):
        """What a part finds the door by."""
        return {RUN: f"{claim} {self.path}"}


@contextlib.contextmanager
def place_of_the_run(weight):
    """Has places of the whole run meanwhile, where this is a part of one."""
    if RUN not in os.environ:
        yield
        return
    claim, path = os.environ[RUN].split(" ", 1)
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(path)
        door.sendall(f"{claim} {weight}\n".encode())
        assert door.recv(1), "the run that this is a part of has ended"
        yield


def run_all(items, weight_of, attempt):
    """Calls `attempt` with each item, as many at a time as their weights allow; returns what it
    returned, in the order of the items."""
    places = Places()

    def one(item):
        weight = weight_of(item)
        with places.held(weight), place_of_the_run(weight):
            return attempt(item)

    with concurrent.futures.ThreadPoolExecutor(PLACES) as threads:
        return list(threads.map(one, items))


def ordered(items, name_of, first, last=()):
    """The items, those of the names in `first` before the others: what takes long and begins late,
    runs alone in the end. Those in `last` after them: what is quiet."""
    def place(item):
        name = name_of(item)
        return (name in last) - (name in first)

    return sorted(items, key=place)
