"""The paper's recipe: a model of a given size, an optimizer, epochs; for any model and any problem with a strong form.

Data flow as follows. `run` takes the problem's residuals, draws random points of each kind once, and builds the loss from them, a
weighted sum of mean squares (`loss`), whose derivatives in the inputs are the model's own jets. It
runs the epochs in compiled calls (`flm.numerics.descent`), keeps the parameters of the lowest loss, and writes
checkpoints from which a run goes on bit for bit. The answer is a `Solution` without an error estimate: a training loss
bounds no error.
"""
