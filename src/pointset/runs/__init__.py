"""What a run is: recipe, metrics, folder, result, records. No torch at import."""
