"""The experiments of the paper: recipes, published values, claims, tables and figures."""

import lazy_loader  # type: ignore[import-untyped]

__getattr__, __dir__, _ = lazy_loader.attach(__name__, ["recipes"])
