"""The matrix of a linear map, the reference for statements about the map."""

import torch

from pdno.theory.norms import as_linear_map


def operator_matrix(operator, grid, *, channels=None):
    """One column per channel and point, (O·|N|, I·|N|), float64."""
    apply, inputs, device = as_linear_map(operator, grid, channels)
    size = inputs * grid.size
    basis = torch.eye(size, dtype=torch.float64, device=device)
    with torch.no_grad():
        return apply(basis.reshape(size, inputs, *grid.shape)).flatten(1).T.contiguous()
