"""Trained operators for other places: files that run without pdno.

frozen     an operator on one grid, in real arithmetic
export     ONNX, torch.export, AOTInductor and safetensors files, run and compared when written
"""
