"""What runs return and tell: the status and its sentence, progress, the abstract result, and the solution of a problem."""

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
