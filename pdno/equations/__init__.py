"""What is solved: evolution equations keep the contract of `base`, `darcy` is the elliptic one."""
