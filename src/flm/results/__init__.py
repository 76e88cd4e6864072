"""What runs return and tell: a status with its sentence, progress, and the answer itself.

A solver records its steps (`progress`: one event and one history for all kinds of work), and ends with a reason. `result`
turns the reason, the error estimate and the tolerance into a word for programs and a sentence for people; only there is it
decided what is called converged, and what was learned from readings gets its standard errors. `solution` is a function of
named axes with its model, its series and its domain.

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
    from flm.results.result import Ending as Ending
    from flm.results.result import Errors as Errors
    from flm.results.result import LearnedFunction as LearnedFunction
    from flm.results.result import Parameter as Parameter
    from flm.results.result import Status as Status
    from flm.results.result import Word as Word
    from flm.results.solution import Solution as Solution
    from flm.results.solution import frame_of as frame_of
else:
    __getattr__ = on_first_use(__name__)
