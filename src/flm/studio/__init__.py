"""The workbench in the browser, on this machine alone: problems as text, solves with a cancel button, the live page beside.

`desk` is the folder with the texts, `job` the one solve at a time, a command in a process of its own; `server` joins them and
keeps strangers out. Needs the extra `studio`.
"""
