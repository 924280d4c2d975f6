"""How equations are solved: in float64 and with a checked result."""
