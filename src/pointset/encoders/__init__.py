"""Point groups → representations. Plain torch modules; imports points, knows no dataset."""
