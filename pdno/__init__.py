"""pdno: pseudo-differential neural operators."""
