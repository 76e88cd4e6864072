"""The workbench in the browser, on this machine alone: problems as text, solves with a cancel button, the live page beside.

`desk` is the folder with the texts; `server` does one solve at a time, a command in its own process, and refuses requests
from others. It needs the extra `studio`.
"""
