"""The datasets of the paper, one module for each family: card, sources, readers. No torch at import."""
