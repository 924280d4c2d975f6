"""Random inputs: `gaussian` draws Gaussian fields, `laws` has the four laws of the paper."""
