"""Files → graphs. Imports points, never encoders."""
