"""What runs return and tell: the status and its sentence, progress, the abstract result, and the solution of a problem.

Names are imported on first use: `flm.results.progress` needs nothing but Python.
"""

from typing import TYPE_CHECKING

from flm._lazy import on_first_use

if TYPE_CHECKING:
    from flm.results.progress import Listener as Listener
    from flm.results.progress import Progress as Progress
    from flm.results.progress import Record as Record
    from flm.results.progress import listener as listener
    from flm.results.progress import silent as silent
    from flm.results.progress import within as within
    from flm.results.result import AbstractResult as AbstractResult
    from flm.results.result import Parameter as Parameter
    from flm.results.solution import Errors as Errors
    from flm.results.solution import Piece as Piece
    from flm.results.solution import Solution as Solution
    from flm.results.status import Ending as Ending
    from flm.results.status import Status as Status
    from flm.results.status import Word as Word
else:
    __getattr__ = on_first_use(
        __name__,
        progress=("Listener", "Progress", "Record", "listener", "silent", "within"),
        result=("AbstractResult", "Parameter"),
        solution=("Errors", "Piece", "Solution"),
        status=("Ending", "Status", "Word"),
    )
