"""The matrix of a linear map, the reference for statements about the map."""

import torch

from pdno.theory.norms import as_linear_map


def operator_matrix(operator, grid, *, channels=None):
    """One column per channel and point, (O·|N|, I·|N|), float64."""
    apply, zero = as_linear_map(operator, grid, channels)
    basis = torch.eye(zero.numel(), dtype=torch.float64, device=zero.device)
    with torch.no_grad():
        return apply(basis.reshape(-1, *zero.shape[1:])).flatten(1).T.contiguous()
