"""BFCL's single-turn questions as tasks, judged by our judge and by BFCL's own checker.

The data and the checker come from a `bfcl-eval` that the user has: installed without its
requirements, a wheel, a checkout, a folder. Nothing of it is a dependency, and its decoder, which
evaluates what a model said, is never imported.
"""
