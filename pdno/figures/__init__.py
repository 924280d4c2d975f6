"""Figures of plain arrays: fields, trajectories, training curves; no model is needed."""
