"""BREC by its published protocol: which of 400 pairs a model, or an invariant, tells apart."""
