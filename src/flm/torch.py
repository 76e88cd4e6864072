"""The FLM as a torch module (the extra `torch`), its weights interchangeable with `flm.FLM` both ways."""
# Where torch is not installed, the type checker takes this very file for it.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np

from flm.domains import AbstractDomain
from flm.models import FLM as JaxFLM
from flm.models.base import InputMap
from flm.series import sign_matrix
from flm.series.arrays import device
from flm.wording import ExtraMissingError, InputError, InputTypeError

try:
    import torch  # pyright: ignore[reportMissingImports]
except ImportError as error:
    remedy = "Install it with pip install 'fourier-learning-machines[torch]'."
    raise ExtraMissingError(f"flm.torch must have torch 2.13.0; got none. {remedy}") from error


class FLM(torch.nn.Module):
    """The Fourier Learning Machine as a `torch.nn.Module`: the same function, start and parameters as `flm.FLM`.

    f(x) = sum_n sum_i A_i cos((e_i * n) . z - phi_i),  z = 2 pi (x - center) / period  (paper, Section 4).

    Built from operations that torch differentiates to any order, so it is a drop-in network for physics-informed
    training in torch. Training with `flm.train`, which knows the derivatives in closed form, is several times faster.

    Args:
        num_inputs: m, or a domain, whose axes and extent then set the input map.
        num_subnets: N.
        key, period, num_outputs, frequencies, train_frequencies: as for `flm.FLM`; the same key gives the same start.
        dtype: of the parameters; by default torch's default.

    Example:
        >>> import flm, flm.torch, torch
        >>> net = flm.torch.FLM(flm.Box(x=(0, 1), t=(0, 1)), 25, key=0)
        >>> net(torch.zeros(7, 2)).shape
        torch.Size([7])
        >>> net.to_flm().num_parameters
        150
    """

    center: torch.Tensor
    scale: torch.Tensor
    signs: torch.Tensor

    def __init__(
        self, num_inputs: int | AbstractDomain, num_subnets: int, *, dtype: torch.dtype | None = None, **options: Any
    ):
        super().__init__()
        self._take(JaxFLM(num_inputs, num_subnets, **options), dtype or torch.get_default_dtype())

    @classmethod
    def from_flm(cls, model: JaxFLM, *, dtype: torch.dtype | None = None) -> FLM:
        """A module with the weights of an `flm.FLM`, in its precision unless `dtype` says otherwise."""
        if not isinstance(model, JaxFLM):
            raise InputTypeError(f"`model` must be an flm.FLM; got {type(model).__name__}.")
        module = cls.__new__(cls)
        torch.nn.Module.__init__(module)
        module._take(model, dtype or getattr(torch, str(model.frequencies.dtype)))
        return module

    def _take(self, model: JaxFLM, dtype: torch.dtype) -> None:
        tensor = lambda value: torch.tensor(np.asarray(value), dtype=dtype)
        self.frequencies = torch.nn.Parameter(tensor(model.frequencies), requires_grad=model.train_frequencies)
        self.amplitudes = torch.nn.Parameter(tensor(model.amplitudes))
        self.phases = torch.nn.Parameter(tensor(model.phases))
        self.register_buffer("center", tensor(model.map.center))
        self.register_buffer("scale", tensor(model.map.scale))
        self.register_buffer("signs", tensor(sign_matrix(model.num_inputs)), persistent=False)
        self._template = model

    def to_flm(self) -> JaxFLM:
        """The same function as an `flm.FLM`, in this module's precision."""
        arrays = [device(p.detach().cpu().numpy()) for p in (self.frequencies, self.amplitudes, self.phases)]
        model = eqx.tree_at(lambda f: (f.frequencies, f.amplitudes, f.phases), self._template, arrays)
        center, scale = (tuple(map(float, v.cpu())) for v in (self.center, self.scale))
        given = self._template.map
        if np.array_equal(np.array([center, scale], np.float32), np.array([given.center, given.scale], np.float32)):
            return model  # the map as it was given, not as a lower precision rounded it
        return eqx.tree_at(lambda f: f.map, model, InputMap(center, scale, given.axes))

    @property
    def num_parameters(self) -> int:
        """How many numbers training may change."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Values (P,), or (P, K) for several outputs, at points (P, m); one input: also (P,)."""
        m = self.frequencies.shape[1]
        if m == 1 and points.ndim == 1:
            points = points[:, None]
        if points.ndim == 0 or points.shape[-1] != m:
            raise InputError(f"`points` must have shape (P, {m}); got {tuple(points.shape)}.")
        z = (points - self.center) * self.scale
        k = (self.frequencies[:, None, :] * self.signs).reshape(-1, m)
        outputs = self.amplitudes.shape[2:]
        A, phi = self.amplitudes.reshape(len(k), *outputs), self.phases.reshape(len(k), *outputs)
        theta = z @ k.T
        if not outputs:
            return torch.cos(theta - phi) @ A
        return (torch.cos(theta[..., None] - phi) * A).sum(dim=-2)

    def extra_repr(self) -> str:
        """What `print` shows inside the parentheses."""
        (n, m), outputs = self.frequencies.shape, self.amplitudes.shape[2:]
        return f"num_inputs={m}, num_subnets={n}, num_outputs={outputs[0] if outputs else 1}"
