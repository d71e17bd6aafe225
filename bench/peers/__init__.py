"""Other projects' parsers, each run in a virtual environment of its own; never a dependency.

`runner` and `adaptors` are run as files by those environments' Pythons: standard library only.
"""
