"""What a build is to reach, beside what was measured in this run: the table at the end."""

# Key, what it is, the most it may be, how it is told.
AIMS = (
    ("blocked SINGLE", "SINGLE: blocked, of a plain write", 1.1, "x {:.2f}"),
    ("blocked before PARTNER", "PARTNER: blocked, of the older build's", 0.6, "x {:.2f}"),
    ("blocked before XOR", "XOR: blocked, of the older build's", 0.6, "x {:.2f}"),
    ("blocked before RS, 2 losses", "RS, 2 losses: blocked, of the older build's", 0.6, "x {:.2f}"),
    ("blocked before RS, 3 losses", "RS, 3 losses: blocked, of the older build's", 0.6, "x {:.2f}"),
    ("helper XOR", "XOR, a free core: added to the run, of a plain write", 0.5, "x {:.2f}"),
    ("waits 0", "XOR, no waits: added to the run, of a plain write", 2.1, "x {:.2f}"),
    ("waits 15", "XOR, 15 % in waits: added to the run", 1.5, "x {:.2f}"),
    ("waits 35", "XOR, 35 % in waits: added to the run", 1.1, "x {:.2f}"),
    ("start", "start with nothing lost, beyond MPI_Init", 30, "{:.0f} ms"),
    ("rebuild XOR 1", "rebuild, XOR, 1 lost: of the older build's", 0.5, "x {:.2f}"),
    ("rebuild RS, 2 losses 2", "rebuild, RS, 2 lost: of the older build's", 0.5, "x {:.2f}"),
    ("4 KiB before XOR", "4 KiB, XOR: of the older build's", 0.5, "x {:.2f}"),
    ("idle Allreduce", "idle Allreduce: the hook", 20, "{:.0f} ns"),
    ("idle Barrier", "idle Barrier: the hook", 20, "{:.0f} ns"),
    ("memory", "memory of a rank", 3, "{:.1f} MiB"),
    ("flush RAM", "flush on RAM disk: time of cp's", 1.1, "x {:.2f}"),
    ("flush warm", "flush, warm: time of cp's", 1.1, "x {:.2f}"),
    ("flush cold", "flush, cold: time of cp's", 1.1, "x {:.2f}"),
    ("many files", "many small files, start and end: time of cp's", 2, "x {:.2f}"),
)
_measured = {}


def note(key, value):
    """What was measured; of several MPIs the worst counts."""
    assert any(key == aim[0] for aim in AIMS), key
    _measured[key] = max(value, _measured.get(key, value))


def note_if_aimed(key, value):
    if any(key == aim[0] for aim in AIMS):
        note(key, value)


def not_there(key, why):
    """Why it was not measured."""
    _measured.setdefault(key, why)


def table(whole):
    """Prints it: all of it if the run was `whole`, else what was measured."""
    left_out = 0
    print(f"\n{'aim':57} {'at most':>10} {'measured':>12}", flush=True)
    for key, what, most, form in AIMS:
        if key not in _measured and not whole:
            left_out += 1
            continue
        found = _measured.get(key, "not measured")
        if isinstance(found, str):
            print(f"{what:57} {form.format(most):>10} {found:>12}")
            continue
        verdict = "met" if found <= most else "not met"
        print(f"{what:57} {form.format(most):>10} {form.format(found):>12}   {verdict}")
    if left_out:
        print(f"{left_out} more are for other parts")
