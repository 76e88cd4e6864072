"""How problems are written: functions whose argument names say what they need, expressions as text, TOML files.

A residual such as `lambda u_t, u_xx, alpha: u_t - alpha * u_xx` is read once, when a problem is built: each name is an
axis, a parameter, or an unknown with its derivatives (`arguments`). A parameter may be learned, take
every value of an interval, or jump (`parameters`). A problem as text goes the same way: `outline` reads
a TOML file and knows the place of every mistake, `expressions` compiles formulas to closures of allowed operations, and
the readers of the rooms (`pde/text`, `conservation/text`, `control/text`) build problems from both.
"""
