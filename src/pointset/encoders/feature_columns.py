"""Features of a batch held against the spec that the model was made for (:func:`checked`)."""

from __future__ import annotations

from torch import Tensor

from pointset.errors import SpecError
from pointset.specs import Categories, Reals, Spec


def checked(features: Tensor | None, spec: Spec, name: str) -> Tensor:
    """The features as (…, c) of the right kind, or an error that says what the spec expects."""
    if features is None:
        raise SpecError(f"the model was made for {name}={spec}, but the graphs carry no such features")
    columns = 0 if spec is None else spec.width
    if features.dim() > 3:
        raise SpecError(f"{name} has more than one axis of columns; expected (rows, {columns}) for {spec}")
    if features.shape[-1] != columns:
        raise SpecError(f"{name} has {features.shape[-1]} columns; expected {columns} for {spec}")
    if isinstance(spec, Reals):
        return features
    if features.is_floating_point() and not bool((features == features.round()).all()):
        raise SpecError(f"{name} holds fractions; expected whole numbers for {spec}. Use Reals({columns})")
    features = features.long()
    if isinstance(spec, Categories) and features.numel():
        for column, size in enumerate(spec.sizes):
            low, high = int(features[..., column].min()), int(features[..., column].max())
            if low < 0 or high >= size:
                raise SpecError(
                    f"column {column} of {name} holds {low} to {high}; expected 0 to {size - 1} for {spec}. "
                    "Give the column more categories, or renumber it"
                )
    return features
