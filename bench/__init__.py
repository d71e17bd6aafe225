"""Compare ReAct text with native tool calls; `python -m bench --help`."""
