"""The workbench in the browser, on this machine alone: problems as text, solves with a cancel button, the live page beside.

`desk` is the folder with the texts, `job` the one solve at a time, a command in its own process; `server` joins them and
refuses requests from others. It needs the extra `studio`.
"""
