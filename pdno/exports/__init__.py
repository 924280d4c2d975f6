"""Trained operators as files that run without pdno."""
