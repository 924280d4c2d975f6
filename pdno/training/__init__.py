"""Training: any network on any dataset, from the same command on one device or many."""
