"""From what a user has (SMILES, graphs, point sets, files of them) to predictions, row by row in constant memory."""
