"""A second and a third try, for what a machine that stands still breaks now and then."""


def three_times(attempt):
    """Calls `attempt` until it raises nothing, three times at most. Only for limits of seconds in
    what is tested, which a machine that stands still exceeds now and then: what is broken is broken
    each time."""
    for _ in range(2):
        try:
            return attempt()
        except AssertionError as error:
            print(f"     once more, after: {str(error).partition(chr(10))[0]}", flush=True)
    return attempt()
