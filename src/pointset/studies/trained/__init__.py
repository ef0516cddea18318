"""What a trained model counts and measures on graphs that it has not seen."""
