"""Exit statuses, in one place, and what ends a command early."""

OK, FOUND, MISTAKE, UNSURE, INCOMPLETE, FAULT, INTERRUPTED = 0, 1, 2, 3, 4, 70, 130

MEANINGS = {
    OK: "fine",
    FOUND: "findings: something is worse, or a check failed",
    MISTAKE: "a mistake in what was asked for; one line says which",
    UNSURE: "not enough data to decide",
    INCOMPLETE: "episodes without an outcome: an endpoint failed, a limit stopped the run, or the workbench failed",
    FAULT: "a fault of the workbench",
    INTERRUPTED: "stopped by Ctrl-C; what was finished is kept",
}


class Interrupted(Exception):  # noqa: N818 (not an error: somebody said stop)
    """Somebody stopped a command; the text says what is kept and how to go on."""
