"""Figures of plain arrays: `style` for all of them, `fields` as maps, `curves` as lines."""
