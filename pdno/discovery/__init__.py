"""Discovery: equations u_t = A(D)u + Σ (a(D)u)·(b(D)u) + f(x), learned from trajectories."""
